"""What recovery finds, and what it does about it: two tables, without any code that reads or writes files.

docs/recovery.md explains the rows. A test tries every combination of signs.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Mark(enum.Enum):
    """What orbitmq/positions says about the last life of a broker of OrbitMQ's."""

    NONE = "nothing is recorded"
    CLEAN = "it stopped cleanly"
    SAME_BOOT = "it did not stop, and the machine has run since"
    OTHER_BOOT = "it did not stop, and the machine has started anew"


class Ending(enum.Enum):
    """How the last life ended, as far as the signs tell. If they contradict each other, the worse one is taken."""

    EMPTY = "there is no log yet"
    STOPPED = "the broker stopped cleanly"
    KILLED = "the broker was killed; the machine kept its memory"
    POWER_CUT = "the machine may have lost its memory"
    UNSYNCED = "the broker was killed in a sync of its queues, or that sync failed"
    OTHER_STOPPED = "another program used the store last, and stopped cleanly"
    OTHER_DIED = "another program used the store last, and did not stop cleanly"


# (file `abort` exists, mark in positions, reput's commit file is good)
Signs = tuple[bool, Mark, bool]

# An `abort` of OrbitMQ's beside a clean mark is no sign here: such a mark counts as dirty (recovery/recover.py). `abort` is
# made before the mark turns dirty and removed after it turns clean. So if the mark is dirty without `abort`, another program
# recovered the store, or somebody removed the file.
ENDINGS: dict[Signs, Ending] = {
    (False, Mark.NONE, False): Ending.OTHER_STOPPED,
    (False, Mark.NONE, True): Ending.OTHER_STOPPED,
    (False, Mark.CLEAN, False): Ending.OTHER_STOPPED,
    (False, Mark.CLEAN, True): Ending.STOPPED,
    (False, Mark.SAME_BOOT, False): Ending.POWER_CUT,
    (False, Mark.SAME_BOOT, True): Ending.POWER_CUT,
    (False, Mark.OTHER_BOOT, False): Ending.POWER_CUT,
    (False, Mark.OTHER_BOOT, True): Ending.POWER_CUT,
    (True, Mark.NONE, False): Ending.OTHER_DIED,
    (True, Mark.NONE, True): Ending.OTHER_DIED,
    (True, Mark.CLEAN, False): Ending.OTHER_DIED,
    (True, Mark.CLEAN, True): Ending.OTHER_DIED,
    (True, Mark.SAME_BOOT, False): Ending.POWER_CUT,
    (True, Mark.SAME_BOOT, True): Ending.KILLED,
    (True, Mark.OTHER_BOOT, False): Ending.POWER_CUT,
    (True, Mark.OTHER_BOOT, True): Ending.POWER_CUT,
}


class Anchor(enum.Enum):
    """A place in the log where a record is known to begin."""

    BEGIN = "the oldest file"
    THIRD_LAST = "the third file from the end"
    CHECKPOINT = "the newest file that begins before the checkpoint"
    FLUSHED = "the recorded flushed position"
    WROTE = "the recorded end"
    REPUT = "how far reput had committed"
    QUEUES = "the highest end that a queue knows"
    INDEX = "behind the newest index file that is whole"


class Plan(NamedTuple):
    """What to do. The log is read from the oldest of `scan` and `reput`; it is indexed again from the oldest of `reput`.

    trust_index: index files are as their header says. Otherwise those that the checkpoint does not vouch for are removed, and
        made again from Anchor.INDEX on.
    """

    scan: tuple[Anchor, ...]
    reput: tuple[Anchor, ...]
    trust_index: bool


PLANS: dict[Ending, Plan] = {
    # Only another program can have written behind the recorded end, and what it wrote is whole. The queues have what reput had
    # committed, unless somebody removed them to have them made anew, as one does with RocketMQ.
    Ending.STOPPED: Plan((Anchor.WROTE,), (Anchor.REPUT, Anchor.QUEUES), True),
    # Everything written is in the page cache. Only the record at the end may be incomplete.
    Ending.KILLED: Plan((Anchor.FLUSHED,), (Anchor.REPUT, Anchor.QUEUES), True),
    # Queues are on disk up to the checkpoint; what was written later may have holes.
    Ending.POWER_CUT: Plan((Anchor.FLUSHED,), (Anchor.REPUT, Anchor.CHECKPOINT, Anchor.QUEUES, Anchor.INDEX), False),
    # Memory holds what the disk may lack, and it is not known which part. It is treated as if it were lost.
    Ending.UNSYNCED: Plan((Anchor.FLUSHED,), (Anchor.REPUT, Anchor.CHECKPOINT, Anchor.QUEUES, Anchor.INDEX), False),
    # RocketMQ's own rules, for what RocketMQ has written.
    Ending.OTHER_STOPPED: Plan((Anchor.THIRD_LAST,), (Anchor.QUEUES,), True),
    Ending.OTHER_DIED: Plan((Anchor.CHECKPOINT,), (Anchor.CHECKPOINT, Anchor.QUEUES, Anchor.INDEX), False),
}


def ending(signs: Signs, has_log: bool, *, unsynced: bool = False) -> Ending:
    """How the last life ended. unsynced: a sync of queues or index was begun, and has not succeeded (store/unsynced.py)."""
    if not has_log:
        return Ending.EMPTY
    found = ENDINGS[signs]
    return Ending.UNSYNCED if unsynced and PLANS[found].trust_index else found
