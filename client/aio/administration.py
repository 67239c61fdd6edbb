"""client/admin/administration.py for asyncio: the same methods, awaitable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orbitmq.client.admin.client_status import ClientStatus
from orbitmq.client.admin.status import GroupStatus, TopicStatus
from orbitmq.client.admin.topic_administration import PurgeTo, QueuePurge
from orbitmq.client.admin.topic_info import TopicInfo
from orbitmq.client.aio.aside import aside
from orbitmq.client.client import Client
from orbitmq.client.parameters import spelled
from orbitmq.client.several import Several
from orbitmq.shm.topic_table import QueueKey

if TYPE_CHECKING:
    from orbitmq.client.admin.group_reset import GroupMove, ResetTo


@spelled
class AsyncAdministration:
    """A part of AsyncClient."""

    _client: Client

    async def groups(self) -> list[GroupStatus]:
        """All consumer groups, by name; see Client.groups."""
        return await aside(self._client.groups, "list the groups")

    async def group(self, name: str) -> GroupStatus:
        """One consumer group; see Client.group."""
        return await aside(lambda: self._client.group(name), f"look at the group {name!r}")

    async def reset_group(
        self, name: str, to: ResetTo, *, topic: str | None = None, queue: int | None = None, dry_run: bool = False
    ) -> list[GroupMove]:
        """Makes a group go on somewhere else; see Client.reset_group."""
        return await aside(
            lambda: self._client.reset_group(name, to, topic=topic, queue=queue, dry_run=dry_run), f"reset the group {name!r}"
        )

    async def pause_group(self, name: str) -> GroupStatus:
        """Stops a group; see Client.pause_group."""
        return await aside(lambda: self._client.pause_group(name), f"pause the group {name!r}")

    async def resume_group(self, name: str) -> GroupStatus:
        """Ends a pause; see Client.resume_group."""
        return await aside(lambda: self._client.resume_group(name), f"resume the group {name!r}")

    async def delete_group(self, name: str) -> None:
        """Forgets a group and where it was; see Client.delete_group."""
        await aside(lambda: self._client.delete_group(name), f"delete the group {name!r}")

    async def topic(self, name: str) -> TopicStatus:
        """One topic, with its queues; see Client.topic."""
        return await aside(lambda: self._client.topic(name), f"look at the topic {name!r}")

    async def grow_topic(self, name: str, queues: int) -> TopicInfo:
        """Gives a topic more queues; see Client.grow_topic."""
        return await aside(lambda: self._client.grow_topic(name, queues), f"grow the topic {name!r}")

    async def set_permissions(self, name: str, *, read: bool, write: bool) -> TopicInfo:
        """Says whether a topic may be read and written; see Client.set_permissions."""
        return await aside(
            lambda: self._client.set_permissions(name, read=read, write=write), f"change the permission of the topic {name!r}"
        )

    async def purge_topic(
        self, name: str, to: PurgeTo = "latest", *, queue: int | None = None, dry_run: bool = False
    ) -> list[QueuePurge]:
        """Removes messages of a topic for all its readers; see Client.purge_topic."""
        return await aside(
            lambda: self._client.purge_topic(name, to, queue=queue, dry_run=dry_run), f"purge the topic {name!r}"
        )

    async def delete_topic(self, name: str) -> None:
        """Deletes a topic; see Client.delete_topic."""
        await aside(lambda: self._client.delete_topic(name), f"delete the topic {name!r}")

    async def lock_queues(
        self, group: str, queues: Several[QueueKey], owner: str, *, lease: float = 60.0
    ) -> list[QueueKey]:
        """Locks queues for a consumer that is no member; see Client.lock_queues."""
        return await aside(
            lambda: self._client.lock_queues(group, queues, owner, lease=lease), f"lock queues of the group {group!r}"
        )

    async def unlock_queues(self, group: str, queues: Several[QueueKey], owner: str) -> list[QueueKey]:
        """Ends locks of queues; see Client.unlock_queues."""
        return await aside(lambda: self._client.unlock_queues(group, queues, owner), f"unlock queues of the group {group!r}")

    async def clients(self) -> list[ClientStatus]:
        """The processes that use the broker; see Client.clients."""
        return await aside(self._client.clients, "list the clients")
