"""The position of a stream: the next queue offset of each queue, and its JSON in Spark's checkpoint, with the shape of the
Kafka source's:

    {"orders": {"0": 17, "1": 4}}

Spark compares two of them as text, so topics and queues are always written in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orbitmq.errors import SettingError

Place = tuple[str, int]  # topic, queue
Offsets = dict[Place, int]
Json = dict[str, dict[str, int]]


def to_json(offsets: Mapping[Place, int]) -> Json:
    made: Json = {}
    for (topic, queue), offset in sorted(offsets.items()):
        made.setdefault(topic, {})[str(queue)] = offset
    return made


def from_json(content: Any) -> Offsets:
    """Raises: SettingError: a checkpoint of something else."""
    try:
        return {(str(topic), int(queue)): int(offset) for topic, queues in content.items() for queue, offset in queues.items()}
    except (AttributeError, TypeError, ValueError):
        raise SettingError(
            f"cannot go on from the checkpoint's offsets {content!r}: they are not those of the format orbitmq",
            hint="""they look like {"orders": {"0": 17}}; give the query a checkpointLocation of its own""",
            option="checkpointLocation",
            value=content,
        ) from None
