"""Stores a batch that tasks have staged, once, whichever process dies meanwhile and however often the commit is tried.

    1  the query's lock                  one process at a time, even if its driver was killed
    2  a session; the intent, durable    where the log's queues end, which session will send (sink/state.py)
    3  the rows, in order                "appended", the last of them "flushed", which means that the disk has all of them
    4  done, durable                     before this a repetition continues with the intent, after it there is nothing to do
    5  the staged files are removed

A process that finds an intent waits until each of its sessions is gone, because the frames of a dead sender are stored all the
same. Then it waits until the queues have all of the log. Then it reads, from the offsets of the intent on, the names of the
rows that are stored, and sends the others. The same happens within one commit if its broker dies.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orbitmq.client.admin.status import read_positions
from orbitmq.client.client import Client, connect
from orbitmq.client.connection.session import SessionHandle
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.settings import MESSAGE_MIN, MESSAGE_USUAL
from orbitmq.errors import (
    BrokerNotRunning,
    BrokerStopped,
    NoPermission,
    OrbitError,
    SettingError,
    StoreError,
    TimedOut,
    UnknownQueue,
    UnknownTopic,
)
from orbitmq.errors.remedy import hint
from orbitmq.native._types import PendingBatch, Reader
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_name import how_to_make
from orbitmq.shm.topic_table import PERM_WRITE, TopicTable
from orbitmq.spark.sink import staging
from orbitmq.spark.sink import state as sink_state
from orbitmq.spark.sink.staging import StagedRows, Staging
from orbitmq.spark.sink.state import Intent, Query, State, pause
from orbitmq.store.layout import StoreLayout
from orbitmq.tables.carried import ROW_NAME

AT_ONCE = 4096  # rows of one send; limits what is made of a batch at a time
UNANSWERED = 4  # sends whose receipts are not awaited yet
READ_AT_ONCE = 1024  # messages looked at together in the search for stored rows
_log = logging.getLogger("orbitmq")

AGAIN = "start the broker again: Spark repeats the batch, and each row is stored once"


class Sender(Protocol):
    """Where rows go. timeout: seconds for each wait."""

    @property
    def timeout(self) -> float: ...

    def store(self, query: Query, state: State, staged: list[StagedRows] | None) -> None:
        """Makes sure that the rows of the state's intent are stored and on disk, and that the intent knows that sending has
        begun. staged: it is a fresh intent, of which nothing was sent."""


@dataclass(frozen=True, slots=True)
class Target:
    """The broker `name` of the store at `root`; if the name is empty, whichever runs there. timeout: seconds for each wait."""

    name: str
    root: str
    timeout: float

    def connected(self, *, wait: bool = True) -> Client:
        """wait: for a broker that does not run, up to the timeout. Raises: BrokerNotRunning, BrokerStopped; SettingError: it
        has another store by now."""
        deadline = time.monotonic() + (self.timeout if wait else 0)
        while True:
            try:
                client = connect(self.name) if self.name else connect(store=self.root)
                break
            except (BrokerNotRunning, BrokerStopped):
                if time.monotonic() >= deadline:
                    raise
                pause()
        if self.name and self.root and (found := str(StoreLayout.at(client.connection.attachment.store).root)) != self.root:
            client.close()
            raise SettingError(
                f"cannot write to broker {self.name!r}: it runs on the store {found} now, and not on {self.root}",
                hint="start the query anew",
                option="broker",
                value=self.name,
            )
        return client

    def store(self, query: Query, state: State, staged: list[StagedRows] | None) -> None:
        _store(self, query, state, staged)


class _OneSession:
    """The connection as a producer sees it, for one session only: after its end, later rows must not overtake rows that were
    lost."""

    def __init__(self, client: Client) -> None:
        self._connection = client.connection
        self.opened: SessionHandle | None = None

    @property
    def name(self) -> str:
        return self._connection.name

    @property
    def timeout(self) -> float:
        return self._connection.timeout

    def open_session(self, **shape: int) -> SessionHandle:
        if self.opened is not None:
            text = f"could not send all rows: the broker {self.name!r} stopped"
            raise BrokerStopped(text, hint=AGAIN, broker=self.name)
        self.opened = self._connection.open_session(**shape)
        return self.opened


def commit(
    home: Staging,
    target: Sender,
    query: Query,
    batch: int,
    staged: list[StagedRows],
    *,
    named: bool = True,
    in_turn: bool = False,
) -> None:
    """Stores the rows as the query's batch of that number, unless they are stored; first finishes an earlier batch that was
    left. in_turn: only the last batch can come again, as in a stream.

    Returns when all of it is on disk. Raises: UnknownTopic, UnknownQueue, NoPermission: nothing is sent. SettingError: the
        batch is out of order. TimedOut, BrokerError, StoreError: some rows may be stored; commit the batch again to store
        the others.
    """
    with home.kept(), query.locked(target.timeout):
        state = query.load() or State(query.name, named, staging.owner())
        state.owner = staging.owner()
        staging.remove(map(Path, state.spent))  # the process that stored them may have died before
        in_hand = state.intent is not None and state.intent.batch == batch
        if state.intent is not None:
            _finish(target, query, state)
        if in_turn and batch < state.done:
            raise _out_of_turn(query, batch, state.done)
        if state.done < batch:
            files = [(each.path, each.rows) for each in staged if each.rows]
            if files:
                begins: dict[str, list[int]] = {topic: [] for each in staged for topic in each.topics}
                _check_files(files)
                state.intent = Intent(batch, files, begins, max(each.largest for each in staged))
                _finish(target, query, state, staged)
            elif named:
                state.done = batch
                query.store(state)
        elif not in_hand and (rows := sum(each.rows for each in staged)):
            _log.warning("batch %d of query %r is stored already: %d rows are not stored again", batch, query.name, rows)
        staging.remove(Path(each.path) for each in staged if each.rows)
        crash_point("sink_commit_cleared")
        if not named:
            query.forget()
    with suppress(StoreError, OSError):  # leftovers that cannot be removed do no harm to what is stored
        sink_state.clear(home)


def abandon(query: Query, staged: list[StagedRows], *, named: bool = True) -> None:
    """The batch is not to be stored: removes what its tasks have written, unless it is half stored already and will be asked
    for again."""
    if not named:
        query.forget()
    state = query.load()
    needed = {path for path, _ in state.intent.files} if state is not None and state.intent is not None else set()
    staging.remove(Path(each.path) for each in staged if each.rows and each.path not in needed)


def _out_of_turn(query: Query, batch: int, done: int) -> SettingError:
    """The error for a checkpoint that is older than what is stored. Its batches may hold other rows under the same numbers, so
    skipping them could lose some."""
    return SettingError(
        f"cannot write batch {batch} of query {query.name!r}: its batches up to {done} are stored, so its checkpoint is not "
        "the one that they were written with",
        hint=f"give the query another queryId, or remove {query.folder}: either stores the rows of these batches again",
        option="checkpointLocation",
        query=query.name,
        batch=batch,
        done=done,
    )


def _finish(target: Sender, query: Query, state: State, staged: list[StagedRows] | None = None) -> None:
    """Makes sure that the intent's rows are stored, and records it."""
    intent = state.intent
    assert intent is not None
    target.store(query, state, staged)
    crash_point("sink_commit_stored")
    state.done, state.intent, state.spent = max(state.done, intent.batch), None, [path for path, _ in intent.files]
    query.store(state)
    crash_point("sink_commit_done")
    staging.remove(map(Path, state.spent))


def _store(target: Target, query: Query, state: State, staged: list[StagedRows] | None) -> None:
    intent = state.intent
    assert intent is not None
    deadline = time.monotonic() + target.timeout
    while True:
        opened = len(intent.sessions)
        client = target.connected()
        try:
            if intent.sessions:
                stored = _stored(client, target, query, intent)
            else:
                stored = None
                _check_topics(client, staged or [])
            _send(client, target, query, state, stored)
            break
        except (BrokerStopped, BrokerNotRunning):
            if len(intent.sessions) > opened:  # it made progress for a while
                deadline = time.monotonic() + target.timeout
            elif time.monotonic() >= deadline:
                raise
            pause()
        finally:
            with suppress(OrbitError):
                client.close()


def _check_files(files: list[tuple[str, int]]) -> None:
    for path, _ in files:
        if not Path(path).is_file():
            raise _missing(path)


def _missing(path: str) -> StoreError:
    return StoreError(
        f"could not store rows that a task has staged: {path} is gone",
        hint=hint("use a {stagingLocation of spark} that the driver and all tasks see and nobody clears"),
        path=path,
    )


def _check_topics(client: Client, staged: list[StagedRows]) -> None:
    """Raises: UnknownTopic, UnknownQueue, NoPermission."""
    table = TopicTable(client.connection.attachment.topics)
    for name in sorted({name for each in staged for name in each.topics}):
        most = max(each.topics[name][1] for each in staged if name in each.topics)
        check_topic(table, name, most)


def check_topic(table: TopicTable, name: str, queue: int = -1) -> None:
    """Checks that rows can be sent to it, if some ask for `queue`. Raises: UnknownTopic, UnknownQueue, NoPermission."""
    topic = table.find(name)
    if topic is None:
        raise no_topic(name)
    if not topic.perm & PERM_WRITE:
        raise no_permission(name)
    if queue >= topic.queues:
        raise no_queue(name, queue, topic.queues, f"it has {topic.queues} queues, numbered from 0")


def no_topic(name: str) -> UnknownTopic:
    text = f"cannot write to topic {name!r}: there is no such topic"
    return UnknownTopic(text, hint=how_to_make(name), option="topic", topic=name)


def no_permission(name: str) -> NoPermission:
    why = "give the topic a permission that lets senders write"
    return NoPermission(f"cannot write to topic {name!r}: its permission allows no writes", hint=why, topic=name)


def no_queue(name: str, queue: int, queues: int, there: str) -> UnknownQueue:
    return UnknownQueue(
        f"cannot write to queue {queue} of topic {name!r}, which column partition asks for: {there}",
        hint="give the topic more queues, or drop the column",
        column="partition",
        topic=name,
        queue=queue,
        queues=queues,
    )


def _send(client: Client, target: Target, query: Query, state: State, stored: bytearray | None) -> None:
    """Opens a session, makes the intent durable with it, sends the rows that are not `stored`, and waits for the disk."""
    intent = state.intent
    assert intent is not None
    attachment = client.connection.attachment
    opener = _OneSession(client)
    size = min(max(intent.largest, MESSAGE_USUAL, MESSAGE_MIN), int(attachment.settings().message_max))
    producer = Producer(opener, message_max=size, timeout=target.timeout)
    try:
        assert opener.opened is not None
        intent.sessions.append((opener.opened.generation, opener.opened.slot, opener.opened.epoch))
        _lower(TopicTable(attachment.topics), intent)
        query.store(state)
        crash_point("sink_commit_intended")
        unanswered: deque[PendingBatch] = deque()
        last = False
        for messages, last in _ahead(_chunks(query, intent, stored)):
            unanswered.append(_post(producer, messages, last))
            crash_point("sink_commit_sent")
            if len(unanswered) > UNANSWERED:
                unanswered.popleft().result(target.timeout)
        while unanswered:
            unanswered.popleft().result(target.timeout)
        if not last:  # otherwise its receipt came from there
            _wait_for_disk(client, target)
    finally:
        with suppress(OrbitError):
            producer.retire()


def _lower(table: TopicTable, intent: Intent) -> None:
    """Notes where the queues end; the lower offset counts for queues that were noted before, because after a crash of the
    machine a log may be shorter."""
    for name, before in intent.begins.items():
        topic = table.find(name)
        if topic is None:
            raise UnknownTopic(
                f"cannot write to topic {name!r}: there is no such topic any more", hint=how_to_make(name), topic=name
            )
        ends = [int(table.bounds(topic.first_slot + queue)[1]) for queue in range(topic.queues)]
        if len(intent.sessions) == 1:
            intent.begins[name] = ends
        else:
            intent.begins[name] = [min(each) for each in zip(before, ends, strict=False)]


def _chunks(query: Query, intent: Intent, stored: bytearray | None) -> Iterator[pa.RecordBatch]:
    """The rows to be sent, in order, each with its name in its properties. One group never has two topics."""
    for named, numbers in named_rows(query, intent):
        messages = named
        if stored is not None:
            seen = np.frombuffer(stored, np.uint8, named.num_rows, int(numbers[0]))
            messages = named.filter(pa.array(seen == 0))
        topics = pc.unique(messages["topic"])
        for topic in topics:
            yield messages if len(topics) == 1 else messages.filter(pc.equal(messages["topic"], topic))


def named_rows(query: Query, intent: Intent) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """The intent's rows in order, each with its name in its properties, and their numbers. Raises: StoreError: not all of them
    are there."""
    first = 0
    prefix = pa.scalar(f"{ROW_NAME}\1{query.mark}-{intent.batch}-".encode(), pa.large_binary())
    end, nothing = (pa.scalar(text, pa.large_binary()) for text in (b"\2", b""))
    for path, rows in intent.files:
        count = 0
        try:
            for whole in staging.read(path):
                for begin in range(0, whole.num_rows, AT_ONCE):
                    messages = whole.slice(begin, AT_ONCE)
                    numbers = np.arange(first + count, first + count + messages.num_rows)
                    count += messages.num_rows
                    names = pc.cast(pc.cast(pa.array(numbers), pa.large_string()), pa.large_binary())
                    properties = pc.binary_join_element_wise(messages["properties"], prefix, names, end, nothing)
                    yield messages.set_column(2, "properties", properties), numbers
        except FileNotFoundError:
            raise _missing(path) from None
        if count != rows:
            raise StoreError(
                f"could not store the staged rows of {path}: it holds {count:,} of {rows:,} rows",
                hint="run the query again, which is safe; if it happens again, look after the disk of that folder",
                path=path,
            )
        first += rows


def _ahead(chunks: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Each item, and whether it is the last."""
    held = None
    for chunk in chunks:
        if held is not None:
            yield held, False
        held = chunk
    if held is not None:
        yield held, True


def _post(producer: Producer, messages: pa.RecordBatch, durable: bool) -> PendingBatch:
    return producer.send_columns(
        messages["topic"][0].as_py(),
        messages.num_rows,
        *_buffers(messages["body"]),
        *_buffers(messages["properties"]),
        _words(messages["queue"]),
        _words(messages["flag"]),
        *_buffers(messages["queue_key"]),
        durable,
    )


def _buffers(column: Any) -> tuple[Any, Any]:
    """Offsets from the first row on, and data."""
    _, offsets, data = column.buffers()
    return offsets.slice(8 * column.offset), b"" if data is None else data


def _words(column: Any) -> Any:
    return column.buffers()[1].slice(4 * column.offset)


def _stored(client: Client, target: Target, query: Query, intent: Intent) -> bytearray:
    """Which rows of the intent the log has: a byte for each, 1 if it has the row."""
    _wait_for_sessions(client, target, intent)
    attachment = client.connection.attach_wake()
    if not attachment.wait_indexed(read_positions(attachment).wrote, target.timeout):
        raise TimedOut(
            f"could not learn what is stored of query {query.name!r}, batch {intent.batch}: the queues lack a part of the log "
            f"after {target.timeout:g} s",
            hint=hint("look at reput in `orbitmq status` and run the query again, which is safe || raise {timeout of spark}"),
            timeout=target.timeout,
        )
    table = TopicTable(attachment.topics)
    settings = attachment.settings()
    sizes: Any = {"log_file_size": int(settings.log_file_size), "queue_file_units": int(settings.queue_file_units)}
    stored = bytearray(intent.rows)
    mark = f"{query.mark}-{intent.batch}-"
    for name, begins in intent.begins.items():
        topic = table.find(name)
        for queue in range(topic.queues if topic is not None else 0):
            assert topic is not None
            minimum, maximum = table.bounds(topic.first_slot + queue)
            begin = max(minimum, begins[queue] if queue < len(begins) else 0)
            if begin >= maximum:
                continue
            reader = Reader(store=target.root, **sizes)
            try:
                reader.add_offline(name, queue, begin, maximum)
                while found := reader.messages(READ_AT_ONCE):
                    for message in found:
                        row = message.properties.get(ROW_NAME, "")
                        if row.startswith(mark):
                            stored[int(row[len(mark) :])] = 1
            finally:
                reader.close()
    return stored


def _wait_for_sessions(client: Client, target: Target, intent: Intent) -> None:
    """Waits until what the intent's senders left in their rings is in the log, or never will be."""
    generation = client.connection.attachment.generation
    mine = {(slot, epoch) for tree, slot, epoch in intent.sessions if tree == generation}

    def gone() -> bool:
        sessions = client.connection.ask("status")["sessions"] if mine else []
        return not any((each["slot"], each["epoch"]) in mine for each in sessions)

    _until(gone, target, "the session of a sender that died is not drained")


def _wait_for_disk(client: Client, target: Target) -> None:
    """Waits until the queues have what is in the log now."""
    attachment = client.connection.attachment
    end = read_positions(attachment).wrote

    def flushed() -> bool:
        if not attachment.alive():
            text = f"could not confirm that all rows are on disk: the broker {client.name!r} stopped"
            raise BrokerStopped(text, hint=AGAIN, broker=client.name)
        return read_positions(attachment).flushed >= end

    _until(flushed, target, "the disk does not have all of the log")


def _until(true: Callable[[], bool], target: Target, what: str) -> None:
    deadline = time.monotonic() + target.timeout
    while not true():
        if time.monotonic() >= deadline:
            raise TimedOut(
                f"could not finish a commit of Spark: {what} after {target.timeout:g} s",
                hint=hint("look at `orbitmq status` and run the query again, which is safe || raise {timeout of spark}"),
                timeout=target.timeout,
            )
        pause()
