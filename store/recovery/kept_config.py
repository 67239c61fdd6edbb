"""What recovery does about configuration that disagrees with the log: topics that only the log knows, and offsets past its
end."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.shm.topic_table import QueueKey
from orbitmq.store import config, purged
from orbitmq.store.layout import StoreLayout
from orbitmq.store.recovery.report import Lowered, QueueState


def missing_topics(layout: StoreLayout, queues: tuple[QueueState, ...]) -> tuple[tuple[str, int], ...]:
    """Topics that log or queues know and topics.json does not, and the number of their queues. Deleted ones are not missing."""
    known = config.load_topics(layout)[0].keys() | purged.load(layout).deleted
    missing: dict[str, int] = {}
    for state in queues:
        if state.topic not in known:
            missing[state.topic] = max(missing.get(state.topic, 0), state.queue + 1)
    return tuple(sorted(missing.items()))


def topics(layout: StoreLayout, queues: tuple[QueueState, ...]) -> set[str]:
    """All topics that exist."""
    return {*config.load_topics(layout)[0], *(name for name, _ in missing_topics(layout, queues))}


def lower_offsets(
    layout: StoreLayout, ends: Mapping[QueueKey, int], unknown: int | None, *, read_only: bool
) -> tuple[Lowered, ...]:
    """Group offsets that point past the end of their queue: the messages that they counted are gone, and others will get their
    numbers. unknown: the end of queues that are not in `ends`; None: leave those alone."""
    offsets = config.load_offsets(layout)
    lowered = []
    for (topic, group), queues in offsets.items():
        for queue, offset in queues.items():
            end = ends.get((topic, queue), unknown)
            if end is not None and offset > end:
                lowered.append(Lowered(topic, group, queue, offset, end))
                queues[queue] = end
    if lowered and not read_only:
        config.store_offsets(layout, offsets)
    return tuple(lowered)
