"""What clients ask a name server: where a topic's queues are."""

from __future__ import annotations

from orbitmq.errors import UnknownGroup
from orbitmq.remoting import routes
from orbitmq.remoting.admin.write_permissions import WritePermissions
from orbitmq.remoting.host import Host
from orbitmq.remoting.request import TOPIC_NOT_EXIST, Answer, Answers, Request
from orbitmq.remoting.send_backs import RETRY
from orbitmq.remoting.template_topic import TEMPLATE, of_broker
from orbitmq.shm.reply_topic import REPLY_TOPIC
from orbitmq.shm.topic_table import Topic


class NameServer:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._permissions = WritePermissions(host)
        self.answers: Answers = {105: self._route, 106: self._cluster, **self._permissions.answers}

    def _route(self, request: Request) -> Answer:
        name = request.fields["topic"]
        topic = self._host.topics.find(name) or self._retries(name) or self._replies(name)
        if topic is None and self._host.creates:
            topic = {TEMPLATE.name: TEMPLATE, self._host.broker: of_broker(self._host.broker)}.get(name)
        if topic is None or topic.deleted:
            return Answer(TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {name}")
        reader, writable = routes.reader(request), not self._permissions.wiped(topic)
        return Answer(body=routes.route(topic, self._host.broker, request.broker, reader, writable=writable))

    def _retries(self, name: str) -> Topic | None:
        """Of a group that local clients began, too, there is a topic of retries as soon as somebody looks for it: mqadmin finds
        a group's brokers by it."""
        group = name.removeprefix(RETRY)
        if group == name:
            return None
        try:
            self._host.ask("groups", group=group)
        except UnknownGroup:
            return None
        self._host.ask("prepare_retries", group=group)
        return self._host.topics.find(name)

    def _replies(self, name: str) -> Topic | None:
        """Who replies for the first time looks where to."""
        if name == REPLY_TOPIC:
            self._host.ask("prepare_replies")
        return self._host.topics.find(name) if name == REPLY_TOPIC else None

    def _cluster(self, request: Request) -> Answer:
        return Answer(body=routes.cluster(self._host.broker, request.broker, routes.reader(request)))
