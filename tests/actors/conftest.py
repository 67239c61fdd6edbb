"""Fixtures of the actors' tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actors.delay_life import DelayLife, settings_of
from tests.fast import warm

__all__ = ["warm"]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that everybody may pass; pytest's own folders belong to root."""
    with tempfile.TemporaryDirectory(prefix="orbitmq-test-") as made:
        Path(made).chmod(0o711)
        monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", f"{made}/run")
        yield Path(made)


@pytest.fixture
def life(in_memory: Path) -> Iterator[DelayLife]:
    living = DelayLife(settings_of(in_memory))
    yield living
    living.end()
