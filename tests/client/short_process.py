"""What a client does in a process that has no descriptor, or no memory, left: `short_process.py MEANS BROKER`, run by
test_short_process.py. Only a process of its own can run short without affecting other tests.

Each deed is tried three times: without the resource, when it must raise NoMeans; then with the resource, when it must work.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orbitmq
from orbitmq import aio, errors

KNOBS = {"descriptors": "ulimit -n", "memory": "vm.max_map_count"}


def _mapped() -> int:
    """Bytes of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


@contextmanager
def without(means: str) -> Iterator[None]:
    """The limit is set below what is in use, so that whatever is opened or mapped next fails."""
    limit, low = (resource.RLIMIT_NOFILE, 3) if means == "descriptors" else (resource.RLIMIT_AS, _mapped())
    soft, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (low, hard))
    try:
        yield
    finally:
        resource.setrlimit(limit, (soft, hard))


def refused(means: str, deed: Callable[[], Any]) -> None:
    """Repeats the same deed, so that what a failed one left open would add up."""
    for _ in range(30):
        with without(means):
            try:
                deed()
            except errors.NoMeans as error:
                said = error
            else:
                raise AssertionError("it worked without")
        assert isinstance(said, errors.Full) and said.message.startswith("could not ") and said.errno, said
        assert said.limit in (means, "threads"), said.values
        assert said.limit == "threads" or KNOBS[means] in str(said.hint), said


def plain(means: str, name: str) -> None:
    refused(means, lambda: orbitmq.connect(name))
    with orbitmq.connect(name) as client:
        refused(means, client.producer)
        refused(means, lambda: client.consumer(None, ["orders"]))
        refused(means, lambda: client.consumer("g", ["orders"]))
        with client.producer() as producer:
            with without(means):  # everything that it needs is there already
                receipt = producer.send("orders", b"first", keys="k")
            client.connection.attach_wake().wait_indexed(receipt.physical_offset + receipt.size, 30)
            refused(means, lambda: client.message(receipt.id))
            refused(means, lambda: client.find("orders", "k"))
            assert client.message(receipt.id).body == b"first"
            with client.consumer(None, ["orders"]) as consumer:
                refused(means, lambda: consumer.poll(0))
                refused(means, lambda: consumer.poll_batch(10, 0))
                refused(means, lambda: consumer.seek_to_time(0))
                assert consumer.poll(30).body == b"first"
            refused(means, lambda: client.find("orders", "k"))
            assert [message.body for message in client.find("orders", "k")] == [b"first"]
        sessions = [session for session in client.status().sessions if not session.closing]
        assert not sessions, f"left open: {sessions}"


async def awaited(means: str, name: str) -> None:
    async def short(deed: Callable[[], Awaitable[Any]]) -> None:
        for _ in range(30):
            with without(means):
                try:
                    await deed()
                except errors.NoMeans:
                    continue
                raise AssertionError("it worked without")

    async def connected() -> None:
        await aio.connect(name)

    await short(connected)
    async with aio.connect(name) as client:
        await short(client.producer)
        await short(lambda: client.consumer(None, ["orders"]))
        async with await client.producer() as producer, await client.consumer(None, ["orders"]) as consumer:
            with without(means):
                receipt = await producer.send("orders", b"second", durability="flushed")
            await short(lambda: consumer.poll(0))
            assert receipt.durability == "flushed"
            found = [await consumer.poll(30), await consumer.poll(30)]
            assert sorted(bytes(message.body) for message in found if message) == [b"first", b"second"]
        sessions = [session for session in (await client.status()).sessions if not session.closing]
        assert not sessions, f"left open: {sessions}"


if __name__ == "__main__":
    plain(*sys.argv[1:])
    asyncio.run(awaited(*sys.argv[1:]))
