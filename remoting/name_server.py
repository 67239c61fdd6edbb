"""What clients ask a name server: where a topic's queues are."""

from __future__ import annotations

from orbitmq.remoting import routes
from orbitmq.remoting.host import Host
from orbitmq.remoting.request import TOPIC_NOT_EXIST, Answer, Answers, Request
from orbitmq.remoting.template_topic import TEMPLATE


class NameServer:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: Answers = {105: self._route, 106: self._cluster}

    def _route(self, request: Request) -> Answer:
        name = request.fields["topic"]
        topic = self._host.topics.find(name)
        if topic is None and name == TEMPLATE.name and self._host.creates:
            topic = TEMPLATE
        if topic is None or topic.deleted:
            return Answer(TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {name}")
        return Answer(body=routes.route(topic, self._host.broker, request.local))

    def _cluster(self, request: Request) -> Answer:
        return Answer(body=routes.cluster(self._host.broker, request.local))
