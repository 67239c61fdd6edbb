"""Sends that lack a topic: that of their own, or one in which their messages wait. The loop asks once for each."""

from __future__ import annotations

from orbitmq.remoting.host import Host
from orbitmq.remoting.request import AGAIN, Answer, Answers, Request
from orbitmq.store.delays import DELAY_TOPIC, TIMER_TOPIC

# By the property that asks for it: where the message waits.
_WAITING = {
    "DELAY": DELAY_TOPIC,
    "TIMER_DELAY_SEC": TIMER_TOPIC,
    "TIMER_DELAY_MS": TIMER_TOPIC,
    "TIMER_DELIVER_MS": TIMER_TOPIC,
}


class Sends:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: Answers = {10: self._prepare, 310: self._prepare, 320: self._prepare}

    def _prepare(self, request: Request) -> Answer:
        pairs = request.fields.get("properties" if request.code == 10 else "i", "").split("\2")
        for topic in {_WAITING[name] for pair in pairs if (name := pair.partition("\1")[0]) in _WAITING}:
            if self._host.topics.find(topic) is None:
                self._host.ask("prepare_delays", topic=topic)
        return AGAIN
