"""The offsets of groups, as consumers that keep them at the broker ask for them and commit them."""

from __future__ import annotations

from contextlib import suppress

from orbitmq.errors import OrbitError
from orbitmq.remoting.host import Host
from orbitmq.remoting.request import QUERY_NOT_FOUND, Answer, Answers, Request


class Offsets:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: Answers = {14: self._query, 15: self._commit}

    def _query(self, request: Request) -> Answer:
        """As RocketMQ: a group that is new to a queue whose first message is still there begins with that one."""
        group, topic, queue = (request.fields[name] for name in ("consumerGroup", "topic", "queueId"))
        offset = self._committed(group, topic, int(queue))
        if offset is None and self._whole(topic, int(queue)):
            offset = 0
        if offset is None:
            return Answer(QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
        return Answer(fields={"offset": str(offset)})

    def _commit(self, request: Request) -> Answer:
        topic, queue, offset = (request.fields[name] for name in ("topic", "queueId", "commitOffset"))
        self._host.ask("commit_for_group", group=request.fields["consumerGroup"], offsets=[[topic, int(queue), int(offset)]])
        return Answer(fields={})

    def take(self, group: str, offsets: list[tuple[str, int, int]]) -> None:
        """Commits what came with pulls, of a group that there is. Nobody hears of a refusal, for a pull has another answer:
        clients commit by 15 as well, and hear it there."""
        try:
            self._host.ask("commit_for_group", group=group, offsets=offsets, pulled=True)
        except (OrbitError, OSError):
            for each in offsets if len(offsets) > 1 else []:  # one of them may be refused alone
                with suppress(OrbitError, OSError):
                    self._host.ask("commit_for_group", group=group, offsets=[each], pulled=True)

    def _committed(self, group: str, topic: str, queue: int) -> int | None:
        offsets, _ = self._host.ask("committed", group=group)
        return next((offset for name, number, offset in offsets if (name, number) == (topic, queue)), None)

    def _whole(self, topic: str, queue: int) -> bool:
        """Also of a queue that there is not, as with RocketMQ."""
        known = self._host.topics.find(topic)
        if known is None or not 0 <= queue < known.queues:
            return True
        return self._host.topics.bounds(known.first_slot + queue).minimum == 0
