"""Stores a batch that tasks have staged through RocketMQ's protocol, as sink/commit.py does through shared memory.

    1  the intent, durable               which queues get rows, and where they end
    2  the rows, in batches of one queue, one request after the other; each batch has an id, its field dedupId
    3  until the disks of OrbitMQ's brokers have what their logs had then

An attempt that finds an intent of which sending has begun, in another process or after a connection broke, waits until the
queues have what the logs have. Then it reads the names of the stored rows, and sends the batches of which some are missing.
What a dead sender's connection still holds may come after that. A gateway of OrbitMQ stores no batch of the same id again,
whichever of the two comes first, within its dedup_window_s; and it closes connections that are silent for connection_idle_s,
so that nothing comes later. A broker of RocketMQ does not know the ids: there, such a batch is stored twice.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from orbitmq.errors import OrbitError, ProtocolError, TimedOut
from orbitmq.errors.remedy import hint
from orbitmq.shm.crash_point import crash_point
from orbitmq.spark.servers import pulled_store
from orbitmq.spark.servers.cluster import BUSY, NO_TOPIC, SUCCESS, UNAVAILABLE, Cluster, Place
from orbitmq.spark.servers.connection import DamagedError
from orbitmq.spark.servers.failures import Patience
from orbitmq.spark.servers.route import STRIDE, Holder, Route
from orbitmq.spark.servers.servers import Servers
from orbitmq.spark.sink import staging
from orbitmq.spark.sink.commit import no_permission, no_queue, no_topic
from orbitmq.spark.sink.remote_batches import Batch, batches
from orbitmq.spark.sink.staging import StagedRows
from orbitmq.spark.sink.state import Intent, Query, State
from orbitmq.store.settings.listen_address import ListenAddress
from orbitmq.tables.carried import ROW_NAME

SEND_BATCH = 320
STORED = (SUCCESS, 10, 11, 12)  # also without the disk, or the slave, in time: this module looks after the disk itself
NO_PERMISSION = 16
MESSAGE_MAX = 4 << 20  # of RocketMQ, and of OrbitMQ unless it says otherwise
GROUP = "orbitmq-spark"  # of producers


class _BrokenError(Exception):
    """What became of a request is not known, or a broker is away: look what is stored, and go on."""


@dataclass(frozen=True, slots=True)
class RemoteTarget:
    servers: Servers

    @property
    def timeout(self) -> float:
        return self.servers.timeout

    def checked(self, topic: str | None) -> int:
        """The largest record that brokers take, bytes. Raises: UnknownTopic, NoPermission: nothing can be sent to the topic; as
        Cluster's calls."""
        if topic is None:
            return MESSAGE_MAX
        with Cluster(self.servers) as cluster:
            holders = _writable(topic, cluster.route(topic))
            sizes = [cluster.settings(holder.address).get("maxMessageSize", "") for holder in holders.values()]
        return min((int(size) for size in sizes if size.isdecimal()), default=MESSAGE_MAX)

    def store(self, query: Query, state: State, staged: list[StagedRows] | None) -> None:
        """Raises: UnknownTopic, UnknownQueue, NoPermission: nothing is sent. TimedOut, ProtocolError, StoreError: some rows may
        be stored; committing again stores the others."""
        intent = state.intent
        assert intent is not None
        patience = Patience(self.timeout)
        while True:
            sending = _Sending(Cluster(self.servers), query, intent)
            try:
                with sending.cluster:
                    sending.prepare(staged)
                    stored = sending.stored() if intent.attempts else None
                    intent.attempts += 1
                    query.store(state)
                    crash_point("sink_remote_target_intended")
                    sending.send(stored)
                    sending.wait_for_disk()
                    return
            except _BrokenError as error:
                if sending.progress:
                    patience = Patience(self.timeout)
                elif patience.over():
                    raise _away(query, intent, str(error), self.timeout) from None


class _Sending:
    """One attempt, by connections of its own. progress: some of it was answered."""

    def __init__(self, cluster: Cluster, query: Query, intent: Intent) -> None:
        self.cluster = cluster
        self.progress = False
        self._query = query
        self._intent = intent
        self._places: dict[str, list[Place]] = {}

    def prepare(self, staged: list[StagedRows] | None) -> None:
        """Finds the brokers; for a fresh intent, also chooses the queues and notes where they end."""
        intent = self._intent
        intent.nonce = intent.nonce or uuid.uuid4().hex[:8]
        if not intent.attempts:
            for topic in sorted({name for each in staged or [] for name in each.topics}):
                self._choose(topic, staged or [])
        for topic, places in intent.places.items():
            self._places[topic] = self._find(topic, places)

    def _choose(self, topic: str, staged: list[StagedRows]) -> None:
        intent = self._intent
        route = self.cluster.route(topic)
        holders = _writable(topic, route)
        order = self.cluster.servers.brokers or tuple(sorted(route.holders if route is not None else ()))
        intent.addresses |= {name: str(holder.address) for name, holder in holders.items()}
        intent.places[topic] = [
            (position * STRIDE + queue, name, queue, self.cluster.maximum(Place(holders[name], topic, queue)))
            for position, name in enumerate(order)
            if name in holders
            for queue in range(holders[name].writes)
        ]
        _check_queues(topic, {place[0] for place in intent.places[topic]}, intent, staged)

    def _find(self, topic: str, places: list[tuple[int, str, int, int]]) -> list[Place]:
        route = self.cluster.route(topic)
        by_name = dict(route.holders) if route is not None else {}
        by_address = {str(holder.address): holder for holder in by_name.values()}
        found = []
        for _, name, queue, _ in places:
            # A broker that nobody gave a name has another one after each start.
            holder = by_name.get(name) or by_address.get(self._intent.addresses[name])
            if holder is None:
                raise _BrokenError(f"the route of topic {topic!r} does not name broker {name!r}")
            found.append(Place(holder, topic, queue))
        return found

    def stored(self) -> bytearray:
        """Which rows the queues have: a byte for each, 1 if they have the row. Lowers the noted ends to those of now, because
        after a crash of a machine a log may be shorter."""
        for address in self._addresses():
            self._until(address, _indexed, "the queues lack a part of the log")
        intent = self._intent
        found = bytearray(intent.rows)
        for topic, places in intent.places.items():
            for at, place in enumerate(self._places[topic]):
                number, name, queue, begin = places[at]
                least, most = self.cluster.bounds(place)
                if most < begin:
                    places[at] = (number, name, queue, most)
                self._look(place, max(least, begin), most, found)
        return found

    def _look(self, place: Place, begin: int, end: int, found: bytearray) -> None:
        mark = f"{self._query.mark}-{self._intent.batch}-"
        patience = self.cluster.patience()
        while begin < end:
            came = self.cluster.pull(place, begin)
            after = max(came.next, came.minimum)
            if came.code == SUCCESS:
                for record in pulled_store.parsed(came.records):
                    row = record.properties.get(ROW_NAME, "")
                    if row.startswith(mark):
                        found[int(row[len(mark) :])] = 1
                    after = record.queue_offset + 1
            if after <= begin:
                if patience.over():
                    raise _BrokenError(f"queue {place.queue} of topic {place.topic!r} has no message at offset {begin:,}")
                continue
            begin, patience = after, self.cluster.patience()

    def send(self, stored: bytearray | None) -> None:
        """The last batch asks for the disk, so that it has all of them soon; RocketMQ's brokers do not know this wish."""
        held: Batch | None = None
        for batch in batches(self._query, self._intent):
            if stored is None or not all(stored[number] for number in batch.numbers.tolist()):
                if held is not None:
                    self._send(held, {})
                held = batch
        if held is not None:
            self._send(held, {"durability": "flushed"})

    def _send(self, batch: Batch, wish: Mapping[str, object]) -> None:
        place = self._places[batch.topic][batch.place]
        fields: dict[str, object] = {"a": GROUP, "b": batch.topic, "c": batch.topic, "d": 4, "e": place.queue, "f": 0}
        more = {"g": time.time_ns() // 1_000_000, "h": 0, "i": "", "j": 0, "k": False, "m": True, "dedupId": batch.id}
        patience = self.cluster.patience()
        while True:
            try:
                answer = self.cluster.once(place.address, SEND_BATCH, {**fields, **more, **wish}, batch.body)
            except (OSError, DamagedError) as error:
                raise _BrokenError(f"{place.address}: {str(error) or type(error).__name__}") from None
            if answer.code in STORED:
                self.progress = True
                crash_point("sink_remote_target_sent")
                return
            if answer.code not in (BUSY, UNAVAILABLE) or patience.over():
                _raise_refused(place, answer.code, answer.remark)

    def wait_for_disk(self) -> None:
        """RocketMQ's brokers do not tell how far they have flushed: a receipt means what their flushDiskType says."""
        for address in self._addresses():
            self._until(address, _flushed, "the disk does not have all of the log")

    def _addresses(self) -> list[ListenAddress]:
        return sorted({place.address for places in self._places.values() for place in places})

    def _until(self, address: ListenAddress, position: Callable[[Mapping[str, str], int], int | None], what: str) -> None:
        """Waits until a position of a broker has reached what is the log's end now. position: of a broker's state, whose log
        ends there; None: it does not tell."""
        goal: int | None = None
        patience = self.cluster.patience()
        while True:
            state = self.cluster.state(address)
            if state is not None:
                end = state.get("commitLogMaxOffset", "")
                reached = position(state, int(end)) if end.isdecimal() else None
                if reached is None:
                    return
                goal = int(end) if goal is None else goal
                if reached >= goal:
                    return
            if patience.over():
                raise TimedOut(
                    f"could not finish a commit of Spark: {what} of broker {address} after {self.cluster.servers.timeout:g} s",
                    hint=hint("look at that broker and run the query again, which is safe || raise {timeout of spark}"),
                    timeout=self.cluster.servers.timeout,
                )


def _indexed(state: Mapping[str, str], end: int) -> int | None:
    behind = state.get("dispatchBehindBytes", "")
    return end - int(behind) if behind.isdecimal() else None


def _flushed(state: Mapping[str, str], end: int) -> int | None:
    flushed = state.get("commitLogFlushedOffset", "")
    return int(flushed) if flushed.isdecimal() else None


def _writable(topic: str, route: Route | None) -> Mapping[str, Holder]:
    """Raises: UnknownTopic, NoPermission."""
    if route is None:
        raise no_topic(topic)
    found = {name: holder for name, holder in route.holders.items() if holder.writes}
    if not found:
        raise no_permission(topic)
    return found


def _check_queues(topic: str, numbers: set[int], intent: Intent, staged: list[StagedRows]) -> None:
    """Raises: UnknownQueue: a row asks for another one."""
    if max((each.topics[topic][1] for each in staged if topic in each.topics), default=-1) < 0:
        return
    for path, _ in intent.files:
        for messages in staging.read(path):
            for name, queue in set(zip(messages["topic"].to_pylist(), messages["queue"].to_pylist(), strict=True)):
                if name == topic and queue >= 0 and queue not in numbers:
                    there = ", ".join(map(str, sorted(numbers)[:20]))
                    raise no_queue(topic, queue, len(numbers), f"it has {len(numbers)}: {there}{' ...' * (len(numbers) > 20)}")


def _raise_refused(place: Place, code: int, remark: str) -> NoReturn:
    if code == NO_TOPIC:
        raise no_topic(place.topic)
    if code == NO_PERMISSION:
        raise no_permission(place.topic)
    raise ProtocolError(
        f"could not store rows in topic {place.topic!r}, queue {place.queue}, of broker {place.address} of option servers: it "
        f"answers code {code}, {remark!r}",
        hint="some rows may be stored; running the query again is safe",
        operation="a send",
        topic=place.topic,
        code=code,
    )


def _away(query: Query, intent: Intent, why: str, timeout: float) -> OrbitError:
    return TimedOut(
        f"could not store all rows of query {query.name!r}, batch {intent.batch}, within {timeout:g} s: {why}",
        hint=hint("start the broker again: Spark repeats the batch || wait longer with {timeout of spark}"),
        timeout=timeout,
        query=query.name,
        option="timeout",
    )
