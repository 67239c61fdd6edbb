"""`orbitmq tail`, `find` and `show`: read messages by hand."""

from __future__ import annotations

import select
import sys
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

import orbitmq
from orbitmq.cli.console import counted, err
from orbitmq.cli.options import Json, Name, Store, Topic, Wait
from orbitmq.cli.printing import print_json, print_line, print_whole
from orbitmq.client.client import Client
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.client.message import Message
from orbitmq.errors import CorruptRecord, Fenced

BATCH = 1000
LOOK_S = 0.5  # how often a waiting tail looks whether it should end


def tail(
    topic: Topic,
    start: Annotated[
        str, typer.Option("--from", metavar="earliest|latest|OFFSET", help="Where to begin; an offset counts in every queue.")
    ] = "latest",
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Share the queues with this group's members, and commit what was shown.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", "-t", help="Only these, such as 'paid || refunded'.")] = None,
    sql: Annotated[str | None, typer.Option("--sql", help="Only these, such as 'price > 100'; names are properties.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after this many messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for more, or end where the topic ends.")] = True,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Skip damaged messages, and say which they are.")
    ] = False,
    as_json: Json = False,
    wait: Wait = 0.0,
    name: Name = None,
    store: Store = None,
) -> None:
    """Show messages as they come, until Ctrl-C.

    Without a group nothing is stored: every tail sees all messages.

    With a group, its members share the messages, and the next tail continues where this one ended.
    """
    if start not in ("earliest", "latest") and not start.isdecimal():
        raise typer.BadParameter(f"{start!r} must be earliest, latest or an offset", param_hint="--from")
    if start.isdecimal() and group is not None:
        raise typer.BadParameter(
            "an offset cannot be used with --group, because a group begins where it left off", param_hint="--from"
        )
    show = print_json if as_json else print_line
    shown = 0
    with orbitmq.connect(name, store=store, wait=wait) as broker:
        _wait_for_the_end(broker, topic, follow)
        consumer = broker.consumer(group, topics=[topic], tags=tag, sql=sql, start=_start(start))
        try:
            if start.isdecimal():
                _seek_all(consumer, broker, topic, int(start))
            while count is None or shown < count:
                wanted = BATCH if count is None else min(BATCH, count - shown)
                messages = _next(consumer, wanted, skip_damaged, group)
                for message in messages:
                    show(message)
                shown += len(messages)
                if messages and group is not None:
                    _commit(consumer)
                if messages:
                    sys.stdout.flush()
                elif _nobody_reads() or (not follow and not any(consumer.lag().values())):
                    break
        except KeyboardInterrupt:
            if err.is_terminal:
                err.print()  # after the ^C that the terminal shows
        finally:
            consumer.close()
    if not as_json and err.is_terminal:
        err.print(f"[dim]{counted(shown, 'message')}[/]")


def _wait_for_the_end(broker: Client, topic: str, follow: bool) -> None:
    """Without `follow`, what was acknowledged by now is shown; reput may not have it yet. Raises: TimedOut."""
    if not follow:
        broker.connection.caught_up(f"read {topic!r} to its end", partly=True)


def _next(consumer: Consumer, most: int, skip_damaged: bool, group: str | None) -> list[Message]:
    """The next messages. If damaged ones may be skipped, it reports them and continues after them. Raises: CorruptRecord: they
    may not be skipped."""
    while True:
        try:
            return consumer.poll_batch(most, timeout=LOOK_S)
        except CorruptRecord as error:
            if not skip_damaged or error.topic is None or error.queue is None or error.queue_offset is None:
                raise
            err.print(f"[yellow]skipped[/]  {escape(error.message)}")
            consumer.seek(error.topic, error.queue, error.queue_offset + 1)
            if group is not None:  # the next message, with which this would be committed, may never come
                _commit(consumer, {(error.topic, error.queue): error.queue_offset + 1})


def _nobody_reads() -> bool:
    """True if the reader of a pipe has closed it, as `head` does, so that the command need not wait for the next message to
    find out."""
    look = select.poll()
    try:
        look.register(sys.stdout, 0)
    except (OSError, ValueError):  # no descriptor
        return False
    return bool(look.poll(0))


def _commit(consumer: Consumer, offsets: dict[tuple[str, int], int] | None = None) -> None:
    try:
        consumer.commit(offsets)
    except Fenced as error:  # a queue went to another member, or the broker was restarted
        err.print(f"[dim]some of these come again: {escape(error.message)}[/]")


def _start(text: str) -> Literal["earliest", "latest"]:
    return "latest" if text == "latest" else "earliest"


def _seek_all(consumer: Any, broker: Client, topic: str, offset: int) -> None:
    """Moves every queue to the offset, or to its end if that is lower."""
    bounds = {each.name: each.queues for each in broker.status().topics}
    for queue in bounds.get(topic, ()):
        consumer.seek(topic, queue.queue, max(queue.min_offset, min(offset, queue.max_offset)))


def find(
    topic: Topic,
    key: Annotated[str, typer.Argument(help="One of the keys that it was sent with.")],
    most: Annotated[int, typer.Option(min=1, help="Show at most this many.")] = 32,
    as_json: Json = False,
    name: Name = None,
    store: Store = None,
) -> None:
    """Find the messages that were sent with a key."""
    with orbitmq.connect(name, store=store) as broker:
        found = broker.find(topic, key, most=most)
        for message in found:
            (print_json if as_json else print_line)(message)
        if not found:
            err.print(f"no message of {escape(topic)} has the key {escape(key)}")
            raise typer.Exit(1)


def show(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The id in a receipt: 32 hex digits, or 56.")],
    as_json: Json = False,
    name: Name = None,
    store: Store = None,
) -> None:
    """Show one message with everything about it."""
    with orbitmq.connect(name, store=store) as broker:
        message = broker.message(message_id)
        if as_json:
            print_json(message)
        else:
            print_whole(message)
