"""`orbitmq request`: sends a request by hand, and prints its reply."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import orbitmq
from orbitmq.cli.options import Name, Store, Topic, Wait, usual
from orbitmq.client.request.requests import REPLY_WITHIN


def request(
    topic: Topic,
    body: Annotated[str, typer.Argument(help="The message; [bold]-[/] reads it from standard input.")],
    tag: Annotated[str | None, typer.Option("--tag", "-t", help="The tag, by which consumers filter.")] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", "-k", help="Key by which `orbitmq find` finds it; may be repeated.")
    ] = None,
    queue: Annotated[int | None, typer.Option(help=usual("Number of the queue.", "one after another"))] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the reply, above 0.")] = REPLY_WITHIN,
    wait: Wait = 0.0,
    name: Name = None,
    store: Store = None,
) -> None:
    """Send a request to a topic, and write the body of the first reply to standard output.

    A consumer or worker of the topic replies, see docs/request-reply.md.
    """
    content = sys.stdin.buffer.read() if body == "-" else body.encode("utf-8", "surrogateescape")
    with orbitmq.connect(name, store=store, wait=wait) as broker:
        reply = bytes(broker.request(topic, content, timeout, tags=tag, keys=key or (), queue=queue))
    sys.stdout.buffer.write(reply)
    if sys.stdout.isatty() and not reply.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()
