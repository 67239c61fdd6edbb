"""Stores: one whose log a test composes, and one that a broker wrote, of which a test damages what it likes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.store.layout import StoreLayout
from tests.fast import tmp_path, warm
from tests.memory import folder_in_memory
from tests.store.log_builder import LogBuilder
from tests.store.recovery_rig import SETTINGS
from tests.store.stored_by_broker import Stored, store_by_broker

__all__ = ["log", "stored", "tmp_path", "warm", "written"]


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    layout = StoreLayout.at(tmp_path / "store")
    layout.open(SETTINGS)
    return LogBuilder(layout)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """A test that damages it restores it."""
    with folder_in_memory(lambda: tmp_path_factory.mktemp("written")) as folder:
        yield store_by_broker(folder / "store", "written")


@pytest.fixture
def stored(written: Stored) -> Iterator[Stored]:
    """The store as the broker left it."""
    yield written
    written.restore()
