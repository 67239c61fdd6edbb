"""Turns moments into queue offsets with servers: the first message that was stored at or after the moment.

A broker is asked where that is (code 29). But RocketMQ 4.9 answers with the nearest message, which may be an earlier one, or a
later one of several of the same millisecond. So the answer is only where the search begins: messages beside it are pulled, one
at a time, until one that is too early stands right before one that is not. That is two pulls if the answer was right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from orbitmq.spark.servers import failures
from orbitmq.spark.servers.cluster import SUCCESS, Cluster, Place
from orbitmq.spark.servers.servers import Servers
from orbitmq.store.commit_log import record as stored

Which = tuple[str, int]  # topic, partition


def offsets_since(servers: Servers, moments: Iterable[tuple[Which, tuple[int, int], int]]) -> Iterator[tuple[Which, int]]:
    """As orbitmq.tables.moments.offsets_since. Raises: as Cluster's calls."""
    with Cluster(servers) as cluster:
        for which, bounds, moment in moments:
            place = cluster.place(*which, servers.brokers) if bounds[0] < bounds[1] else None
            yield which, bounds[1] if place is None else _since(cluster, place, bounds, moment)


def _since(cluster: Cluster, place: Place, bounds: tuple[int, int], moment_ms: int) -> int:
    return first_late(cluster.offset_at(place, moment_ms), bounds, lambda offset: _late(cluster, place, offset, moment_ms))


def first_late(guess: int, bounds: tuple[int, int], late: Callable[[int], bool]) -> int:
    """The first offset in the bounds that is late, or their end; all behind it are late too. Looks at few if it is near the
    guess."""
    early, end = bounds[0] - 1, bounds[1]
    at, step = min(max(guess, bounds[0]), bounds[1] - 1), 1
    first = late(at)
    while True:
        if first:
            end = at
            at = max(early, at - step)
        else:
            early = at
            at = min(end, at + step)
        if at in (early, end):
            break
        step *= 2
        if late(at) != first:
            early, end = (at, end) if first else (early, at)
            break
    while end - early > 1:
        middle = (early + end) // 2
        early, end = (early, middle) if late(middle) else (middle, end)
    return end


def _late(cluster: Cluster, place: Place, offset: int, moment_ms: int) -> bool:
    patience = cluster.patience()
    while True:
        came = cluster.pull(place, offset, 1)
        if came.code == SUCCESS:
            found = stored.parse(came.records[: int.from_bytes(came.records[:4], "big")])
            if isinstance(found, stored.Fault) or found.queue_offset != offset:
                why = found.text if isinstance(found, stored.Fault) else f"it has offset {found.queue_offset}"
                raise failures.damaged("a pull", [place.address], f"its record {why}", place.topic)
            return found.store_ms >= moment_ms
        if came.minimum > offset:
            return False  # removed since the offsets were asked for
        if patience.over():
            why = f"it has no message at offset {offset:,} of queue {place.queue}"
            raise failures.silent("a pull", [place.address], why, place.topic, cluster.servers.timeout)
