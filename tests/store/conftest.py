"""A store of which a test composes the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store.layout import StoreLayout
from tests.store.log_builder import LogBuilder
from tests.store.recovery_rig import SETTINGS


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    layout = StoreLayout.at(tmp_path / "store")
    layout.open(SETTINGS)
    return LogBuilder(layout)
