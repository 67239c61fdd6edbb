"""What a client can ask to look after a broker: consumer groups, and who uses it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orbitmq.client.argument import check_flag, check_topic_type, whole
from orbitmq.client.connection.connection import Connection
from orbitmq.client.group_name import check_group_type
from orbitmq.client.parameters import spelled
from orbitmq.shm.means import means

if TYPE_CHECKING:
    from orbitmq.client.admin.client_status import ClientStatus
    from orbitmq.client.admin.group_reset import GroupMove, ResetTo
    from orbitmq.client.admin.status import GroupStatus

AT_ONCE = 4000  # queues in one question, which is at most 1 MiB


@spelled
class Administration:
    """A part of Client."""

    _connection: Connection

    def groups(self) -> list[GroupStatus]:
        """All consumer groups, by name: members, who has which queue, lag."""
        with means("list the groups"):
            from orbitmq.client.admin.status import group_status

            return [group_status(each) for each in self._connection.ask("groups")]

    def group(self, name: str) -> GroupStatus:
        """One consumer group, also with its retries that are not due yet; of a group with workers also what they have in hand,
        and what each queue waits for. Raises: UnknownGroup."""
        check_group_type(name)
        with means(f"look at the group {name!r}"):
            from orbitmq.client.admin.status import group_status
            from orbitmq.client.work.retries import waiting_retries
            from orbitmq.client.work.status import with_work

            (found,) = self._connection.ask("groups", group=name)
            group = group_status(found)
            retries = waiting_retries(self._connection.attachment, name, round(time.time() * 1000))
            return with_work(group, retries, self._work_of(name) if group.workers else ())

    def _work_of(self, name: str) -> Iterator[dict[str, Any]]:
        answer = self._connection.ask("group_work", group=name)
        yield answer
        while answer["after"]:
            answer = self._connection.ask("group_work", group=name, after=answer["after"])
            yield answer

    def reset_group(
        self, name: str, to: ResetTo, *, topic: str | None = None, queue: int | None = None, dry_run: bool = False
    ) -> list[GroupMove]:
        """Makes a group go on somewhere else, with or without members. Returns where it was and is, queue by queue.

        Members continue at the new offsets with their next call. What they got before and had not committed cannot be committed
        any more: their next commit raises Fenced.

        Args:
            to: "earliest"; "latest", behind all that was acknowledged before this call; an offset, or in a queue that does not
                hold it the end that is nearer; "+N" or "-N": messages from where the group is, as far as there are any; a
                datetime, or its text in ISO 8601: the message whose store time is nearest. A time without a zone is in this
                machine's.
            topic, queue: only in this topic, or this queue of it; None: in all topics that the group has read or reads. With a
                topic, a group can also be given offsets where it has none.
            dry_run: change nothing; only return what would be done.

        Raises: UnknownGroup, UnknownTopic, UnknownQueue; SettingError; OffsetOutOfRange; NoPermission: another user began the
            group; StoreFull: there is no room to write it down; TimedOut: reput is behind the log's end.
        """
        check_group_type(name)
        with means(doing := f"reset the group {name!r}"):
            check_flag(dry_run, doing, "dry_run")
            if topic is not None:
                check_topic_type(topic)
            if queue is not None:
                queue = whole(queue, doing, "queue")
            from orbitmq.client.admin.exact_groups import ExactGroup
            from orbitmq.client.admin.group_reset import GroupMove, moves

            wanted = moves(self._connection.caught_up(doing), self.group(name), to, topic, queue)
            if dry_run:
                return wanted
            places = {(each.topic, each.queue): each.after for each in wanted}
            was = ExactGroup(self._connection, name).set(places)
            done = []
            for begin in range(0, len(wanted), AT_ONCE):
                part = list(places.items())[begin : begin + AT_ONCE]
                exact = [key for key, _ in part if key in was]
                offsets = [[*key, after] for key, after in part]
                done += self._connection.ask("reset_group", group=name, offsets=offsets, exact=exact)
            moved = {(topic, queue): (before, after) for topic, queue, before, after in done}
            moved |= {key: (before, places[key]) for key, before in was.items()}
            return [GroupMove(*key, *offsets) for key, offsets in sorted(moved.items())]

    def pause_group(self, name: str) -> GroupStatus:
        """Stops a group: its members get no queues, and so no messages, until `resume_group`, also after restarts. A member
        keeps a queue until it has committed what it got from it, for its revoke_timeout at most.

        Raises: UnknownGroup; NoPermission; StoreFull.
        """
        return self._paused(name, True)

    def resume_group(self, name: str) -> GroupStatus:
        """Ends a pause: the members get their queues again, and continue at the committed offsets. Raises as `pause_group`
        does."""
        return self._paused(name, False)

    def delete_group(self, name: str) -> None:
        """Forgets a group and where it was. A consumer that joins it later begins where a new group would.

        Raises: UnknownGroup; GroupInUse: it has members; NoPermission; StoreFull. In all cases nothing was deleted.
        """
        check_group_type(name)
        with means(f"delete the group {name!r}"):
            from orbitmq.client.admin.exact_groups import ExactGroup

            if not self.group(name).members:
                known = self._connection.ask("committed", group=name)
                ExactGroup(self._connection, name).set({(topic, queue): None for topic, queue, _ in known})
            self._connection.ask("delete_group", group=name)

    def clients(self) -> list[ClientStatus]:
        """The processes that are connected, or have producers or consumers, by pid."""
        with means("list the clients"):
            from orbitmq.client.admin.client_status import client_status

            return [client_status(each) for each in self._connection.ask("clients")]

    def _paused(self, name: str, paused: bool) -> GroupStatus:
        check_group_type(name)
        with means(f"{'pause' if paused else 'resume'} the group {name!r}"):
            from orbitmq.client.admin.status import group_status

            return group_status(self._connection.ask("pause_group", group=name, paused=paused))
