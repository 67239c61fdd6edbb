"""What the remoting gateway asks for its ordered consumers: that one of them reads a queue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from orbitmq.client.argument import check_topic_type, whole
from orbitmq.client.connection.connection import Connection
from orbitmq.client.group_name import check_group_type
from orbitmq.client.parameters import spelled
from orbitmq.client.work.job import check_seconds
from orbitmq.errors import SettingError
from orbitmq.shm.means import means
from orbitmq.shm.topic_table import QueueKey

if TYPE_CHECKING:
    from orbitmq.client.several import Several

LEASE_S_MAX = 3600.0  # as the broker has it


@spelled
class QueueLocking:
    """A part of Client."""

    _connection: Connection

    def lock_queues(self, group: str, queues: Several[QueueKey], owner: str, *, lease: float = 60.0) -> list[QueueKey]:
        """Locks queues of a group for an ordered consumer that is no member of it, or renews its locks. Nobody else can lock
        such a queue, and no member of the group gets it, until `unlock_queues` or the end of the lease. Members never need
        this: each of their queues is theirs alone.

        Args:
            queues: (topic, queue) of each.
            owner: the consumer's own name. Consumers that give the same name share their locks.
            lease: after so many seconds without a renewal the locks end.

        Returns: those of the queues that the owner has now; another owner or a member has the rest.

        Raises: UnknownTopic, UnknownQueue, GroupNameError, SettingError: nothing was locked; NoPermission: another user began
            the group; Full; StoreFull.
        """
        with means(f"lock queues of the group {group!r}"):
            asked = _asked(f"lock queues of the group {group!r}", group, queues, owner)
            check_seconds(lease, f"lock queues of the group {group!r}", "lease", above=True, most=LEASE_S_MAX)
            lease_ms = round(lease * 1000)
            answer = self._connection.ask("lock_queues", group=group, locked=asked, owner=owner, lease_ms=lease_ms)
            return [(topic, queue) for topic, queue in answer]

    def unlock_queues(self, group: str, queues: Several[QueueKey], owner: str) -> list[QueueKey]:
        """Ends the owner's locks of these queues. Returns those that were locked; the others stay as they are. Raises:
        GroupNameError, TopicNameError, SettingError: one of the arguments has another type; StoreFull: they are locked until
        their lease is over."""
        with means(f"unlock queues of the group {group!r}"):
            asked = _asked(f"unlock queues of the group {group!r}", group, queues, owner)
            answer = self._connection.ask("unlock_queues", group=group, locked=asked, owner=owner)
            return [(topic, queue) for topic, queue in answer]


def _asked(doing: str, group: object, queues: object, owner: object) -> list[list[str | int]]:
    """The queues as a question has them. Raises: GroupNameError, TopicNameError, SettingError."""
    check_group_type(group)
    if not isinstance(owner, str):
        text = f"could not {doing} for {owner!r:.100}: an owner is a str"
        raise SettingError(text, name="owner", setting="owner", value=owner)
    if isinstance(queues, str | bytes) or not isinstance(queues, Iterable):
        raise _no_list(doing, queues)
    asked: list[list[str | int]] = []
    for each in queues:
        if not isinstance(each, tuple | list) or len(each) != 2:
            raise _no_list(doing, queues)
        topic, queue = each
        check_topic_type(topic)
        asked.append([topic, whole(queue, doing, "queue")])
    return asked


def _no_list(doing: str, queues: object) -> SettingError:
    text = f"could not {doing} {queues!r:.100}: a list of queues is needed, each a topic and a number"
    return SettingError(text, hint='write [("orders", 0)]', name="queues", setting="queues", value=queues)
