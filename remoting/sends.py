"""Sends that lack a topic: that of their own, or one in which their messages wait. The loop asks once for each."""

from __future__ import annotations

from orbitmq.remoting.host import Host
from orbitmq.remoting.request import AGAIN, Answer, Answers, Request
from orbitmq.store.delays import DELAY_TOPIC, TIMER_TOPIC
from orbitmq.store.halves import OP_TOPIC

PREPARED = 4  # in sysFlag: of a half message

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

    def _prepare(self, request: Request) -> Answer:
        brief = request.code != 10
        pairs = request.fields.get("i" if brief else "properties", "").split("\2")
        topics = {_WAITING[name] for pair in pairs if (name := pair.partition("\1")[0]) in _WAITING}
        if int(request.fields.get("f" if brief else "sysFlag", "0")) & PREPARED:
            topics.add(OP_TOPIC)
        for topic in topics:
            if self._host.topics.find(topic) is None:
                self._host.ask("prepare_delays", topic=topic)
        return AGAIN
