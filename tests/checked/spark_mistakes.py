"""Mistakes like those of mistakes.py, with Spark."""

from __future__ import annotations

from orbitmq.spark.export import export


def files() -> None:
    export("store", "out", "orders")
    export("store", "out", by="day")
    export("store", "out", columns="value")
    export("store", "out", ["orders"], ful=True)
