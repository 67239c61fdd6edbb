"""Fixtures for folders whose tests kill processes, not the machine, and do not ask what a sync does: stores in memory, and
brokers and commands from a warm parent. A conftest imports them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.warm import Parents, warm_starts

__all__ = ["on_disk", "tmp_path", "warm"]


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    return in_memory


@pytest.fixture
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for a broker that nobody told to be small: its log reserves 2 GiB, which memory clears and a disk does not."""
    with tempfile.TemporaryDirectory(dir=tmp_path_factory.getbasetemp()) as folder:
        yield Path(folder)


@pytest.fixture(scope="package", autouse=True)
def warm(warm_parents: Parents) -> Iterator[None]:
    with warm_starts(warm_parents):
        yield
