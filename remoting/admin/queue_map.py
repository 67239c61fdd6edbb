"""Maps whose keys are queues, as RocketMQ writes them: with an object as key.
That is no JSON, but its tools read nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping

from orbitmq.shm.topic_table import QueueKey


def queue_map(broker: str, values: Mapping[QueueKey, object]) -> str:
    """The text of such a map, of one broker's queues."""
    pairs = []
    for (topic, queue), value in values.items():
        key = {"brokerName": broker, "queueId": queue, "topic": topic}
        pairs.append(f"{compact(key)}:{compact(value)}")
    return "{" + ",".join(pairs) + "}"


def compact(value: object) -> str:
    """Java's and Go's readers take this form."""
    return json.dumps(value, separators=(",", ":"))
