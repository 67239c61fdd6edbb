"""The file orbitmq/remake: an order to make queues and index anew, from the oldest record of the log on.

A repair gives it, and the next recovery carries it out, be it the repair's own or that of a broker that is started after the
repair was killed. While it stands, nothing of queues, index, checkpoint and reput's commit is believed, so everything may be
removed in any order. It goes when all of them say by themselves that indexing begins at the oldest record.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace

from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store import atomic_file
from orbitmq.store.consume_queue import ConsumeQueue, Extent, queues
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Recorded


@dataclass(frozen=True, slots=True)
class Order:
    """queues: of these not a unit is believed. cut: the log was given up from there on, physical offset; None: nothing of
    it."""

    queues: frozenset[QueueKey] = frozenset()
    cut: int | None = None

    def lower(self, recorded: Recorded | None) -> Recorded | None:
        """What was recorded of the log's end, less what has been given up since."""
        if recorded is None or self.cut is None:
            return recorded
        return replace(recorded, flushed=min(recorded.flushed, self.cut), wrote=min(recorded.wrote, self.cut))


def pending(layout: StoreLayout) -> bool:
    """True when an order has not been carried out yet."""
    return layout.remake.exists()


def give(layout: StoreLayout, order: Order) -> None:
    """Durable on return, and in place of an earlier order."""
    what = {"queues": sorted(order.queues), "cut": order.cut}
    atomic_file.replace(layout.remake, (json.dumps(what) + "\n").encode())
    crash_point("remake_given")


def load(layout: StoreLayout) -> Order | None:
    """The order that stands. One that cannot be read counts for everything but single queues and the cut."""
    try:
        content = layout.remake.read_bytes()
    except FileNotFoundError:
        return None
    try:
        what = json.loads(content)
        return Order(frozenset((str(topic), int(queue)) for topic, queue in what["queues"]), what["cut"])
    except (ValueError, TypeError, KeyError):
        return Order()


def take_units(
    layout: StoreLayout, file_units: int, order: Order, log_begin: int, in_log: Collection[QueueKey]
) -> dict[QueueKey, Extent]:
    """Takes the units out of the order's queues; returns what is left of each. Of those that the log has records of, `in_log`,
    all go, to be made anew; of the others stays what says how far their offsets were used."""
    left = {}
    for key in sorted(order.queues.intersection(queues(layout.root))):
        queue = ConsumeQueue(layout.root, *key, file_units)
        if key in in_log:
            queue.remove()
            left[key] = Extent(0, 0, 0)
        else:
            left[key] = queue.truncate(log_begin, log_begin)
        crash_point("remake_units_taken")
    return left


def done(layout: StoreLayout) -> None:
    """Takes the order back."""
    layout.remake.unlink()
    crash_point("remake_done")
    atomic_file.sync_folder(layout.own)
