"""What the remoting gateway asks for its ordered consumers: that one of them reads a queue."""

from __future__ import annotations

from orbitmq.client.connection import Connection
from orbitmq.client.several import Several
from orbitmq.shm.means import means
from orbitmq.shm.topic_table import QueueKey


class QueueLocking:
    """A part of Client."""

    _connection: Connection

    def lock_queues(self, group: str, queues: Several[QueueKey], owner: str, *, lease: float = 60.0) -> list[QueueKey]:
        """Locks queues of a group for an ordered consumer that is no member of it, or renews its locks. Nobody else can lock
        such a queue, and no member of the group gets it, until `unlock_queues` or the end of the lease. Members never need
        this: each of their queues is theirs alone.

        Args:
            queues: (topic, queue) of each.
            owner: the consumer's own name. Who says the same name has the same locks.
            lease: after so many seconds without a renewal the locks end.

        Returns: those of the queues that the owner has now; another owner or a member has the rest.

        Raises: UnknownTopic, UnknownQueue, GroupNameError, SettingError: nothing was locked; NoPermission: another user began
            the group; Full; StoreFull.
        """
        with means(f"lock queues of the group {group!r}"):
            asked = [list(queue) for queue in queues]
            lease_ms = round(lease * 1000)
            answer = self._connection.ask("lock_queues", group=group, locked=asked, owner=owner, lease_ms=lease_ms)
            return [(topic, queue) for topic, queue in answer]

    def unlock_queues(self, group: str, queues: Several[QueueKey], owner: str) -> list[QueueKey]:
        """Ends the owner's locks of these queues. Returns those that were locked; the others stay as they are. Raises:
        StoreFull: they are locked until their lease is over."""
        with means(f"unlock queues of the group {group!r}"):
            asked = [list(queue) for queue in queues]
            answer = self._connection.ask("unlock_queues", group=group, locked=asked, owner=owner)
            return [(topic, queue) for topic, queue in answer]
