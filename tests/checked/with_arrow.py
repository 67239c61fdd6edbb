"""The part of program.py that uses pyarrow. pyarrow ships no types, so pyright knows nothing of a batch, and says so in its
strict mode."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orbitmq
from orbitmq import Consumer
from orbitmq.aio import AsyncConsumer


def poll_arrow(consumer: Consumer) -> int:
    """Rows of a batch."""
    rows: int = consumer.poll_arrow(columns=("queue", "body"), timeout=30).num_rows
    return rows


async def poll_arrow_later(consumer: AsyncConsumer) -> int:
    """The same, awaited."""
    rows: int = (await consumer.poll_arrow(1, timeout=30, columns=["body"])).num_rows
    return rows


def look_at_all(store: Path) -> int:
    """A store as tables, by every call of a dataset."""
    found: orbitmq.Dataset = orbitmq.dataset(str(store), tags="a || b", sql="price > 3", read="appended", allow_gaps=True)
    found = orbitmq.dataset(store, ["orders"], columns=("value", "offset"), start="2020-01-01", end=datetime(2999, 1, 1))
    topics: tuple[str, ...] = found.topics
    batches: Iterator[Any] = found.to_batches()
    each: list[Any] = [*batches, *found, found.to_table(), found.to_reader().read_all()]
    rows: int = sum(part.num_rows for part in each)
    assert found.schema.names == ["value", "offset"] and topics == ("orders",) and rows <= 4 * found.offsets
    return rows
