"""Sends that lack a topic: that of their own, or one in which their messages wait. The loop asks once for each."""

from __future__ import annotations

from orbitmq.errors import OrbitError
from orbitmq.remoting.host import Host
from orbitmq.remoting.request import AGAIN, NO_PERMISSION, SYSTEM_ERROR, TOPIC_NOT_EXIST, Answer, Answers, Request
from orbitmq.remoting.send_backs import RETRY, prepare_group
from orbitmq.remoting.template_topic import TEMPLATE, queues_of
from orbitmq.remoting.topic_fault import topic_fault
from orbitmq.shm.reply_topic import REPLY_TOPIC
from orbitmq.shm.topic_name import how_to_make, reserved_topic
from orbitmq.store.delays import DELAY_TOPIC, TIMER_TOPIC
from orbitmq.store.halves import OP_TOPIC

REPLIES = (324, 325)
PREPARED = 4  # in sysFlag: of a half message
REGION = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}  # of each answer to a send

# By the property that asks for it: where the message waits.
_WAITING = {
    "DELAY": DELAY_TOPIC,
    "TIMER_DELAY_SEC": TIMER_TOPIC,
    "TIMER_DELAY_MS": TIMER_TOPIC,
    "TIMER_DELIVER_MS": TIMER_TOPIC,
    "TRAN_MSG": OP_TOPIC,
}


class Sends:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: Answers = {10: self._prepare, 310: self._prepare, 320: self._prepare}
        self.answers.update(dict.fromkeys(REPLIES, self._reply))

    def _reply(self, request: Request) -> Answer:
        """The loop refuses what is not for the topic of replies."""
        self._host.ask("prepare_replies")
        return AGAIN

    def _prepare(self, request: Request) -> Answer:
        long = request.code == 10
        topic = request.fields["topic" if long else "b"]
        group = topic.removeprefix(RETRY)
        if group != topic:  # given back, with what it was
            return prepare_group(self._host, group)
        if self._host.topics.find(topic) is None:
            fault, reserved = topic_fault(topic), reserved_topic(topic)
            if fault is not None:
                return Answer(SYSTEM_ERROR, fault, REGION)
            if reserved is not None and topic != REPLY_TOPIC:
                return Answer(NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.\n{reserved}", REGION)
            template = request.fields.get("defaultTopic" if long else "c")
            if not self._host.creates or template != TEMPLATE.name or reserved is not None:
                return Answer(TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!\n{how_to_make(topic)}", REGION)
            self._make(topic, queues_of(request.fields["defaultTopicQueueNums" if long else "d"]))
        properties, flag = ("properties", "sysFlag") if long else ("i", "f")
        for name in _waiting(request.fields.get(properties, ""), request.fields.get(flag, "0")):
            if self._host.topics.find(name) is None:
                self._host.ask("prepare_waiting", topic=name)
        return AGAIN

    def _make(self, topic: str, queues: int) -> None:
        try:
            self._host.ask("create_topic", name=topic, queues=queues)
        except OrbitError:
            if self._host.topics.find(topic) is None:  # otherwise somebody else was faster
                raise


def _waiting(properties: str, flag: str) -> set[str]:
    """The topics that a message with these needs beside its own."""
    names = {pair.partition("\1")[0] for pair in properties.split("\2")}
    half = {OP_TOPIC} if int(flag) & PREPARED else set[str]()
    return half | {topic for name, topic in _WAITING.items() if name in names}
