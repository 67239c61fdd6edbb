"""The producer: sends messages through a session's shared memory and waits for their receipts.

The methods that are called once a message (send, send_async, send_oneway, send_batch) are C: native/python/producer/producer.c.
This class supplies their sessions and their results.

Threads may share a producer. After a fork, the child's first send opens a session of its own. After the broker's death, the
first send to its successor does, and waits for that broker if there is a `wait`. Messages that were in flight when the broker
died end in PerhapsStored, one each: only a message that has not left the caller is ever sent to another broker. A producer with
a name sends them again, under the same ids (docs/idempotent-producers.md).
"""

from __future__ import annotations

import errno
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, cast

from orbitmq.client.argument import seconds
from orbitmq.client.connection.bell import Bell
from orbitmq.client.connection.session import ConsumerOpener, PatientOpener, SessionHandle, SessionOpener
from orbitmq.client.parameters import made_with, spelled
from orbitmq.client.producer.atomic_batch import AtomicBatch
from orbitmq.client.producer.body import Body
from orbitmq.client.producer.settings import ProducerSettings
from orbitmq.client.producer.waiter import Waiter, awaiting, waiter_of
from orbitmq.client.receipt import Receipt, Receipts
from orbitmq.client.transaction.check_function import Check, check_function
from orbitmq.client.transaction.committed import Attacher, committed_receipt
from orbitmq.client.transaction.settling import RECORD_MAX, WINDOW
from orbitmq.client.transaction.transaction import Half, Transaction
from orbitmq.client.unclosed import Shown, state, warn_unclosed
from orbitmq.errors import BrokerNotRunning, BrokerStopped, Closed, OrbitError, TimedOut
from orbitmq.errors.remedy import all_of, as_hint, hint
from orbitmq.native._core import ffi, lib
from orbitmq.native._types import Pending, PendingBatch, ProducerBase, Taken, Turns
from orbitmq.shm.disk_fault import shortage
from orbitmq.shm.durability import Durability
from orbitmq.shm.means import means
from orbitmq.shm.missing_topic import missing_topic
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store.file_system import LOG_KNOB, store_full

if TYPE_CHECKING:
    from orbitmq.client.connection.connection import Connection
    from orbitmq.client.transaction.checker import TransactionChecker

SQ_CAPACITY_MAX: int = lib.SQ_CAPACITY_MAX
SQ_CAPACITY_MIN = 256 << 10
SQ_FRAME = 256  # Bytes of the ring for each message of the window: the size of small messages that are sent one a frame.
_SHORT_OF = {
    errno.EMFILE: "raise the broker's limit of open files (ulimit -n)",
    errno.ENFILE: "raise the machine's limit of open files (fs.file-max)",
    errno.ENOMEM: "give the machine or container more memory, or raise vm.max_map_count",
}
# Messages of the largest size that fit into the submission ring. Below 8, the sender and the handler would take turns.
SQ_MESSAGES = 16


_Result = TypeVar("_Result")
_producers: weakref.WeakSet[Producer] = weakref.WeakSet()


class NotReadyError(Exception):
    """An event loop's thread wants a session and may not wait for one; see AsyncProducer."""


def ring_capacity(message_max: int, window: int) -> int:
    """Size of a submission ring for so many messages in flight, of at most this size in bytes: a power of two."""
    wanted = min(max(SQ_MESSAGES * message_max, SQ_FRAME * window, SQ_CAPACITY_MIN), SQ_CAPACITY_MAX)
    return 1 << (wanted - 1).bit_length()


def unsettled(left: int, limit: float | None) -> TimedOut:
    """The error for messages whose verdicts did not come in time."""
    return TimedOut(
        f"could not get the verdicts of {left} messages within {limit} s",
        hint=hint("wait for them again, which is safe || raise {timeout}"),
        in_flight=left,
        timeout=limit,
    )


@spelled
class Producer(Shown, ProducerBase):
    """Made by `Client.producer()`, which documents the settings."""

    @made_with(ProducerSettings)
    def __init__(self, opener: SessionOpener, **settings: Any) -> None:
        """wait: a value above 0 needs an opener that is a PatientOpener.

        Raises: SettingError: a setting is not valid. BrokerNotRunning, Full (NoMeans): no session could be opened.
        """
        asked = ProducerSettings(**settings)
        wait, timeout = seconds(asked.patience, "make a producer"), seconds(asked.timeout, "make a producer")
        super().__init__(asked.on_full == "wait", asked.durability, timeout, wait > 0)
        self.name = asked.name
        self._window = 1 << (asked.window - 1).bit_length()
        self._name_ids()
        self._absent: float | None = None  # since when what is to be sent again waits for a broker
        self._opener = opener
        self._wait_s = wait
        self.group = asked.group
        self._checker: TransactionChecker | None = None
        self._turns = Turns()
        self._retired = Bell()
        self._asides: set[int] | None = None  # these threads may wait; the others are an event loop's
        self.wants_waiting: set[str] = set()  # the broker is to be asked for these topics, in which delayed messages wait
        self.waiting_errors: dict[str, OrbitError] = {}  # what it answered; for the loop's next send that would wait there
        self.timeout = timeout
        self.waits_when_full = asked.on_full == "wait"
        self._message_max = asked.message_max
        self._waiter: Waiter | None = None
        self._reopen()
        if asked.check is not None:
            self._checker = self._checks(asked.check)
        _producers.add(self)
        self._made_by = os.getpid()

    # Called by C.

    def _reopen(self) -> None:
        with means(f"open a producer's session at the broker {self._opener.name!r}"):
            if self._wait_s > 0:
                self._patiently(lambda: self._open_once(self._patient.open_session_now))
            else:
                self._patiently(lambda: self._open_once(self._opener.open_session))

    def _name_ids(self) -> None:
        """The number of a message in its id counts from 1 in each process and each producer object. The random part tells them
        apart. The letter says how many ids the broker has to remember (native/format/dedup_id.h)."""
        if self.name is not None:
            letter = chr(ord("A") + self._window.bit_length() - 1)
            self._identify(f"\x03{letter}{self.name}:{os.urandom(8).hex()}:")

    def _resume(self, seconds: float) -> bool:
        """The tree has died, and a named producer's messages were in flight. They are sent again as soon as there is a session.
        False: there was none within so many seconds. True: there is one, or the producer's patience was over first."""
        now = time.monotonic()
        since = self._absent = now if self._absent is None else self._absent
        left = max(0.0, since + self._wait_s - now)
        limit = min(seconds, left)
        me = threading.get_ident()
        ours = self._asides is not None and me not in self._asides
        if ours and self._asides is not None:
            self._asides.add(me)
        try:
            if self._wait_s > 0:
                now_open = partial(self._open_once, self._patient.open_session_now)
                self._patient.outlast(now_open, limit, self._retired, starting=limit)
            else:
                self._open_once(self._opener.open_session)
        except (BrokerNotRunning, BrokerStopped, TimedOut):
            if seconds < left:
                return False
            self._lose()
        except OrbitError:
            self._lose()
        finally:
            if ours and self._asides is not None:
                self._asides.discard(me)
        self._absent = None
        return True

    def _outlast(self) -> None:
        """The broker is stopping, and may still answer what is in flight. Returns when another broker runs."""
        generation = self._generation

        def attempt() -> None:
            # Another thread may have opened a session meanwhile.
            if not self.ready and self._patient.attach().generation == generation:
                name = self._opener.name
                again = "the message is not stored; send it again when a broker runs"
                raise BrokerStopped(f"could not send: the broker {name!r} is stopping", hint=again, broker=name)

        self._patiently(attempt)

    def _patiently(self, attempt: Callable[[], None]) -> None:
        """Waits for a broker as long as this producer's `wait` allows. Raises: NotReadyError."""
        if self._asides is not None and threading.get_ident() not in self._asides:
            raise NotReadyError
        if self._wait_s > 0:
            self._patient.outlast(attempt, self._wait_s, self._retired)
        else:
            attempt()

    @property
    def _patient(self) -> PatientOpener:
        return cast("PatientOpener", self._opener)

    def _open_once(self, open_session: Callable[..., SessionHandle]) -> None:
        """Opens a session unless another thread was faster, so that threads do not open one each."""
        try:
            with self._turns.within(self._opener.timeout):
                if not self.ready and not self.closed:
                    self._open(open_session)
        except Taken:
            raise TimedOut(
                f"could not open a producer's session at the broker {self._opener.name!r}: another thread waits for one",
                hint=hint("try again, which is safe || raise {timeout of connect}"),
                timeout=self._opener.timeout,
            ) from None

    def _open(self, open_session: Callable[..., SessionHandle]) -> None:
        handle = open_session(
            window=self._window, sq_capacity=ring_capacity(self._message_max, self._window), message_max=self._message_max
        )
        self._generation = handle.generation
        settings = lib.control_settings(ffi.cast("struct control *", handle.control_address))
        self._store = Path(ffi.string(settings.store).decode(errors="surrogateescape"))
        self._log_file_size = int(settings.log_file_size)
        # Last: if a signal handler strikes at its end, the producer is complete. It has the handle then, which stays mapped.
        self._attach(handle)
        self._absent = None

    def _prepare_waiting(self, topic: str) -> None:
        """The broker does not have this topic yet, in which the message is to wait. Raises: NotReadyError; what the broker
        answers."""
        if self._asides is not None and threading.get_ident() not in self._asides:
            error = self.waiting_errors.pop(topic, None)
            if error is not None:
                raise error
            self.wants_waiting.add(topic)
            raise NotReadyError
        self.wants_waiting.discard(topic)
        cast("ConsumerOpener", self._opener).ask("prepare_waiting", topic=topic)

    def _unknown_topic(self, topic: str, topics: int) -> NoReturn:
        """topics: the address of the topic table; 0: there is no session any more."""
        raise missing_topic(TopicTable(ffi.cast("struct topics *", topics)) if topics else (), topic, "send to")

    def _store_full(self, topic: str, number: int) -> NoReturn:
        """The next file of the log could not be made or mapped; number is the errno. The free space is looked up now."""
        error = store_full(self._store / "commitlog", self._log_file_size, "the next file of the log", LOG_KNOB)
        error.topic, error.errno = topic, number
        if number in (errno.ENOSPC, errno.EDQUOT):
            short = shortage(error.free or 0, self._log_file_size)
            why = f"the disk of {error.mount} is full ({short} for the next file of the log)"
            remedy = all_of(f"make room on {error.mount}", LOG_KNOB)
        else:
            why = f"the log cannot go on in its next file ({os.strerror(number)})"
            remedy = as_hint(_SHORT_OF.get(number, f"look after the disk of {self._store}"))
        assert remedy is not None
        again = "the message is not stored, and sending it again is safe"
        raise error.reworded(f"could not send to topic {topic!r}: {why}", remedy.assuring(again))

    def _receipts(self, batch: PendingBatch) -> Receipts:
        return Receipts(batch)

    def _awaiting(self, pending: Pending | PendingBatch) -> Generator[Any, None, Any]:
        yield from awaiting(self._waiting, pending)
        return pending.result(0)

    @property
    def _waiting(self) -> Waiter:
        if self._waiter is None or self._waiter.pid != os.getpid():
            self._waiter = waiter_of(self)
        return self._waiter

    @property
    def ends(self) -> Producer:
        """The session by which transactions end."""
        kept: Producer | None = vars(self).get("_ends")
        if kept is None:
            made = producer_of_ends(self._opener, self._wait_s, self.timeout)
            kept = vars(self).setdefault("_ends", made)  # another thread, or a signal handler, may have been faster
            if kept is not made:
                made.close()
        return kept

    def _checks(self, check: Check | None) -> TransactionChecker:
        """Checks transactions from now on. It does not keep this producer alive."""
        from orbitmq.client.transaction.checker import TransactionChecker

        found = weakref.ref(self)

        def ends() -> Producer:
            producer = found()
            if producer is None or producer.closed:
                raise Closed("could not end a transaction: the producer is closed")
            return producer.ends

        made = TransactionChecker(cast("Connection", self._opener), self.group, check, ends)
        made.start()
        return made

    def committed(self, topic: str, id: str, half: int, durability: Durability, timeout: float | None) -> Receipt | None:
        """See transaction/committed.py."""
        limit = self._limit(timeout)
        return self._patient.outlast(
            lambda: committed_receipt(cast("Attacher", self._opener), topic, id, half, durability, limit), self._wait_s
        )

    # Called by users.

    def transaction(
        self,
        topic: str,
        body: Body,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = (),
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        check: Check | None = None,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> Transaction:
        """Begins a transaction: stores the message where nobody receives it, and returns when it is stored. `commit()` of what
        is returned sends it, `rollback()` does not (docs/transactions.md). As a context manager, it commits at the end of the
        block, or rolls back if the block raises.

        check: asked how this transaction ends, by this process, instead of the producer's `check`.

        Other arguments, and errors: as send(). Full: too many transactions have begun since the oldest that has not ended.
        """
        half = Half(self.group, properties)
        self.prepare_check(half.id, check)
        stored = self.send(
            topic, body, tags=tags, keys=keys, queue=queue, queue_key=queue_key, properties=half.properties, flag=flag,
            durability=durability, timeout=timeout, **half.own,
        )  # fmt: skip
        return Transaction(self, topic, half.id, stored, self.forget_check)

    def prepare_check(self, id: str, check: Check | None) -> None:
        """Before a transaction of this id begins. Raises: SettingError; NoMeans: there is no thread."""
        if check is not None:
            check_function(check)
            if self._checker is None:
                self._checker = self._checks(None)
            self._checker.add(id, check)
        elif self._checker is not None:
            self._checker.start()  # of a forked child

    def forget_check(self, id: str) -> None:
        """The transaction has ended."""
        if self._checker is not None:
            self._checker.forget(id)

    def batch(
        self, *, durability: Durability | None = None, dedup: str | bytes | None = None, timeout: float | None = None
    ) -> AtomicBatch:
        """An atomic batch: `with producer.batch() as batch:` collects what `batch.send` is given, for any topics. The end of
        the block sends all of it, and waits; then `batch.receipts` has the receipts. All messages are stored, or none of them.
        An exception in the block sends nothing.

        durability, timeout: as in send, for all messages; "flushed" of one of the topics counts for all.
        dedup: an id of the batch, in the topic of its first message: a second batch with it is not stored, and has the receipts
            of the first (docs/idempotent-producers.md). A batch that commits offsets needs none, and has none.

        The end of the block raises, with `index`, the number of the message that is the reason:
            UnknownTopic, UnknownQueue, NoPermission, MessageTooLarge, ...: as send does; none of the messages is stored.
            Full, TimedOut, StoreFull, StoreFailed, PerhapsStored: as send does; all are stored, or none.
            UsageError: under this id a batch of another size was stored; or the batch commits offsets.
        """
        return AtomicBatch(self, durability, dedup, self.timeout if timeout is None else timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until no message of this producer is in flight: each has its verdict, and its Pending knows it.

        Raises: TimedOut: `in_flight` says how many are left.
        """
        limit = self._limit(timeout)
        if not self._settle(limit):
            left = self.in_flight
            raise unsettled(left, limit)

    def close(self, timeout: float | None = None) -> None:
        """Waits for the messages in flight, then gives the session back. Closing again does nothing.

        Raises: TimedOut: some messages were still in flight. The producer is closed all the same, and those end in
            PerhapsStored.
        """
        if self.closed:
            return
        limit = self._limit(timeout)
        try:
            self.flush(limit)
        finally:
            self.retire()

    def _limit(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else seconds(timeout, "wait", or_none=True)

    def retire(self) -> None:
        if self._checker is not None:
            self._checker.close()
        # Whatever a signal handler interrupts: this producer counts as closed, and is not asked again.
        try:
            super().retire()
        finally:
            try:
                if "_ends" in vars(self):
                    self.ends.retire()
            finally:
                self._retired.ring()  # threads that wait for a broker find the producer closed

    def _forked(self) -> None:
        """In a forked child: the thread that was opening a session may not exist here."""
        self._turns = Turns()
        self._absent = None
        self._name_ids()
        if self._asides is not None:
            self._asides = set()

    def __enter__(self) -> Self:
        return self

    def _words(self) -> str:
        return f"of the broker {self._opener.name!r}, {state(self.closed)}"

    def __del__(self) -> None:
        forgotten = not self.closed
        # Now, while everything is whole: of garbage in a cycle, the session may be unmapped before C is asked to let go of it.
        # And first, because a warning may be an error.
        self._leave()
        if (checker := vars(self).get("_checker")) is not None:
            checker.leave()
        if forgotten:
            warn_unclosed(self, getattr(self, "_made_by", 0))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None:
            self.close()
            return
        # the error that ended the block matters most; a message without a verdict reports that through its Pending
        with suppress(OrbitError):
            self.close()


def producer_of_ends(opener: SessionOpener, wait: float, timeout: float) -> Producer:
    """One for the ends of transactions (transaction/settling.py), made when it is first needed."""
    made = Producer(opener, window=WINDOW, message_max=RECORD_MAX, wait=wait, timeout=timeout)
    made._made_by = 0  # the user has not made it, and is not warned about it
    return made


class LoopSide:
    """What an event loop uses of a producer beside its calls. Once this is made, no thread waits for a session of the producer
    but in `prepare`: a call of another thread raises NotReadyError."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        producer._asides = set()

    @property
    def ready(self) -> bool:
        """A call would not have to wait for the coordinator."""
        return self.producer.ready and not self.producer.wants_waiting

    @property
    def waiter(self) -> Waiter:
        """Where tasks sleep."""
        return self.producer._waiting

    def prepare(self) -> None:
        """Makes sure that there is a session, and waits for one if need be. Called in a thread that may wait."""
        asides = self.producer._asides
        assert asides is not None
        asides.add(threading.get_ident())
        try:
            self.producer.prepare()
            for topic in tuple(self.producer.wants_waiting):
                try:
                    self.producer._prepare_waiting(topic)
                except OrbitError as error:
                    self.producer.waiting_errors[topic] = error  # of the sends that would wait there, and of no others
        finally:
            asides.discard(threading.get_ident())


def _forked() -> None:
    for producer in list(_producers):
        producer._forked()


os.register_at_fork(after_in_child=_forked)
