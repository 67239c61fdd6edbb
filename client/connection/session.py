"""What a producer or consumer needs of the connection below it: a session, and the addresses of the broker's segments.

A session belongs to one process and one life of the broker. When the broker dies, or the process forks, the owner of the
session asks the opener for another one. All addresses may differ then, so they are part of the session.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from orbitmq.client.connection.attachment import Attachment
    from orbitmq.client.connection.bell import Bell

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class SessionHandle:
    """A mapped session and the segments it works with; all of them stay mapped until `close`.

    Addresses are those of mappings in this process. `supervisor_fd` is a pidfd, readable once the broker has died; -1 if nobody
    watches. `close` gives the session back and unmaps it. It must be harmless to call it again, after the broker's death, or in
    a forked child. No thread may use the addresses after it. `leave` is for a finalizer, which may wait for nothing: the
    broker is told later, when that is possible, and the mapping stays as long as somebody has the handle. A handle that nobody
    has leaves by itself.
    """

    address: int
    size: int
    control_address: int
    topics_address: int
    wake_address: int
    supervisor_fd: int
    slot: int
    epoch: int
    window: int
    sq_capacity: int
    message_max: int
    queue_capacity: int
    pid: int
    generation: int
    close: Callable[[], None]
    leave: Callable[[], None] = lambda: None
    work_capacity: int = 0

    def __del__(self) -> None:
        with suppress(AttributeError):  # it was never made as a whole
            self.leave()


class SessionOpener(Protocol):
    """The connection to one broker. The producers and consumers made from it share it."""

    @property
    def name(self) -> str:
        """The broker's name, for error messages."""

    @property
    def timeout(self) -> float:
        """Seconds that one question to the broker may take."""

    def open_session(
        self, *, window: int = 0, sq_capacity: int = 0, message_max: int = 0, queue_capacity: int = 0
    ) -> SessionHandle:
        """A fresh session, of a producer (window and sq_capacity, bytes, powers of two) or a consumer (queue_capacity).

        Reconnects first if the connection is broken or was made before a fork. Any thread may call it.

        Raises: BrokerNotRunning, BrokerStopped: no broker answers. Full: the session table, or /dev/shm, has no room.
            SettingError: the broker does not allow this size.
        """


class PatientOpener(SessionOpener, Protocol):
    """A connection that can wait for a broker; needed where there is a `wait`."""

    def open_session_now(self, **sizes: int) -> SessionHandle:
        """As open_session, for one of many attempts."""

    def attach(self, wait: float = 0.0) -> Attachment:
        """The mappings of the tree that runs now."""

    def outlast(
        self, attempt: Callable[[], _Result], wait: float, *bells: Bell, starting: float | None = None
    ) -> _Result:
        """See client/connection/connection.py."""


class ConsumerOpener(SessionOpener, Protocol):
    """A connection that also answers questions to the coordinator."""

    def ask(self, operation: str, **fields: Any) -> Any:
        """generation: the tree whose session the question is about. Raises: what the broker answers; BrokerNotRunning,
        BrokerStopped, TimedOut, Closed."""

    def ask_for_file(self, operation: str, **fields: Any) -> tuple[Any, int]:
        """The same for an answer with a descriptor, which the caller closes."""

    def caught_up(self, doing: str) -> object:
        """See client/connection/connection.py."""
