"""What a client can ask about delayed messages: which wait, and that some are not to come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orbitmq.client.argument import seconds
from orbitmq.client.connection.connection import Connection
from orbitmq.client.parameters import spelled
from orbitmq.errors import SettingError
from orbitmq.shm.durability import Durability
from orbitmq.shm.means import means

if TYPE_CHECKING:
    from orbitmq.client.delay.cancel_producer import CancelProducer
    from orbitmq.client.delay.cancel_target import Handle
    from orbitmq.client.delay.delayed import DelayedMessage
    from orbitmq.client.several import Several


@spelled
class DelayAdministration:
    """A part of Client."""

    _connection: Connection

    def delayed(self, topic: str | None = None, *, most: int | None = None) -> list[DelayedMessage]:
        """The messages whose time has not come yet, the next one first (docs/delay.md).

        Args:
            topic: only those that are for this topic.
            most: how many at most; None: all, which takes a second and some memory for each 200,000.

        Raises: TopicNameError; UnknownTopic: nothing waits for it, and it does not exist; SettingError: `most` is below 1.
            CorruptRecord: one of them is damaged. TimedOut: reput is behind the log's end, and does not say that it cannot go
            on, as on a full disk: then the list has what is there. BrokerNotRunning.
        """
        with means(doing := "list delayed messages"):
            from orbitmq.client.delay.delayed import delayed_messages
            from orbitmq.shm.topic_name import check_topic_name

            if topic is not None:
                check_topic_name(topic)
            return delayed_messages(self._connection.caught_up(doing, partly=True), topic, most)

    def cancel(self, handle: Handle, *, timeout: float | None = None, durability: Durability | None = None) -> bool:
        """Cancels a message that was sent with `delay` or `deliver_at` and waits for its time. Returns whether it never comes,
        whatever is killed after that. False: its time has come; or it was cancelled before, and its time has come since.

        Args:
            handle: the receipt of its send, the receipt's `id`, what `delayed` returned, or its place as `orbitmq delay list`
                prints it. Handles belong to one store.
            timeout: seconds to wait for the answer; None: the client's.
            durability: "flushed": True is returned once the disk knows it, and a power cut cannot bring the message back;
                "appended"; None: what the message's topic says.

        Raises: UsageError: the handle names no message with a time. UnknownTopic, NoPermission: the topic for which the message
            is does not exist any more, or may not be written. SettingError; StoreFull, Full; TimedOut, BrokerStopped: it may be
            cancelled or not. CorruptRecord; BrokerNotRunning. After any of them, repeating is safe.
        """
        return self._cancelled([handle], timeout, durability)[0]

    def cancel_batch(
        self, handles: Several[Handle], *, timeout: float | None = None, durability: Durability | None = None
    ) -> list[bool]:
        """Cancels several delayed messages, and waits once for all. Returns for each what `cancel` would. What `send_batch`
        returned is a list of handles too. timeout: seconds for each 1,024 of them.

        Raises: as `cancel`. If one of the handles is wrong (UsageError), nothing is cancelled; after other errors some messages
            may be. Repeating is safe.
        """
        _check_list(handles)
        return self._cancelled(list(handles), timeout, durability)

    def _cancelled(self, handles: list[Handle], timeout: float | None, durability: Durability | None) -> list[bool]:
        limit = self._connection.timeout if timeout is None else seconds(timeout, "cancel messages", or_none=True)
        if limit < 0:
            text = f"could not cancel messages within {timeout!r} s: a number of seconds from 0 is needed"
            raise SettingError(text, setting="timeout", value=timeout)
        with means("cancel delayed messages"):
            from orbitmq.client.delay.cancel import Cancelling

            return Cancelling(self._connection.attachment, self._canceller, limit).cancel(handles, durability)

    def _canceller(self) -> CancelProducer:
        """The producer of the records that cancel."""
        raise NotImplementedError


def _check_list(handles: object) -> None:
    """Raises: SettingError: it is one handle."""
    if isinstance(handles, str) or not hasattr(handles, "__iter__"):
        text = f"could not cancel {handles!r} as a batch: cancel_batch() takes a list of handles"
        raise SettingError(text, hint="use cancel() for one message", setting="handles", value=handles)
