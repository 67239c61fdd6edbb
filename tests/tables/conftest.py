"""What this folder tests needs pyarrow alone: PySpark cannot be imported here.
Comparisons with Spark are in tests/spark."""

from __future__ import annotations

import pytest

from tests.refused_imports import refuse


@pytest.fixture(autouse=True)
def no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, ("pyspark", "py4j"), "tests/tables is for what needs pyarrow alone")
