"""The offsets of groups, as consumers that keep them at the broker ask for them."""

from __future__ import annotations

from orbitmq.remoting.host import Host
from orbitmq.remoting.request import QUERY_NOT_FOUND, Answer, Answers, Request


class Offsets:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: Answers = {14: self._query}

    def _query(self, request: Request) -> Answer:
        group, topic, queue = (request.fields[name] for name in ("consumerGroup", "topic", "queueId"))
        offset = self._committed(group, topic, int(queue))
        if offset is None:
            return Answer(QUERY_NOT_FOUND, f"the group {group} has no offset in queue {queue} of {topic}")
        return Answer(fields={"offset": str(offset)})

    def _committed(self, group: str, topic: str, queue: int) -> int | None:
        offsets, _ = self._host.ask("committed", group=group)
        return next((offset for name, number, offset in offsets if (name, number) == (topic, queue)), None)
