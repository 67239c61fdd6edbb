"""Fixtures for folders whose tests kill processes, not the machine, and do not ask what a sync does: stores in memory, and
brokers and commands from a warm parent. A conftest imports them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.warm import warm_starts

__all__ = ["tmp_path", "warm"]


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    return in_memory


@pytest.fixture(scope="package", autouse=True)
def warm() -> Iterator[None]:
    with warm_starts():
        yield
