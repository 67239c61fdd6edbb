"""The file orbitmq/remake: an order to make queues and index anew, from the oldest record of the log on.

A repair gives the order, and the next recovery carries it out: the repair's own, or that of a broker that is started after the
repair was killed. While the file exists, nothing in queues, index, checkpoint and reput's commit is believed, so everything may
be removed in any order. It is removed when all of them say by themselves that indexing begins at the oldest record.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from orbitmq.shm import finite_json
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store import atomic_file
from orbitmq.store.consume_queue import ConsumeQueue, Extent, queues
from orbitmq.store.fill_plan import Stretch
from orbitmq.store.layout import StoreLayout
from orbitmq.store.positions import Recorded


@dataclass(frozen=True, slots=True)
class Order:
    """queues: no unit of these is believed; each with the offset where it continues if the log has no record of it. cut: the
    physical offset from which the log was given up; None: nothing of it. fill: what a repair writes into the log; it may have
    been killed before that was done."""

    queues: Mapping[QueueKey, int] = field(default_factory=dict)
    cut: int | None = None
    fill: tuple[Stretch, ...] = ()

    def lower(self, recorded: Recorded | None) -> Recorded | None:
        """What was recorded about the log's end, without what has been given up since."""
        if recorded is None or self.cut is None:
            return recorded
        return recorded._replace(flushed=min(recorded.flushed, self.cut), wrote=min(recorded.wrote, self.cut))


def pending(layout: StoreLayout) -> bool:
    """True if an order has not been carried out yet."""
    return layout.remake.exists()


def give(layout: StoreLayout, order: Order) -> None:
    """Writes the order. Durable on return; replaces an earlier order."""
    what: dict[str, Any] = {"queues": [[*key, begin] for key, begin in sorted(order.queues.items())], "cut": order.cut}
    what["fill"] = [stretch.as_record() for stretch in order.fill]
    atomic_file.replace(layout.remake, (json.dumps(what) + "\n").encode())
    crash_point("remake_given")


def load(layout: StoreLayout) -> Order | None:
    """The pending order. If it cannot be read, it counts for everything except single queues and the cut."""
    try:
        content = layout.remake.read_bytes()
    except FileNotFoundError:
        return None
    try:
        what = finite_json.loads(content)
        queues = {(str(topic), int(queue)): int(begin) for topic, queue, begin in what["queues"]}
        fill = tuple(Stretch.of_record(record) for record in what["fill"])
        return Order(queues, None if what["cut"] is None else int(what["cut"]), fill)
    except (ValueError, TypeError, KeyError):
        return Order()


def take_units(layout: StoreLayout, file_units: int, order: Order, in_log: Collection[QueueKey]) -> dict[QueueKey, Extent]:
    """Takes the units out of the order's queues. Returns what is left of each. Those of which the log has records, `in_log`,
    are made anew; of the others, the part stays that says how far their offsets were used."""
    left = {}
    for key in sorted(order.queues.keys() & set(queues(layout.root))):
        queue = ConsumeQueue(layout.root, *key, file_units)
        begin = 0 if key in in_log else order.queues[key]
        if begin:
            # First, and sufficient: an offset that was used is not used again, whenever this is killed.
            queue.write_used(begin)
            atomic_file.sync_folder(queue.folder)
            crash_point("remake_queue_begun")
        queue.remove(but=begin or None)
        left[key] = Extent(begin, begin, 0)
        crash_point("remake_units_taken")
    return left


def done(layout: StoreLayout) -> None:
    """Withdraws the order."""
    layout.remake.unlink()
    crash_point("remake_done")
    atomic_file.sync_folder(layout.own)
