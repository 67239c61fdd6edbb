"""No test here asks what a sync does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.warm import warm_starts


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    return in_memory


@pytest.fixture(scope="package", autouse=True)
def warm() -> Iterator[None]:
    with warm_starts():
        yield
