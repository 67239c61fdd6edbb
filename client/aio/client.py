"""The client for asyncio: the methods of client/client.py under the same names, awaitable."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from orbitmq.client.admin.health import Health
from orbitmq.client.admin.status import Status
from orbitmq.client.admin.topic_info import TopicInfo
from orbitmq.client.aio.administration import AsyncAdministration
from orbitmq.client.aio.aside import aside, aside_or_here, running_loop
from orbitmq.client.aio.consumer import AsyncConsumer
from orbitmq.client.aio.dead_letters import AsyncDeadLetters
from orbitmq.client.aio.loop_check import called_in
from orbitmq.client.aio.producer import AsyncProducer
from orbitmq.client.aio.requests import AsyncRequests
from orbitmq.client.aio.transactions import AsyncTransactionAdministration
from orbitmq.client.aio.worker import AsyncDecorator, Opening
from orbitmq.client.client import Client
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.message import Message
from orbitmq.client.parameters import called_with, known_options, spelled
from orbitmq.client.producer.settings import ProducerSettings
from orbitmq.client.unclosed import Shown, words_of
from orbitmq.client.work.worker_settings import WorkerSettings
from orbitmq.errors import SettingError
from orbitmq.shm.durability import Durability
from orbitmq.shm.runtime import broker_name

if TYPE_CHECKING:
    from orbitmq.client.delay.cancel_target import Handle
    from orbitmq.client.delay.delayed import DelayedMessage
    from orbitmq.client.setting_types import StoredSettings
    from orbitmq.client.several import Several
    from orbitmq.store.backup.backup import Backed
    from orbitmq.store.settings.setting_sources import SettingState


@spelled
class AsyncClient(AsyncAdministration, AsyncTransactionAdministration, AsyncRequests, Shown):
    """A connection to a broker. A thread puts questions to the broker; sending and reading messages needs no thread."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    @property
    def name(self) -> str:
        """See Client.name."""
        return self._client.name

    @known_options
    async def create_topic(
        self, name: str, queues: int = 8, *, retention_hours: int | None = None, durability: Durability | None = None
    ) -> TopicInfo:
        """Creates a topic, or finds it; see Client.create_topic."""
        return await aside(
            lambda: self._client.create_topic(name, queues, retention_hours=retention_hours, durability=durability),
            f"create the topic {name!r}",
        )

    async def topics(self) -> list[TopicInfo]:
        """All topics, by name."""
        return await aside(self._client.topics, f"list the topics of the broker {self.name!r}")

    async def status(self) -> Status:
        """The state of the whole broker; see Client.status."""
        return await aside(self._client.status, f"look at the broker {self.name!r}")

    async def health(self) -> Health:
        """Whether the broker takes messages; see Client.health."""
        return await aside(self._client.health, f"look at the broker {self.name!r}")

    async def settings(self) -> list[SettingState]:
        """The settings of the running broker; see Client.settings."""
        return await aside(self._client.settings, f"look at the broker {self.name!r}")

    async def change_settings(
        self, values: StoredSettings | None = None, *, forget: Several[str] = (), allow_deletion: bool = False
    ) -> list[str]:
        """Changes the settings that the broker's store remembers; see Client.change_settings."""
        return await aside(
            lambda: self._client.change_settings(values, forget=forget, allow_deletion=allow_deletion),
            f"change the settings of the broker {self.name!r}",
        )

    async def backup(
        self, folder: str | os.PathLike[str], *, progress: Callable[[int, int], object] | None = None
    ) -> Backed:
        """Makes a consistent copy of the broker's store; see Client.backup. A thread makes it, and calls `progress`. It goes on
        if the task is cancelled."""
        return await aside(
            lambda: self._client.backup(folder, progress=progress), f"back up the store of the broker {self.name!r}"
        )

    async def believe_clock(self) -> None:
        """Says that the machine's clock is right; see Client.believe_clock."""
        await aside(self._client.believe_clock, f"have the broker {self.name!r} believe its clock")

    async def message(self, message_id: str) -> Message:
        """The message with this id; see Client.message."""
        return await aside(lambda: self._client.message(message_id), f"look for message {message_id}")

    async def find(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int | None = None, most: int = 32
    ) -> list[Message]:
        """Messages of the topic with this key, newest first; see Client.find."""
        return await aside(
            lambda: self._client.find(topic, key, begin_ms=begin_ms, end_ms=end_ms, most=most),
            f"look for messages to {topic!r} with the key {key!r}",
        )

    @called_with(ProducerSettings)
    async def producer(self, **settings: Any) -> AsyncProducer:
        """A producer with a session of its own; see Client.producer. The event loop calls `check`, which may be a coroutine
        function."""
        doing = f"make a producer of the broker {self.name!r}"
        settings["check"] = called_in(running_loop(doing), settings.get("check"))
        return AsyncProducer(await aside(lambda: self._client.producer(**settings), doing))

    @called_with(ConsumerSettings)
    async def consumer(self, *group_and_topics: Any, **settings: Any) -> AsyncConsumer:
        """A consumer of the topics; see Client.consumer. The event loop calls the callbacks, with the AsyncConsumer as
        argument. They may be coroutine functions.

        Raises: SettingError: `spin` was given. An event loop sleeps until it is told of a message, so spinning would only take
            a core.
        """
        if settings.get("spin"):
            why = "its event loop sleeps until a message has come"
            hint = "leave `spin` out, or use the consumer of orbitmq.connect() in a thread"
            raise SettingError(f"an awaitable consumer cannot spin: {why}", setting="spin", value=settings["spin"], hint=hint)
        doing = f"make a consumer of the broker {self.name!r}"
        return AsyncConsumer(await aside(lambda: self._client.consumer(*group_and_topics, **settings), doing))

    @called_with(WorkerSettings)
    def worker(self, *group_and_topics: Any, **settings: Any) -> Opening:
        """A worker of the group: `async with client.worker(...) as worker`, or `await` it; see Client.worker."""
        make = partial(self._client.worker, *group_and_topics, **settings)
        return Opening(make, f"make a worker of the broker {self.name!r}")

    @called_with(WorkerSettings)
    def work(self, *group_and_topics: Any, **settings: Any) -> AsyncDecorator:
        """Decorates a handler, which gets a coroutine function `run()`; see Client.work."""
        return AsyncDecorator(partial(self.worker, *group_and_topics, **settings))

    def dead_letters(self, group: str) -> AsyncDeadLetters:
        """The messages that this group has given up; see Client.dead_letters."""
        return AsyncDeadLetters(self._client.dead_letters(group))

    async def dead_letter_groups(self) -> list[str]:
        """The groups that have dead letters; see Client.dead_letter_groups."""
        return await aside(self._client.dead_letter_groups, f"list dead letters of the broker {self.name!r}")

    async def delayed(self, topic: str | None = None, *, most: int | None = None) -> list[DelayedMessage]:
        """The messages whose time has not come yet; see Client.delayed."""
        return await aside(lambda: self._client.delayed(topic, most=most), "list delayed messages")

    async def cancel(self, handle: Handle, *, timeout: float | None = None, durability: Durability | None = None) -> bool:
        """Cancels a delayed message; see Client.cancel. If the task is cancelled meanwhile, the message may be cancelled or
        not."""
        return await aside(
            lambda: self._client.cancel(handle, timeout=timeout, durability=durability), "cancel a delayed message"
        )

    async def cancel_batch(
        self, handles: Several[Handle], *, timeout: float | None = None, durability: Durability | None = None
    ) -> list[bool]:
        """Cancels several delayed messages; see Client.cancel_batch."""
        return await aside(
            lambda: self._client.cancel_batch(handles, timeout=timeout, durability=durability), "cancel delayed messages"
        )

    async def stop_broker(self) -> None:
        """See Client.stop_broker."""
        await aside(self._client.stop_broker, f"stop the broker {self.name!r}")

    async def close(self) -> None:
        """Closes what was made from this client, then the connection."""
        await aside_or_here(self._client.close, "close the connection")

    async def __aenter__(self) -> Self:
        return self

    def _words(self) -> str:
        return words_of(self._client)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Connecting:
    """What `connect` returns: `await` it, or use it in `async with`."""

    def __init__(self, make: Callable[[], Client], doing: str) -> None:
        self._make = make
        self._doing = doing
        self._client: AsyncClient | None = None

    def __await__(self) -> Generator[Any, None, AsyncClient]:
        return self._connect().__await__()

    async def __aenter__(self) -> AsyncClient:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def _connect(self) -> AsyncClient:
        return AsyncClient(await aside(self._make, self._doing))


@known_options
def connect(
    name: str | None = None, *, store: str | os.PathLike[str] | None = None, timeout: float = 5.0, wait: float = 0.0
) -> Connecting:
    """A client of the running broker `name` (None: $ORBITMQ_BROKER, else "default"), or of the broker that runs on `store`; see
    Client.

    Raises (when awaited): BrokerNotRunning: no broker answered within `wait` seconds.
    """
    where = f"on the store {os.fspath(store)!r}" if store is not None else repr(broker_name(name))
    return Connecting(lambda: Client(name, store=store, timeout=timeout, wait=wait), f"connect to the broker {where}")
