"""What an administrator sees of a queue itself: its units, and how fast a topic grew by them."""

from __future__ import annotations

import json
import time
from contextlib import closing

from orbitmq.errors import OffsetOutOfRange
from orbitmq.remoting.admin.connections import subscription_shown
from orbitmq.remoting.admin.log_view import LogView
from orbitmq.remoting.admin.queue_map import compact
from orbitmq.remoting.consumers import Consumers
from orbitmq.remoting.host import Host
from orbitmq.remoting.request import SUCCESS, SYSTEM_ERROR, Answer, Answers, Request
from orbitmq.shm.topic_table import Topic
from orbitmq.store.consume_queue import ConsumeQueue

UNITS, STATISTICS = 321, 315
UNITS_MOST = 1024  # of one answer
_PUT = "TOPIC_PUT_NUMS"
_WINDOWS_S = {"statsMinute": 60, "statsHour": 3600, "statsDay": 86_400}


class QueueUnits:
    def __init__(self, host: Host, log: LogView, consumers: Consumers) -> None:
        self._host = host
        self._log = log
        self._consumers = consumers
        self.answers: Answers = {UNITS: self._units, STATISTICS: self._statistics}

    def _units(self, request: Request) -> Answer:
        fields = request.fields
        name, queue, begin, count = fields["topic"], int(fields["queueId"]), int(fields["index"]), int(fields["count"])
        topic = self._host.topics.find(name)
        if topic is None or not 0 <= queue < topic.queues:
            return Answer(SYSTEM_ERROR, f"{queue}@{name} is not exist!")
        bounds = self._host.topics.bounds(topic.first_slot + queue)
        missing = Answer(SUCCESS, f"Index {begin} of {queue}@{name} is not exist!")  # a success without a body, as RocketMQ's
        if not bounds.minimum <= begin < bounds.maximum:
            return missing
        end = min(bounds.maximum, begin + max(0, min(count, UNITS_MOST)))
        settings = self._host.settings
        files = ConsumeQueue(settings.layout.root, name, queue, settings.files.queue_file_units)
        try:
            found = files.units(begin, end)
        except OffsetOutOfRange:  # they were removed meanwhile
            return missing
        units = [
            {"physicOffset": unit.physical_offset, "physicSize": unit.size, "tagsCode": unit.tags_code, "eval": False}
            for unit in found
        ]
        told = {"maxQueueIndex": bounds.maximum, "minQueueIndex": bounds.minimum, "queueData": units}
        return Answer(body=compact({**self._filter(name, fields.get("consumerGroup")), **told}).encode())

    def _filter(self, topic: str, group: str | None) -> dict[str, object]:
        """What the members of the group want of the topic."""
        if group is None:
            return {}
        members = self._consumers.members(group).values()
        told = next((each for member in members for each in member.data.subscriptions if each.topic == topic), None)
        if told is None:
            return {"filterData": f"{group}@{topic} is not online!"}
        kept = {"consumerGroup": group, "expression": told.expression, "expressionType": told.kind, "topic": topic}
        text = "null" if told.kind == "TAG" else json.dumps(kept, indent="\t")
        return {"filterData": text, "subscriptionData": subscription_shown(told)}

    def _statistics(self, request: Request) -> Answer:
        """How many messages a topic got in the last minute, hour and day, counted in its queues. Reads are not counted."""
        kind, key = request.fields["statsName"], request.fields["statsKey"]
        topic = self._host.topics.find(key) if kind == _PUT else None
        if topic is None:
            return Answer(SYSTEM_ERROR, f"The stats <{kind}> <{key}> not exist")
        now_ms = time.time_ns() // 1_000_000
        told = {}
        for window, seconds in _WINDOWS_S.items():
            count = self._since(topic, now_ms - 1000 * seconds)
            told[window] = {"avgpt": float(count > 0), "sum": count, "tps": round(count / seconds, 4)}
        return Answer(body=compact(told).encode())

    def _since(self, topic: Topic, store_ms: int) -> int:
        """A queue that cannot be searched counts as if it had got none."""
        total = 0
        with closing(self._log.reader()) as reader:
            for queue in range(topic.queues):
                bounds = self._host.topics.bounds(topic.first_slot + queue)
                first = self._log.search(reader, topic, queue, store_ms) if bounds.minimum < bounds.maximum else None
                total += 0 if first is None else max(0, bounds.maximum - first)
        return total
