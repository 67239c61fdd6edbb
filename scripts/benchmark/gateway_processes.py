"""Sends of a client in C to two processes at the gateway's address, beside the same to one; and what a request costs of the
broker's processor time. The kernel spreads connections by their ports: many of them come to both.

What other measures call their ceiling is the same with one process, a moment before or after.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scripts.benchmark import remoting_load
from scripts.benchmark.processor import tree_ns
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.stage import Stage, stage

MS = 2000
_turns = itertools.count()


@contextmanager
def _several() -> Iterator[Stage]:
    with stage({"listen": "127.0.0.1:0", "gateways": 2}) as playing:
        yield playing


def _sends(playing: Stage, connections: int, window: int) -> tuple[float, float]:
    """Requests a second, and ns of the broker's for each."""
    port = int(playing.broker.status().listens.rpartition(":")[2])
    before = tree_ns(playing.broker.pid)
    count, seconds, *_ = remoting_load.sends(port, playing.kept_topic(8), connections, window, MS)
    return count / seconds, (tree_ns(playing.broker.pid) - before) / count


def _rate(connections: int, window: int) -> Callable[[Stage], tuple[Sample, ...]]:
    def run(one: Stage) -> tuple[Sample, ...]:
        two = one.kept("several", _several)
        found = {}
        for each in (one, two) if next(_turns) % 2 else (two, one):
            found[each] = _sends(each, connections, window)
        return tuple(Sample(ours, theirs) for ours, theirs in zip(found[two], found[one], strict=True))

    return run


MEASURES = tuple(
    Measure(
        (f"gateway_two_{connections}x{window}", f"gateway_two_{connections}x{window}_broker_ns"), "sends/s",
        _rate(connections, window), runs=9, settings={"listen": "127.0.0.1:0", "gateways": 1}, beside="one process",
    )
    for connections, window in ((1, 1), (16, 1), (64, 1), (16, 16), (16, 64))
)  # fmt: skip
