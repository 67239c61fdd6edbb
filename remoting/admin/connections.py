"""What administrators ask about the clients of a group: who they are, what they have subscribed to. And the order to its
members to go on elsewhere."""

from __future__ import annotations

from contextlib import closing

from orbitmq.native._core import lib
from orbitmq.remoting.admin.log_view import LogView
from orbitmq.remoting.admin.queue_map import compact, queue_map
from orbitmq.remoting.clients import Clients
from orbitmq.remoting.consumers import Consumer, Consumers
from orbitmq.remoting.heartbeat import Subscription
from orbitmq.remoting.host import Host
from orbitmq.remoting.producers import Producers
from orbitmq.remoting.request import NOT_ONLINE, SYSTEM_ERROR, Answer, Answers, Request
from orbitmq.shm.topic_table import Topic
from orbitmq.store.index_file import TIME_END

CONSUMERS, PRODUCERS, RESET, RESET_CLIENT = 203, 204, 222, 220
NEWEST = -1  # as a time


class Connections:
    def __init__(self, host: Host, log: LogView, clients: Clients, consumers: Consumers, producers: Producers) -> None:
        self._host = host
        self._log = log
        self._clients = clients
        self._consumers = consumers
        self._producers = producers
        self.answers: Answers = {CONSUMERS: self._of_consumers, PRODUCERS: self._of_producers, RESET: self._reset}

    def _of_consumers(self, request: Request) -> Answer:
        group = request.fields["consumerGroup"]
        members = self._consumers.members(group)
        if not members:
            return _not_online(group)
        newest: Consumer = max(members.values(), key=lambda member: member.heard_s)
        subscribed = [each for member in members.values() for each in member.data.subscriptions]
        subscriptions = {each.topic: subscription_shown(each) for each in subscribed}
        told = {
            "connectionSet": self._clients.described(tuple(members)),
            "consumeFromWhere": newest.data.begins,
            "consumeType": newest.data.kind,
            "messageModel": newest.data.model,
            "subscriptionTable": subscriptions,
        }
        return Answer(body=compact(told).encode())

    def _of_producers(self, request: Request) -> Answer:
        group = request.fields["producerGroup"]
        clients = self._producers.clients(group)
        if not clients:
            return Answer(SYSTEM_ERROR, f"the producer group[{group}] not exist")
        return Answer(body=compact({"connectionSet": self._clients.described(clients)}).encode())

    def _reset(self, request: Request) -> Answer:
        """The members go on with the messages from this time on: each hears of it, commits and pulls anew, as with RocketMQ.
        Without isForce, only backwards."""
        group, name = request.fields["group"], request.fields["topic"]
        store_ms, force = int(request.fields["timestamp"]), request.fields.get("isForce", "false") == "true"
        topic = self._host.topics.find(name)
        if topic is None:
            return Answer(SYSTEM_ERROR, f"[reset-offset] reset offset failed, no topic in this broker. topic={name}")
        answered, _ = self._host.ask("committed", group=group)
        committed = {queue: offset for each, queue, offset in answered if each == name}
        missing = [queue for queue in range(topic.queues) if queue not in committed]
        if missing:
            text = f"THe consumer group <{group}> not exist\nit has committed no offset in queue {missing[0]} of {name} yet"
            return Answer(SYSTEM_ERROR, text)
        members = self._consumers.clients(group)
        if not members:
            text = f"Consumer not online, so can not reset offset, Group: {group} Topic: {name} Timestamp: {store_ms}"
            return Answer(NOT_ONLINE, text)
        at = self._offsets_at(topic, store_ms)
        offsets = {(name, queue): at[queue] if force or at[queue] < committed[queue] else committed[queue] for queue in at}
        body = f'{{"offsetTable":{queue_map(self._host.broker, offsets)}}}'.encode()
        fields = {"topic": name, "group": group, "timestamp": str(store_ms), "isForce": "false"}
        for client in members:
            self._host.tell(client, RESET_CLIENT, fields, body)
        return Answer(body=body)

    def _offsets_at(self, topic: Topic, store_ms: int) -> dict[int, int]:
        found = {}
        with closing(self._log.reader()) as reader:
            for queue in range(topic.queues):
                maximum = self._host.topics.bounds(topic.first_slot + queue).maximum
                cursor = reader.add(topic.first_slot + queue, 0)
                found[queue] = maximum if store_ms == NEWEST else reader.since(cursor, max(0, min(store_ms, TIME_END)))
        return found


def _not_online(group: str) -> Answer:
    return Answer(NOT_ONLINE, f"the consumer group[{group}] not online")


def subscription_shown(told: Subscription) -> dict[str, object]:
    """As mqadmin reads it."""
    tags = [] if told.kind != "TAG" else sorted({tag.strip() for tag in told.expression.split("||")} - {"", "*"})
    encoded = [tag.encode(errors="replace") for tag in tags]
    codes = [lib.java_hash(0, tag, len(tag)) for tag in encoded]
    fixed = {"classFilterMode": False, "codeSet": codes, "subVersion": told.version}
    return {**fixed, "expressionType": told.kind, "subString": told.expression, "tagsSet": tags, "topic": told.topic}
