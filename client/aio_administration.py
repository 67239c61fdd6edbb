"""client/administration.py for asyncio: the same methods, awaitable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orbitmq.client.aside import aside
from orbitmq.client.client import Client
from orbitmq.client.client_status import ClientStatus
from orbitmq.client.status import GroupStatus

if TYPE_CHECKING:
    from orbitmq.client.group_reset import GroupMove, ResetTo


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

    async def clients(self) -> list[ClientStatus]:
        """The processes that use the broker; see Client.clients."""
        return await aside(self._client.clients, "list the clients")
