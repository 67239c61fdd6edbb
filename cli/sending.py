"""`orbitmq send`: sends messages by hand."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.markup import escape

import orbitmq
from orbitmq.cli.console import err, out, rate
from orbitmq.cli.exit_codes import INTERRUPTED
from orbitmq.cli.options import Name, Store, Topic, Wait, usual
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.settings import MESSAGE_MAX, MESSAGE_USUAL
from orbitmq.errors import OrbitError, PerhapsStored, TimedOut
from orbitmq.store.delays import DELAY_TOPIC, TIMER_TOPIC

BATCH = 1000
TIMES = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M"]
AROUND_MAX = 64 << 10  # around a body: properties of at most 32 KiB, the topic, the record's fixed part


def send(
    topic: Topic,
    body: Annotated[str, typer.Argument(help="The message; [bold]-[/] reads it from standard input.")],
    tag: Annotated[str | None, typer.Option("--tag", "-t", help="The tag, by which consumers filter.")] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", "-k", help="Key by which `orbitmq find` finds it; may be repeated.")
    ] = None,
    queue: Annotated[int | None, typer.Option(help=usual("Number of the queue.", "one after another"))] = None,
    queue_key: Annotated[
        str | None, typer.Option(help="Messages of one such key go to the same queue, and keep their order.")
    ] = None,
    flushed: Annotated[
        bool | None,
        typer.Option("--flushed/--appended", "-f", help=usual("Wait until the disk, or the log, has it.", "as the topic says")),
    ] = None,
    delay_level: Annotated[
        int, typer.Option(min=0, help="Deliver it later: from 1 (a second) to 18 (two hours), see docs/delay.md.")
    ] = 0,
    delay: Annotated[float | None, typer.Option(min=0, help="Deliver it so many seconds later.")] = None,
    deliver_at: Annotated[
        datetime | None, typer.Option(help="Deliver it at this time; without a time zone, it is local.", formats=TIMES)
    ] = None,
    dedup: Annotated[
        str | None, typer.Option(help="An id of the message: within a window, a second one of this id is not stored.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Send it this many times.")] = 1,
    lines: Annotated[bool, typer.Option("--lines", help="With [bold]-[/]: every line is a message.")] = False,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for a receipt.")] = 30.0,
    wait: Wait = 0.0,
    name: Name = None,
    store: Store = None,
) -> None:
    """Send a message, and print its receipt.

    The receipt says where it is, and how safe:
    [bold]appended[/] survives the death of any process, [bold]flushed[/] that of the machine.
    """
    if queue is not None and queue_key is not None:
        raise typer.BadParameter("--queue and --queue-key exclude each other: give one of them")
    if lines and body != "-":
        raise typer.BadParameter("--lines reads standard input: give - as the body")
    bodies = _bodies(body, lines) * count
    if not bodies:
        err.print("nothing to send: standard input was empty")
        raise typer.Exit(1)
    if dedup is not None and len(bodies) != 1:
        raise typer.BadParameter("--dedup is the id of one message: send one at a time")
    durability = None if flushed is None else "flushed" if flushed else "appended"
    placed: dict[str, Any] = {"queue": queue, "queue_key": queue_key, "durability": durability}
    placed |= {"delay_level": delay_level or None, "delay": delay, "deliver_at": deliver_at}
    # The size of a session follows from its largest message.
    message_max = min(max(MESSAGE_USUAL, max(map(len, bodies)) + AROUND_MAX), MESSAGE_MAX)
    client = orbitmq.connect(name, store=store, wait=wait)
    with client as broker, broker.producer(message_max=message_max, timeout=timeout) as producer:
        if len(bodies) == 1:
            _send_one(producer, topic, bodies[0], tags=tag, keys=key or (), dedup=dedup, **placed)
        else:
            _send_many(producer, topic, bodies, key, tags=tag, **placed)


def _send_one(producer: Producer, topic: str, body: bytes, **fields: Any) -> None:
    receipt = producer.send(topic, body, **fields)
    place = f"{escape(_where(topic, fields))}/{receipt.queue}@{receipt.offset}"
    before = "  stored before" if receipt.duplicate else ""
    out.print(f"[green]{receipt.durability}[/]  {place}  {receipt.size} bytes  {receipt.id}{before}")


def _send_many(producer: Producer, topic: str, bodies: list[bytes], key: list[str] | None, **fields: Any) -> None:
    """Raises: Exit: Ctrl-C was pressed."""
    begun = time.perf_counter()
    first = last = None
    stored = 0
    try:
        for start in range(0, len(bodies), BATCH):
            part = bodies[start : start + BATCH]
            receipts = producer.send_batch(topic, part, keys=[key] * len(part) if key else None, **fields)
            first, last = first or receipts[0], receipts[-1]
            stored += len(part)
    except (OrbitError, KeyboardInterrupt) as error:
        _tell_stored(stored, len(bodies), error)
        if isinstance(error, KeyboardInterrupt):
            with suppress(TimedOut):
                producer.close(0)  # a user who presses Ctrl-C does not want to wait for what is on its way
            raise typer.Exit(INTERRUPTED) from None
        raise
    took = time.perf_counter() - begun
    assert first is not None and last is not None
    what = f"{len(bodies):,} messages to {escape(topic)}"
    where = escape(_where(topic, fields))
    out.print(
        f"[green]{last.durability}[/]  {what} in {took:.3f} s, {rate(len(bodies) / took)}/s"
        f"\nfirst  {where}/{first.queue}@{first.offset}  {first.id}"
        f"\nlast   {where}/{last.queue}@{last.offset}  {last.id}"
    )


def _where(topic: str, fields: dict[str, Any]) -> str:
    """The topic that a receipt's queue and offset belong to: a delayed message waits in another one."""
    if fields["delay_level"]:
        return DELAY_TOPIC
    return topic if fields["delay"] is None and fields["deliver_at"] is None else TIMER_TOPIC


def _tell_stored(stored: int, wanted: int, error: BaseException) -> None:
    """Says how many have a receipt, counted from the first, and how many of the current batch may be stored as well."""
    in_batch = min(BATCH, wanted - stored)
    # If each message of a batch has its verdict, the error carries them.
    receipts = getattr(error, "receipts", None)
    where = f"the first {stored:,} of {wanted:,} messages are stored"
    if receipts is not None and not isinstance(error, PerhapsStored):
        had = len(receipts) - error.failed  # type: ignore[attr-defined]  # beside the receipts
        err.print(f"{where}, and {had:,} of the {in_batch:,} behind them")
    else:
        err.print(f"{where}; of the {in_batch:,} behind them some may be, because they were on their way")


def _bodies(text: str, lines: bool) -> list[bytes]:
    if text != "-":
        return [text.encode("utf-8", "surrogateescape")]
    content = sys.stdin.buffer.read()
    if lines:
        return content.splitlines()
    return [content] if content else []
