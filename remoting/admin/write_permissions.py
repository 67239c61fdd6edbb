"""A broker that is taken out of the routes: producers find no queue to write to. As with RocketMQ, this is the name server's
matter alone and in memory: it ends with the gateway's process, and for a topic when somebody changes the topic, which registers
it anew. Topics that are made later can be written."""

from __future__ import annotations

from orbitmq.remoting.host import Host
from orbitmq.remoting.request import Answer, Answers, Request
from orbitmq.remoting.template_topic import TEMPLATE
from orbitmq.shm.topic_table import Topic

WIPE, ADD = 205, 327


class WritePermissions:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._wiped: dict[str, Topic] = {}  # by name, as they were then
        self.answers: Answers = {WIPE: self._wipe, ADD: self._add}

    def wiped(self, topic: Topic) -> bool:
        return self._wiped.get(topic.name) == topic

    def _wipe(self, request: Request) -> Answer:
        topics = self._topics(request)
        self._wiped |= {topic.name: topic for topic in topics}
        return Answer(fields={"wipeTopicCount": str(len(topics))})

    def _add(self, request: Request) -> Answer:
        """A topic that nobody may write stays so. RocketMQ would name it to producers, whose sends the broker then refuses."""
        topics = self._topics(request)
        if topics:
            self._wiped.clear()
        return Answer(fields={"addTopicCount": str(len(topics))})

    def _topics(self, request: Request) -> list[Topic]:
        """All, also those after which others are made; none for a broker that is another one."""
        if request.fields.get("brokerName") != self._host.broker:
            return []
        return [*self._host.topics, *([TEMPLATE] if self._host.creates else [])]
