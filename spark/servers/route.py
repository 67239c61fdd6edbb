"""Where a topic is: the brokers that have queues of it, as a name server tells, and the numbers of its partitions.

A partition's number is that of its queue, plus STRIDE for each broker that stands before its own in an order of brokers. So a
topic of one broker has the numbers of its queues, and no number changes when a broker gets more queues, or another broker is
put behind the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import hint
from orbitmq.store.settings.listen_address import ListenAddress, listen_address

STRIDE = 100_000  # more queues than a topic has on one broker
PERM_WRITE = 2  # in a topic's permissions


@dataclass(frozen=True, slots=True)
class Holder:
    """A broker that has queues of a topic: how many to read from, and to write to, which may be none."""

    name: str
    address: ListenAddress
    reads: int
    writes: int


@dataclass(frozen=True, slots=True)
class Route:
    """holders: by name."""

    holders: Mapping[str, Holder]

    def partitions(self, order: Sequence[str]) -> Iterator[tuple[int, Holder, int]]:
        """Number, broker and queue of all that can be read."""
        for position, name in enumerate(order):
            holder = self.holders.get(name)
            for queue in range(holder.reads if holder is not None else 0):
                assert holder is not None
                yield position * STRIDE + queue, holder, queue

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Route:
        """Raises: KeyError, TypeError, ValueError, AttributeError: it is no route."""
        addresses = {data["brokerName"]: dict(data["brokerAddrs"]) for data in content["brokerDatas"]}
        holders = {}
        for data in content["queueDatas"]:
            name = str(data["brokerName"])
            numbers = {int(number): str(address) for number, address in addresses.get(name, {}).items()}
            reads, writes = int(data["readQueueNums"]), int(data.get("writeQueueNums", 0))
            if not numbers or not (reads or writes):
                continue
            address = listen_address(numbers[min(numbers)])  # 0 is the master
            if address is None:
                raise ValueError("it names no address")
            if not 0 <= reads < STRIDE or not 0 <= writes < STRIDE:
                raise ValueError(f"a broker has {reads} or {writes} queues")
            writable = 0 in numbers and bool(int(data.get("perm", 6)) & PERM_WRITE)
            holders[name] = Holder(name, address, reads, writes if writable else 0)
        return cls(holders)


def order_of(routes: Iterable[Route], given: Sequence[str], *, lasting: bool) -> tuple[str, ...]:
    """The order of brokers: the one that was given, or by name.

    Raises: SettingError: lasting, and nobody said in which order several stand; or one is not among those that were given.
    """
    names = sorted({name for route in routes for name in route.holders})
    if not given:
        if len(names) > 1 and lasting:
            raise SettingError(
                f"cannot read from several brokers, {', '.join(names)}, without an order of them, which gives a stream's "
                "partitions the same numbers in every run",
                hint=hint(
                    "give {brokers of spark}, with the broker first that the stream has read so far; later ones go behind"
                ),
                option="brokers",
                value=None,
            )
        return tuple(names)
    for name in names:
        if name not in given:
            raise SettingError(
                f"cannot use the topics' queues on broker {name!r}: option brokers = {','.join(given)!r} does not name it",
                hint="put it behind the others",
                option="brokers",
                value=",".join(given),
            )
    return tuple(given)
