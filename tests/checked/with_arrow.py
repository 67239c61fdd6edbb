"""The part of program.py that uses pyarrow. pyarrow ships no types, so pyright knows nothing of a batch, and says so in its
strict mode."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

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
