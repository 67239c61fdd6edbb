"""The client of a running broker: topics and status, and the maker of producers and consumers."""

from __future__ import annotations

import os
import weakref
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from orbitmq.client.connection import Connection, checked_wait
from orbitmq.client.status import Status, read_status
from orbitmq.client.topic_info import TopicInfo
from orbitmq.client.unclosed import shown, state, warn_unclosed
from orbitmq.client.whereabouts import whereabouts
from orbitmq.shm.durability import Durability
from orbitmq.shm.means import means
from orbitmq.shm.runtime import introduction
from orbitmq.shm.topic_table import Topic, TopicTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orbitmq.client.consumer import Consumer
    from orbitmq.client.listener import QueuesCallback
    from orbitmq.client.message import Message
    from orbitmq.client.producer import Producer
    from orbitmq.store.setting_sources import SettingState

_Made = TypeVar("_Made", "Producer", "Consumer")


class Client:
    """A connection to a broker. Usable from several threads; a forked child connects anew by itself, and so
    does everybody after the death of the coordinator.

    Args:
        name: the broker's; None: $ORBITMQ_BROKER, else "default".
        store: instead of a name, the folder of the store that the broker runs on: it is found even where its runtime folder is
            another one than this process's, or was cleared away.
        timeout: seconds that a question to the broker may wait for its answer.
        wait: seconds that every call may wait, before that, for a broker that is not there: from the call, or from when the
            broker goes in the middle of it. Producers and consumers have it as theirs unless they are given another.

    Raises: BrokerNotRunning: none answers under the name; SettingError: no name, or no time. NoMeans, as every method: this
    process has no descriptor, mapping, thread or memory left; what it has goes on, and the call succeeds once there is one.
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
        self._made: weakref.WeakSet[Producer | Consumer] = weakref.WeakSet()
        self._making: set[object] = set()  # one for each thread that makes a producer or consumer now
        self._closed = False
        # Says now, and not at the first send, that nobody is there, or that it is somebody else's broker.
        with means(f"connect to the broker {self.name!r}"):
            self._connection.ask("hello", **introduction())
        self._made_by = os.getpid()

    @property
    def name(self) -> str:
        """The broker's name; of a client that was given a store, its path until the broker has been found."""
        return self._connection.name

    @property
    def connection(self) -> Connection:
        """What producers and consumers stand on."""
        return self._connection

    def create_topic(
        self, name: str, queues: int = 8, *, retention_hours: int | None = None, durability: Durability | None = None
    ) -> TopicInfo:
        """Makes a topic. One that exists with so many queues is left as it is; one with fewer gets more, up to its
        room.

        retention_hours: how long its messages are kept; 0: for ever; -1: as long as the broker keeps others, which a new
            topic has anyway; None: leave it as it is.
        durability: what a receipt waits for where neither the send nor its producer says it: "appended", which a new topic
            has anyway, or "flushed"; None: leave it as it is. A change counts for what is sent after this call has returned,
            also by producers that are open.

        Raises: TopicNameError, SettingError; TopicExists: with more queues, or without room; Full: the table has no
        room.
        """
        settings = {"retention_hours": retention_hours, "durability": durability}
        fields = {setting: value for setting, value in settings.items() if value is not None}
        with means(f"create the topic {name!r}"):
            return TopicInfo.of(Topic(**self._connection.ask("create_topic", name=name, queues=queues, **fields)))

    def topics(self) -> list[TopicInfo]:
        """All topics, by name."""
        with means(f"list the topics of the broker {self.name!r}"):
            attachment = self._connection.attachment
            return sorted(map(TopicInfo.of, TopicTable(attachment.topics)), key=lambda topic: topic.name)

    def status(self) -> Status:
        """The whole tree: actors, positions, topics, groups with their lag, sessions."""
        with means(f"look at the broker {self.name!r}"):
            return read_status(self._connection.attachment, self._connection.ask)

    def settings(self) -> list[SettingState]:
        """The settings that the broker runs with, by name, each with where its value came from (docs/operations.md)."""
        with means(f"look at the broker {self.name!r}"):
            from orbitmq.store.setting_sources import SettingState

            return [SettingState(*state) for state in self._connection.ask("settings")]

    def change_settings(
        self, values: Mapping[str, Any] | None = None, *, forget: Sequence[str] = (), allow_deletion: bool = False
    ) -> list[str]:
        """Changes what the broker's store remembers, for the next start; returns the names of what has changed. Only for the
        broker's user, and root.

        forget: settings that go back to their defaults. allow_deletion: also where messages are to be kept for a shorter time,
        or in less room, than until now.

        Raises: SettingError: a value that cannot be, and nothing has changed; WouldDelete; NoPermission; StoreFull.
        """
        with means(f"change the settings of the broker {self.name!r}"):
            fields = {"values": dict(values or {}), "forget": list(forget), "allow_deletion": allow_deletion}
            changed: list[str] = self._connection.ask("configure", **fields)
            return changed

    def stop_broker(self) -> None:
        """Asks the tree to stop; returns when its supervisor has ended. Raises: TimedOut: it still drains."""
        with means(f"stop the broker {self.name!r}"):
            attachment = self._connection.attach()  # whatever the client's patience: one that is not there need not be awaited
            self._connection.ask("stop", generation=attachment.generation)
        attachment.wait_ended(self._connection.timeout)

    def believe_clock(self) -> None:
        """Says that the machine's clock is right although it has jumped ahead: messages expire by it again, within seconds (see
        Status.clock_ahead_ms). Only for whom the broker belongs to, and root. Raises: NoPermission."""
        with means(f"have the broker {self.name!r} believe its clock"):
            self._connection.ask("believe_clock")

    def producer(
        self,
        *,
        window: int = 32768,
        message_max: int = 256 * 1024,
        on_full: Literal["wait", "error"] = "wait",
        timeout: float = 30.0,
        durability: Durability | None = None,
        wait: float | None = None,
    ) -> Producer:
        """A producer with a session of its own; several threads may share it.

        Args:
            window: messages in flight at most.
            message_max: largest record, bytes; sizes the session's ring.
            on_full: what a send does when window or ring are full: wait up to its timeout, or raise Full at once.
            timeout: seconds that a send waits unless it says otherwise.
            durability: what a receipt waits for unless a send says otherwise: "appended" or "flushed"; None: what the topic of
                the message says (see create_topic).
            wait: seconds that this call, and each send, waits for a broker that is not there before anything of the send is
                on its way; None: the client's. What was on its way when the broker went is PerhapsStored all the same.

        Raises: SettingError; BrokerNotRunning; Full: no session could be opened.
        """
        with self._makes("a producer"):
            from orbitmq.client.producer import Producer

            made = Producer(
                self._connection,
                window=window,
                message_max=message_max,
                on_full=on_full,
                timeout=timeout,
                durability=durability,
                wait=self._connection.wait if wait is None else wait,
            )
            return self._keep(made)

    def consumer(
        self,
        group: str | None = None,
        topics: Sequence[str] = (),
        *,
        tags: str | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        batch: int = 1000,
        verify: bool = True,
        removed: Literal["skip", "raise"] = "skip",
        on_assigned: QueuesCallback | None = None,
        on_revoked: QueuesCallback | None = None,
        on_lost: QueuesCallback | None = None,
        max_poll_interval: float | None = 300.0,
        revoke_timeout: float = 5.0,
        wait: float | None = None,
    ) -> Consumer:
        """A consumer of the topics, as a member of the group; without a group of all their queues, with no stored
        offsets.

        Args:
            tags: only messages with these: "a || b"; None: all.
            start: where a group begins in a queue that it has not consumed of.
            batch: messages fetched at once by iteration and poll.
            verify: check each body against its CRC before it is given out; damage is then a CorruptRecord. Without it a drain
                is some 10 % faster, and a damaged body comes as if it were good.
            removed: what becomes of messages that retention takes before they are read: "skip" goes on behind them, counts
                them and warns in the log `orbitmq`; "raise" raises OffsetOutOfRange first.
            on_assigned, on_revoked, on_lost: called with (consumer, queues) when queues have come, before they go to another
                member or with `close`, and when they have gone already (None: on_revoked is). Called inside calls of the
                consumer's, in their thread. `on_revoked` may commit; all of them may seek, pause and ask for positions.
            max_poll_interval: seconds without a call after which the group takes this member to hang, and goes on without it;
                waiting in a call is calling. At least 1; None: never.
            revoke_timeout: seconds that a queue stays here when it is to go to another member, for its messages to be
                committed; it goes earlier when they are, or when on_revoked has returned.
            wait: seconds that a broker which is not there is waited for, from when the first call found none; None: the
                client's. Reading goes on where it was, in a group at the committed offsets; a call's `timeout` counts on.

        Raises: TopicNameError, UnknownTopic, NoPermission, GroupNameError, SettingError; BrokerNotRunning; Full: no session
            could be opened.
        """
        with self._makes("a consumer"):
            from orbitmq.client.consumer import Consumer

            made = Consumer(
                self._connection,
                group,
                topics,
                tags=tags,
                start=start,
                batch=batch,
                verify=verify,
                removed=removed,
                on_assigned=on_assigned,
                on_revoked=on_revoked,
                on_lost=on_lost,
                max_poll_interval=max_poll_interval,
                revoke_timeout=revoke_timeout,
                wait=self._connection.wait if wait is None else checked_wait(wait),
            )
            return self._keep(made)

    def message(self, message_id: str) -> Message:
        """The message with this id, as in receipts and messages.

        Raises: UsageError: no id, or no message has it (any more). CorruptRecord: it is damaged. BrokerNotRunning.
        """
        with means(f"look for message {message_id}"):
            from orbitmq.client.lookup import message_by_id

            return message_by_id(self._connection.attachment, message_id)

    def find(self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int | None = None, most: int = 32) -> list[Message]:
        """Messages of the topic with this key, newest first.

        Args:
            begin_ms, end_ms: of their store time, milliseconds since the epoch, both included; None: no end.
            most: messages to find at most.

        Raises: TopicNameError, UnknownTopic, NoPermission; SettingError: most is below 1. CorruptRecord: one of them is
            damaged. BrokerNotRunning.
        """
        with means(f"look for messages to {topic!r} with the key {key!r}"):
            from orbitmq.client.lookup import messages_by_key

            return messages_by_key(self._connection.attachment, topic, key, begin_ms=begin_ms, end_ms=end_ms, most=most)

    def close(self) -> None:
        """Closes the producers and consumers made from this client, also those that other threads are making now, then the
        connection. Calling it again changes nothing."""
        self._closed = True  # first: either we see what is made meanwhile, or who makes it sees that
        for made in list(self._made):
            made.close()
        if not self._making:
            self._connection.close()

    @contextmanager
    def _makes(self, what: str) -> Iterator[None]:
        """Around the making of something that `close` closes. While it is under way the connection stays: a session whose
        opening was cut off could not be given back."""
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
        """Something that `close` closes, when it has just been made."""
        self._made.add(made)
        if self._closed:
            made.close()
        return made

    def __enter__(self) -> Self:
        return self

    def __repr__(self) -> str:
        return shown(self, self._words)

    def _words(self) -> str:
        return f"of the broker {self.name!r}, {state(self._closed)}"

    def __del__(self) -> None:
        # The connection stays: producers and consumers that were made from it may live on.
        if not getattr(self, "_closed", True):
            warn_unclosed(self, getattr(self, "_made_by", 0))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def connect(
    name: str | None = None, *, store: str | os.PathLike[str] | None = None, timeout: float = 5.0, wait: float = 0.0
) -> Client:
    """A client of the running broker `name` (None: $ORBITMQ_BROKER, else "default"), or of the one that runs on `store`; see
    Client.

    Raises: BrokerNotRunning: none answers there, nor comes within `wait` seconds.
    """
    return Client(name, store=store, timeout=timeout, wait=wait)
