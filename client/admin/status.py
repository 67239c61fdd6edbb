"""What a running broker looks like: everything that `orbitmq status` shows, as records. Positions and counters are
read while the broker runs: they are fresh, and not one consistent whole."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from orbitmq.client.admin.health import Health, health_of
from orbitmq.client.connection.attachment import Attachment
from orbitmq.client.work.status import QueueWork, WorkerStatus, held_up, worker_status
from orbitmq.errors import StoreError
from orbitmq.native._core import ffi, lib
from orbitmq.shm.counters import ActorPage
from orbitmq.shm.death import Death
from orbitmq.shm.durability import Durability
from orbitmq.shm.topic_table import Topic, TopicTable, default_durability, own_retention
from orbitmq.store.commit_log.log_head import stored_ms
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.halves import HALF_TOPIC
from orbitmq.store.layout import StoreLayout

TREE_STATES = {
    lib.TREE_STARTING: "starting",
    lib.TREE_RUNNING: "running",
    lib.TREE_STOPPING: "stopping",
    lib.TREE_STOPPED: "stopped",
}
QUANTILES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class ActorStatus:
    """One process. state: "starting", "recovering", "running", "stopping", "stopped", "failed". epoch: which life of it.

    heartbeat_age_ms: time since it last interrupted its work to show that it is alive. quantiles: of its histogram (writer:
        messages a write group; flush: microseconds a sync), by quantile; empty if nothing was recorded. refused: of the writer,
        how many messages it has answered with an error, by reason; reasons that did not occur are left out.
    """

    name: str
    state: str
    pid: int
    epoch: int
    error: int
    heartbeat_age_ms: int
    counters: dict[str, int]
    quantiles: dict[float, int]
    refused: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Positions:
    """Physical offsets, bytes. The errors are the errnos that stopped a position, or 0; queues_error is that of a failed sync
    of queues or index, which the next start makes anew."""

    wrote: int
    flushed: int
    reput: int
    confirmed: int
    allocated: int
    min_offset: int
    wrote_error: int
    flushed_error: int
    reput_error: int
    allocated_error: int
    queues_error: int


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Queue offsets [min_offset, max_offset) can be read."""

    queue: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """retention_hours: None: as long as the broker's setting; 0: for ever. durability: what receipts wait for if no sender says
    so."""

    name: str
    perm: int
    retention_hours: int | None
    durability: Durability
    queues: tuple[QueueStatus, ...]


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """leaving: those of its queues that another member gets as soon as this member has committed what it got from them."""

    pid: int
    slot: int
    topics: tuple[str, ...]
    queues: tuple[tuple[str, int], ...]
    leaving: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class GroupQueueStatus:
    """committed is a queue offset, lag_messages counts the existing messages from there to the queue's end, and
    removed_messages counts those that retention removed before the group read them. work: of a group with workers, how the
    messages from there on stand; None also in what `groups()` and `status()` return."""

    topic: str
    queue: int
    committed: int
    lag_messages: int
    removed_messages: int
    work: QueueWork | None = None


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A consumer group. epoch: raised with each rebalance. members: consumers that are open now; workers: workers that are. A
    group has one or the other. queues: those in which the group has an offset. paused: nobody gets anything until somebody
    resumes it. dead_letters: messages that it has given up, sent again or not. retries: messages that failed and are
    not due yet, the next of them in next_retry_s seconds; they are not in the lag. None in what `groups()` and `status()`
    return; at least so many, if more than 1,000 messages of one delay wait. key_ordered: its workers have one message of a
    key in hand at a time. queue_ordered: its remote clients pop in order, so one batch of each queue is in hand at a time."""

    name: str
    epoch: int
    members: tuple[MemberStatus, ...]
    queues: tuple[GroupQueueStatus, ...]
    paused: bool = False
    workers: tuple[WorkerStatus, ...] = ()
    dead_letters: int = 0
    retries: int | None = None
    next_retry_s: float | None = None
    key_ordered: bool = False
    queue_ordered: bool = False

    @property
    def order(self) -> str:
        """What its messages wait for; empty: for nothing."""
        return "by key" if self.key_ordered else "by queue" if self.queue_ordered else ""

    @property
    def held_up(self) -> tuple[str, ...]:
        """Why messages that nobody has are not handed out, a sentence each. Of workers, only `group(name)` knows it."""
        return tuple(held_up(self))

    @property
    def lag_messages(self) -> int:
        """Number of messages that the group has still to read, over all its queues."""
        return sum(queue.lag_messages for queue in self.queues)

    @property
    def removed_messages(self) -> int:
        """Number of messages that retention removed before the group read them, over all its queues."""
        return sum(queue.removed_messages for queue in self.queues)


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """A client's session. A producer's has `window` messages in flight and a ring of `sq_capacity` bytes; a consumer's has room
    for `queue_capacity` queues."""

    slot: int
    epoch: int
    pid: int
    window: int
    sq_capacity: int
    queue_capacity: int
    message_max: int
    closing: bool


@dataclass(frozen=True, slots=True)
class Status:
    """A broker. state: "starting", "running", "stopping", "stopped".

    notes: what its start found and worked around, a sentence each, such as a damaged file that an older copy replaces.
    lost: the files among these, relative to the store, in which something may be missing for good, such as the last commits of
        groups.
    deaths: the last one of each process that has died since the broker started.
    listens: address and port at which RocketMQ's clients find their name server; several are separated by semicolons; empty:
        nowhere. addresses: all at which they may connect.
    oldest_ms: store timestamp of the first message of the log; 0: there is none, or it cannot be read.
    after_failed_sync: what happens to sends that do not wait for the disk when the log cannot be synced, "refuse" or "go-on".
    clock_ahead_ms: how far the clock has jumped ahead of the time that has passed, so that nothing is removed by age; 0: it has
        not.
    retention_hours, retention_bytes: settings, 0 for no limit.
    open_transactions: how many have begun and not ended. oldest_transaction_ms: when the oldest of them began, milliseconds
        since the epoch; 0: none is open, or it cannot be read."""

    name: str
    state: str
    pid: int
    generation: int
    store: str
    version: str
    flush: str
    flush_interval_ms: int
    after_failed_sync: str
    clock_ahead_ms: int
    retention_hours: int
    retention_bytes: int
    message_max: int
    read_only: bool
    oldest_ms: int
    positions: Positions
    actors: tuple[ActorStatus, ...]
    topics: tuple[TopicStatus, ...]
    groups: tuple[GroupStatus, ...]
    sessions: tuple[SessionStatus, ...]
    notes: tuple[str, ...]
    lost: tuple[str, ...] = ()
    listens: str = ""
    addresses: tuple[str, ...] = ()
    open_transactions: int = 0
    oldest_transaction_ms: int = 0
    deaths: tuple[Death, ...] = ()

    @property
    def health(self) -> Health:
        """Whether the broker takes messages, and what is wrong, as `orbitmq status` shows it."""
        return health_of(self)


def read_status(attachment: Attachment, ask: Callable[[str], Any]) -> Status:
    """Reads the broker's state; `ask` puts an operation to the coordinator."""
    told = ask("status")
    settings = attachment.settings()
    transactions, oldest_transaction_ms = _open_transactions(attachment)
    return Status(
        name=attachment.description.name,
        state=TREE_STATES.get(lib.control_tree_state(attachment.control), "unknown"),
        pid=attachment.description.pid,
        generation=attachment.generation,
        store=attachment.store,
        version=attachment.description.version,
        flush="batch" if settings.flush_every_message else "timed",
        flush_interval_ms=int(settings.flush_interval_ms),
        after_failed_sync="go-on" if settings.go_on_unsynced else "refuse",
        clock_ahead_ms=int(lib.control_clock_ahead(attachment.control)),
        retention_hours=int(settings.retention_hours),
        retention_bytes=int(settings.retention_bytes),
        message_max=int(settings.message_max),
        read_only=bool(settings.read_only),
        oldest_ms=_oldest_ms(attachment),
        positions=read_positions(attachment),
        actors=read_actors(attachment),
        topics=read_topics(attachment),
        groups=tuple(group_status(group) for group in told["groups"]),
        sessions=tuple(SessionStatus(**session) for session in told["sessions"]),
        notes=tuple(told["notes"]),
        lost=tuple(told["lost"]),
        listens=told["listens"],
        addresses=tuple(told["addresses"]),
        open_transactions=transactions,
        oldest_transaction_ms=oldest_transaction_ms,
        deaths=tuple(Death(**each | {"words": tuple(each["words"])}) for each in told["deaths"]),
    )


def read_positions(attachment: Attachment) -> Positions:
    seen = ffi.new("struct positions_seen *")
    lib.control_positions(attachment.control, seen)
    return Positions(**{name: int(getattr(seen, name)) for name in Positions.__dataclass_fields__})


def read_actors(attachment: Attachment) -> tuple[ActorStatus, ...]:
    """Every process of the broker that has ever lived, in the order of their pages."""
    now_ms = int(lib.clock_ms())
    found = []
    for index in range(lib.ACTORS_MAX):
        page = ActorPage(lib.control_actor(attachment.control, index))
        seen = page.read()
        if not seen.epoch:
            continue
        quantiles = {q: page.quantile(q) for q in QUANTILES} if page.samples() else {}
        age = max(0, now_ms - seen.heartbeat_ms) if seen.heartbeat_ms else 0
        refused = {reason: count for reason, count in page.refused().items() if count}
        state = seen.state.name.lower()
        found.append(
            ActorStatus(seen.name, state, seen.pid, seen.epoch, seen.error, age, seen.counters, quantiles, refused)
        )
    return tuple(found)


def read_topics(attachment: Attachment) -> tuple[TopicStatus, ...]:
    table = TopicTable(attachment.topics)
    return tuple(topic_status(table, topic) for topic in sorted(table, key=lambda topic: topic.name))


def topic_status(table: TopicTable, topic: Topic) -> TopicStatus:
    return TopicStatus(
        topic.name,
        topic.perm,
        own_retention(topic.retention_hours),
        default_durability(topic.durable),
        tuple(_queue(table, topic, queue) for queue in range(topic.queues)),
    )


def _oldest_ms(attachment: Attachment) -> int:
    """Looks again if retention has just removed the file. If the disk cannot be read, everything else is still shown."""
    layout, size = StoreLayout.at(attachment.store), int(attachment.settings().log_file_size)
    begin = -1
    while begin != (now := read_positions(attachment)).min_offset:
        begin = now.min_offset
        try:
            found = stored_ms(layout, size, begin) if begin < now.wrote else None
        except OSError:
            return 0
        if found is not None:
            return found
    return 0


def _open_transactions(attachment: Attachment) -> tuple[int, int]:
    """How many are open, and when the oldest of them began. If the disk cannot be read, everything else is still shown."""
    table, control = TopicTable(attachment.topics), attachment.control
    topic = table.find(HALF_TOPIC)
    if topic is None or not lib.control_halves_ready(control):
        return 0, 0
    bounds = table.bounds(topic.first_slot)
    first = int(lib.control_next_open_half(control, bounds.minimum, bounds.maximum))
    if first == bounds.maximum:
        return 0, 0
    layout, settings = StoreLayout.at(attachment.store), attachment.settings()
    begun_ms = None
    with suppress(OSError, StoreError):
        queue = ConsumeQueue(layout.root, HALF_TOPIC, 0, int(settings.queue_file_units))
        begun_ms = stored_ms(layout, int(settings.log_file_size), queue.peek(first).physical_offset)
    return int(lib.control_count_open_halves(control, first, bounds.maximum)), begun_ms or 0


def _queue(table: TopicTable, topic: Topic, queue: int) -> QueueStatus:
    return QueueStatus(queue, *table.bounds(topic.first_slot + queue))


def group_status(content: dict[str, Any]) -> GroupStatus:
    """content: an answer of the coordinator's."""
    members = tuple(
        MemberStatus(
            pid=each["pid"],
            slot=each["slot"],
            topics=tuple(each["topics"]),
            queues=_queue_keys(each["queues"]),
            leaving=_queue_keys(each["leaving"]),
        )
        for each in content["members"]
    )
    queues = tuple(GroupQueueStatus(*queue) for queue in content["queues"])
    workers = tuple(worker_status(each) for each in content["workers"])
    name, epoch, paused, letters = (content[each] for each in ("name", "epoch", "paused", "dead_letters"))
    ordered = {each: content[each] for each in ("key_ordered", "queue_ordered")}
    return GroupStatus(name, epoch, members, queues, paused, workers, letters, **ordered)


def _queue_keys(listed: list[list[Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((topic, queue) for topic, queue in listed)
