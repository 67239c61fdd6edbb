"""The client of a running broker: it manages topics, shows the status, and makes producers and consumers."""

from __future__ import annotations

import os
import weakref
from contextlib import ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from orbitmq.client.admin.administration import Administration
from orbitmq.client.admin.queue_locking import QueueLocking
from orbitmq.client.admin.topic_administration import TopicAdministration
from orbitmq.client.admin.topic_info import TopicInfo
from orbitmq.client.connection.connection import Connection, checked_wait
from orbitmq.client.connection.whereabouts import whereabouts
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.delay.administration import DelayAdministration
from orbitmq.client.parameters import called_with, known_options, spelled
from orbitmq.client.producer.settings import ProducerSettings
from orbitmq.client.request.requests import Requests
from orbitmq.client.several import Several, not_one_text
from orbitmq.client.transaction.administration import TransactionAdministration
from orbitmq.client.unclosed import Shown, state, warn_unclosed
from orbitmq.client.work.worker_settings import WorkerSettings
from orbitmq.errors import Closed
from orbitmq.shm.durability import Durability
from orbitmq.shm.means import means
from orbitmq.shm.runtime import introduction
from orbitmq.shm.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from orbitmq.client.admin.health import Health
    from orbitmq.client.admin.status import Status
    from orbitmq.client.consumer.consumer import Consumer
    from orbitmq.client.dead_letter.dead_letters import DeadLetters
    from orbitmq.client.delay.cancel_producer import CancelProducer
    from orbitmq.client.message import Message
    from orbitmq.client.producer.producer import Producer
    from orbitmq.client.setting_types import StoredSettings
    from orbitmq.client.transaction.checker import TransactionChecker
    from orbitmq.client.work.function import Decorator
    from orbitmq.client.work.session import WorkSession
    from orbitmq.client.work.worker import Worker
    from orbitmq.store.backup.backup import Backed
    from orbitmq.store.settings.setting_sources import SettingState

_Made = TypeVar("_Made", "Producer", "Consumer", "Worker", "WorkSession", "TransactionChecker")


@spelled
class Client(
    Administration, TopicAdministration, DelayAdministration, TransactionAdministration, QueueLocking, Requests, Shown
):
    """A connection to a broker. Several threads may use it. It reconnects by itself in a forked child, and after the
    coordinator has died.

    Args:
        name: the broker's name; None: $ORBITMQ_BROKER, else "default".
        store: instead of a name, the folder of the store that the broker runs on. This finds the broker even if its runtime
            folder is not this process's, or was cleared.
        timeout: seconds that a question to the broker may wait for its answer.
        wait: seconds that every call may wait, before that, for a broker that is not there. The time runs from the call, or
            from the moment when the broker goes during the call. Producers and consumers inherit it unless they are given their
            own.

    Raises: BrokerNotRunning: no broker answers under the name. SettingError: the name or a time is not valid. NoMeans, as from
        every method: this process has no descriptor, mapping, thread or memory left. What it has stays usable, and the call
        succeeds once there is one again.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        store: str | os.PathLike[str] | None = None,
        timeout: float = 5.0,
        wait: float = 0.0,
    ) -> None:
        self._connection = Connection(whereabouts(name, store), timeout, checked_wait(wait))
        self._made: weakref.WeakSet[Producer | Consumer | Worker | WorkSession | TransactionChecker] = weakref.WeakSet()
        self._making: set[object] = set()  # one for each thread that is making a producer or consumer now
        self._closed = False
        # Raises now, and not at the first send, if no broker is there or it belongs to another user.
        with means(f"connect to the broker {self.name!r}"):
            self._connection.ask("hello", **introduction())
        self._made_by = os.getpid()

    @property
    def name(self) -> str:
        """The broker's name. For a client that was given a store: the path of the store, until the broker has been found."""
        return self._connection.name

    @property
    def connection(self) -> Connection:
        """The connection that the client's producers and consumers use."""
        return self._connection

    @known_options
    def create_topic(
        self, name: str, queues: int = 8, *, retention_hours: int | None = None, durability: Durability | None = None
    ) -> TopicInfo:
        """Creates a topic. If it exists with this number of queues, it is left as it is; if it has fewer, it gets more, as far
        as there is room.

        retention_hours: how long its messages are kept; 0: for ever; -1: as long as the broker keeps messages by default, which
            is how a new topic starts; None: unchanged.
        durability: what a receipt waits for if neither the send nor its producer says so: "appended", the level of a new topic,
            or "flushed"; None: unchanged. A change applies to everything sent after this call has returned, also by open
            producers.

        Raises: TopicNameError, SettingError; TopicExists: with more queues, or without room for more; Full: the table of topics
            or queues is full, or the messages of a deleted topic of this name are not all indexed within the client's timeout.
        """
        settings = {"retention_hours": retention_hours, "durability": durability}
        fields = {setting: value for setting, value in settings.items() if value is not None}
        with means(f"create the topic {name!r}"):
            return self._created(name, queues, **fields)

    def topics(self) -> list[TopicInfo]:
        """All topics, by name."""
        with means(f"list the topics of the broker {self.name!r}"):
            attachment = self._connection.attachment
            return sorted(map(TopicInfo.of, TopicTable(attachment.topics)), key=lambda topic: topic.name)

    def status(self) -> Status:
        """The state of the whole broker: actors, positions, topics, groups with their lag, sessions."""
        with means(f"look at the broker {self.name!r}"):
            from orbitmq.client.admin.status import read_status

            return read_status(self._connection.attachment, self._connection.ask)

    def health(self) -> Health:
        """Whether the broker takes messages, and what is wrong, by the rules of `orbitmq health`."""
        return self.status().health

    def settings(self) -> list[SettingState]:
        """The settings of the running broker by name, each with the source of its value (docs/operations.md)."""
        with means(f"look at the broker {self.name!r}"):
            from orbitmq.store.settings.setting_sources import SettingState

            return [SettingState(*state) for state in self._connection.ask("settings")]

    def change_settings(
        self, values: StoredSettings | None = None, *, forget: Several[str] = (), allow_deletion: bool = False
    ) -> list[str]:
        """Changes the settings that the broker's store remembers for the next start. Returns the names of those that changed.
        Only the broker's user and root may call it.

        forget: settings that go back to their defaults. allow_deletion: allow values that keep messages for a shorter time, or
            in less room, than now.

        Raises: SettingError: a value is not valid; nothing has changed. WouldDelete; NoPermission; StoreFull.
        """
        with means(f"change the settings of the broker {self.name!r}"):
            not_one_text(forget, "unset", "forget")
            fields = {"values": dict(values or {}), "forget": list(forget), "allow_deletion": allow_deletion}
            changed: list[str] = self._connection.ask("configure", **fields)
            return changed

    def stop_broker(self) -> None:
        """Asks the broker to stop, and returns when its supervisor has ended. Raises: TimedOut: it is still stopping."""
        with means(f"stop the broker {self.name!r}"):
            # not the client's `wait`: there is no need to wait for an absent broker in order to stop it
            attachment = self._connection.attach()
            self._connection.ask("stop", generation=attachment.generation)
        attachment.wait_ended(self._connection.timeout)

    def backup(self, folder: str | os.PathLike[str], *, progress: Callable[[int, int], object] | None = None) -> Backed:
        """Makes a consistent copy of the broker's store in `folder`, as `orbitmq backup` does. Nobody waits for it, and it
        holds each message that was acknowledged before the call.

        folder: does not exist, or is empty, or is the last backup of this store, which the new one replaces when it is whole.
        progress: called now and then with the bytes of files that are done, and of all.

        Raises: StoreUnsupported: no backup may lie there, or this user may not read the store; StoreLocked: another backup goes
            there; StoreFull, StoreFailed; CorruptRecord: the log is damaged. Whatever `progress` raises. The last backup is
            then as it was.
        """
        with means(f"back up the store of the broker {self.name!r}"):
            from orbitmq.store.backup.backup import back_up
            from orbitmq.store.layout import StoreLayout

            source = StoreLayout.at(self._connection.attachment.store)
            return back_up(source, folder, lambda done, whole: None if progress is None else progress(done, whole))

    def believe_clock(self) -> None:
        """Confirms that the machine's clock is right although it has jumped ahead: messages expire by it again, within seconds
        (see Status.clock_ahead_ms). Only the broker's user and root may call it. Raises: NoPermission."""
        with means(f"have the broker {self.name!r} believe its clock"):
            self._connection.ask("believe_clock")

    @called_with(ProducerSettings)
    def producer(self, **settings: Any) -> Producer:
        # Documented where its parameters are.
        with self._makes("a producer"):
            from orbitmq.client.producer.producer import Producer

            return self._keep(Producer(self._connection, **(self._with_wait(settings) if self._connection.wait else settings)))

    @called_with(ConsumerSettings)
    def consumer(self, *group_and_topics: Any, **settings: Any) -> Consumer:
        # Documented where its parameters are.
        with self._makes("a consumer"):
            from orbitmq.client.consumer.consumer import Consumer

            return self._keep(Consumer(self._connection, *group_and_topics, **self._with_wait(settings)))

    def work_session(
        self,
        group: str,
        topics: Several[str],
        *,
        visibility: float = 30.0,
        in_hand: int = 1024,
        max_tries: int | None = None,
        key_ordered: bool = False,
        tags: str | None = None,
        sql: str | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        wait: float | None = None,
    ) -> WorkSession:
        """A session of a worker, which gets messages one by one and acknowledges each by itself (docs/work-queue.md).

        Args:
            visibility: seconds for which a message is this worker's, unless it extends them.
            in_hand: messages that it may have in hand, at most 65,536.
            max_tries: how often the group's workers get a message before it goes to the dead letters, 1 to 500. It becomes a
                setting of the group; None: as the group has it, 16 for a new one.
            key_ordered: the group's workers have one message of a key in hand at a time, in the order of the log. The key is
                the sharding key, else the keys. All workers of a group say the same.
            tags, sql: only these messages, as for consumers; the group passes over the others for good. All workers of a group
                say the same for a topic.
            start: where a group begins that is new to a topic.
            wait: as for consumers.

        Raises: TopicNameError, UnknownTopic, GroupNameError, SettingError; GroupInUse: the group has consumers, or
            workers with another key_ordered or filter; FilterError: the place where sql is wrong; NoPermission; Full;
            StoreFull: the disk has no room for the group's state; BrokerNotRunning.
        """
        with self._makes("a worker"):
            from orbitmq.client.argument import check_flag, whole
            from orbitmq.client.group_name import check_group_type
            from orbitmq.client.work.session import WorkSession

            check_group_type(group)
            check_flag(key_ordered, "make a worker", "key_ordered")
            if max_tries is not None:
                max_tries = whole(max_tries, "make a worker", "max_tries")
            made = WorkSession(
                self._connection,
                group,
                topics,
                visibility=visibility,
                in_hand=in_hand,
                max_tries=max_tries,
                key_ordered=key_ordered,
                tags=tags,
                sql=sql,
                start=start,
                wait=self._connection.wait if wait is None else checked_wait(wait),
            )
            return self._keep(made)

    @called_with(WorkerSettings)
    def worker(self, *group_and_topics: Any, **settings: Any) -> Worker:
        # Documented where its parameters are.
        with self._makes("a worker"):
            from orbitmq.client.work.opening import open_session
            from orbitmq.client.work.worker import Worker

            opener = partial(open_session, self._connection)
            return self._keep(Worker(opener, *group_and_topics, **self._with_wait(settings)))

    @called_with(WorkerSettings)
    def work(self, *group_and_topics: Any, **settings: Any) -> Decorator:
        """Decorates a handler: the function can be called as before, and has `run()`, which makes a worker with these settings
        and calls its `run` with the function. The parameters are those of `worker`.

            @client.work("billing", ["orders"], concurrency=8)
            def charge(job: orbitmq.Job) -> None: ...

            charge.run()
        """
        from orbitmq.client.work.function import Decorator

        return Decorator(partial(self.worker, *group_and_topics, **settings))

    def message(self, message_id: str) -> Message:
        """The message with this id, which receipts and messages show. A message can be found as soon as its sender has
        the receipt.

        Raises: UsageError: this is not an id, or no message has it (any more). CorruptRecord: the message is damaged.
            TimedOut: reput is behind the log's end. BrokerNotRunning, BrokerStopped.
        """
        with means(doing := f"look for message {message_id}"):
            from orbitmq.client.lookup import message_by_id

            return message_by_id(self._connection.caught_up(doing), message_id)

    def find(self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int | None = None, most: int = 32) -> list[Message]:
        """The topic's messages with this key, newest first. Every message acknowledged before the call is found.

        Args:
            begin_ms, end_ms: range of their store times, milliseconds since the epoch, both included; None: no limit.
            most: largest number of messages to return.

        Raises: TopicNameError, UnknownTopic, NoPermission; SettingError: most is below 1. CorruptRecord: one of them is
            damaged. TimedOut: reput is behind the log's end. BrokerNotRunning, BrokerStopped.
        """
        with means(doing := f"look for messages to {topic!r} with the key {key!r}"):
            from orbitmq.client.lookup import messages_by_key

            attachment = self._connection.caught_up(doing)
            return messages_by_key(attachment, topic, key, begin_ms=begin_ms, end_ms=end_ms, most=most)

    def dead_letters(self, group: str) -> DeadLetters:
        """The messages that this group has given up, in this broker's or RocketMQ's form. A group without any has an empty
        list; the first use of one that does not exist raises UnknownGroup. Raises: TopicNameError: no group can have this
        name."""
        from orbitmq.client.dead_letter.dead_letters import DeadLetters

        return DeadLetters(self, group)

    def dead_letter_groups(self) -> list[str]:
        """The groups that have dead letters, or had some, by name. Raises: BrokerNotRunning."""
        with means(f"list dead letters of the broker {self.name!r}"):
            from orbitmq.client.dead_letter.dead_letters import groups_with_letters

            return groups_with_letters(self._connection.attachment)

    def close(self) -> None:
        """Closes the producers, consumers and workers made from this client, also those that other threads are making now, and
        then the connection. If closing one of them raises, the others are closed all the same. Closing it again does
        nothing."""
        # set first: then either this call sees an object made meanwhile, or its maker sees that the client is closed
        self._closed = True
        with ExitStack() as stack:
            stack.callback(self._disconnect)
            for made in list(self._made):
                stack.callback(made.close)
            if (calls := self._connection.calls.get(os.getpid())) is not None:
                stack.callback(calls.close)

    def _disconnect(self) -> None:
        if not self._making:
            self._connection.close()

    def _canceller(self) -> CancelProducer:
        kept: CancelProducer | None = vars(self).get("_cancels")
        if kept is None:
            with self._makes("a producer"):
                from orbitmq.client.delay.cancel_producer import CancelProducer

                made = CancelProducer(self._connection)
                self._keep(made)
            kept = vars(self).setdefault("_cancels", made)  # another thread, or a signal handler, may have been faster
            if kept is not made:
                made.close()
        return kept

    def _kept(self, made: TransactionChecker) -> TransactionChecker:
        return self._keep(made)

    def _settler(self) -> Producer:
        if self._closed:
            raise Closed("could not end a transaction: the client is closed")
        kept: Producer | None = vars(self).get("_settles")
        if kept is None:
            with self._makes("a producer"):
                from orbitmq.client.producer.producer import producer_of_ends

                made = producer_of_ends(self._connection, self._connection.wait, self._connection.timeout)
                self._keep(made)
            kept = vars(self).setdefault("_settles", made)  # as above
            if kept is not made:
                made.close()
        return kept

    def _with_wait(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings of a producer or consumer. Unless they say how long to wait for an absent broker, it is as long as we do."""
        return settings if settings.get("wait") is not None else {**settings, "wait": self._connection.wait}

    @contextmanager
    def _makes(self, what: str) -> Iterator[None]:
        """Wraps the making of something that `close` closes. The connection stays open meanwhile: if it were cut while a
        session is being opened, the session could not be given back."""
        maker = object()
        self._making.add(maker)
        try:
            with means(f"make {what} of the broker {self.name!r}"):
                yield
        finally:
            self._making.discard(maker)
            if self._closed and not self._making:
                self._connection.close()

    def _keep(self, made: _Made) -> _Made:
        """Registers an object that was just made and that `close` closes."""
        self._made.add(made)
        if self._closed:
            made.close()
        return made

    def __enter__(self) -> Self:
        return self

    def _words(self) -> str:
        return f"of the broker {self.name!r}, {state(self._closed)}"

    def __del__(self) -> None:
        # The connection stays: producers and consumers made from it may still be in use.
        if not getattr(self, "_closed", True):
            warn_unclosed(self, getattr(self, "_made_by", 0))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@known_options
def connect(
    name: str | None = None, *, store: str | os.PathLike[str] | None = None, timeout: float = 5.0, wait: float = 0.0
) -> Client:
    """A client of the running broker `name` (None: $ORBITMQ_BROKER, else "default"), or of the broker that runs on `store`; see
    Client.

    Raises: BrokerNotRunning: no broker answered within `wait` seconds.
    """
    return Client(name, store=store, timeout=timeout, wait=wait)
