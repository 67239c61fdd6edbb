"""What this folder tests needs pyarrow alone: PySpark cannot be imported here.
Comparisons with Spark are in tests/spark."""

from __future__ import annotations

import pytest

from tests.fast import tmp_path, warm
from tests.refused_imports import refuse

__all__ = ["tmp_path", "warm"]


@pytest.fixture(autouse=True)
def no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, ("pyspark", "py4j"), "tests/tables is for what needs pyarrow alone")
