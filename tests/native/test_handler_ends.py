"""Goal: sends never starve ends of transactions, which are taken first in four steps of five; and ends never starve sends. Of
handler.c and handler_settle.c.

Method: the send handler a step at a time, with sessions whose rings are full. Ends of a half that does not exist: they are
refused, and a refusal goes the same way."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from orbitmq.native._core import lib
from tests.native import pipeline as p

SEND_SETTLE = (1 << 32) - 4
SMALL_LANE = {"lane_capacity": 64 << 10, "message_max": 16 << 10, "file_size": 4 << 20}
SENDERS = 5
FIRST = 4  # steps of five


def end() -> bytes:
    asked = struct.pack("=QQQ32x", 0, 0, 1)
    return p.MESSAGE.pack(0, len(asked), 0, 0, 0, SEND_SETTLE) + asked


def flood(tree: p.Pipeline) -> list[p.Session]:
    """Sessions with so many sends that their turns fill the lane often."""
    senders = [tree.session(slot=slot, window=1024) for slot in range(SENDERS)]
    for sender in senders:
        for _ in range(220):
            sender.send(p.message(bytes(3000)))
    return senders


@pytest.mark.parametrize("slot", [7, 70])
def test_an_end_waits_for_no_more_than_a_step(tmp_path: Path, slot: int) -> None:
    """Before, it waited until each of those that send had filled the lane."""
    with p.pipeline(tmp_path, **SMALL_LANE) as tree:
        handler, writer = tree.handler(), tree.writer()
        senders, ending = flood(tree), tree.session(slot=slot)
        waited = list[int]()
        while sum(sender.completed for sender in senders) < 200 * SENDERS:
            ending.send(end())
            steps = 0
            while ending.completed <= len(waited):
                lib.handler_step(handler)
                lib.writer_step(writer)
                steps += 1
            waited.append(steps)
        assert ending.verdict(1).code != p.APPENDED
        assert max(waited[1:]) <= 2, "the first one shows what the session does"
        assert waited[1:].count(1) >= (len(waited) - 1) * FIRST // (FIRST + 1)


class Greedy:
    """Ends what is none, as fast as its ring takes it."""

    def __init__(self, tree: p.Pipeline, slot: int) -> None:
        self._session, self._sent = tree.session(slot=slot, window=1 << 14), 0

    def go_on(self) -> None:
        while self._sent < self._session.completed + 4000:
            self._session.send(*[end()] * 500)
            self._sent += 500


def test_ends_do_not_starve_each_other(tmp_path: Path) -> None:
    """Two that are greedy fill a step; one with a higher number ends now and then."""
    with p.pipeline(tmp_path, **SMALL_LANE) as tree:
        handler, writer = tree.handler(), tree.writer()
        flood(tree)
        greedy, modest = [Greedy(tree, 7), Greedy(tree, 8)], tree.session(slot=70)
        waited = list[int]()
        while len(waited) < 30:
            modest.send(end())
            steps = 0
            while modest.completed <= len(waited):
                for each in greedy:
                    each.go_on()
                lib.handler_step(handler)
                lib.writer_step(writer)
                steps += 1
                assert steps <= 100
            waited.append(steps)
        assert max(waited[1:]) <= 4, "two steps of the greedy ones, one of those who send, and its own"


def test_ends_do_not_starve_sends(tmp_path: Path) -> None:
    """Two that are greedy fill a step."""
    with p.pipeline(tmp_path, **SMALL_LANE) as tree:
        handler, writer = tree.handler(), tree.writer()
        greedy, sender = [Greedy(tree, 7), Greedy(tree, 8)], tree.session(slot=9, window=1024)
        for _ in range(100):
            sender.send(p.message(bytes(3000)))
        steps = 0
        while sender.completed < 100:
            for each in greedy:
                each.go_on()
            lib.handler_step(handler)
            lib.writer_step(writer)
            steps += 1
            assert steps <= 100 * (FIRST + 1), "a fifth of the steps begins with sends"


def test_a_session_that_sends_as_well(tmp_path: Path) -> None:
    """Such as the gateway's: it has its turn as those that send."""
    with p.pipeline(tmp_path, **SMALL_LANE) as tree:
        handler, writer = tree.handler(), tree.writer()
        senders, mixed = flood(tree), tree.session(slot=7, window=1024)
        for _ in range(100):
            mixed.send(p.message(bytes(3000)))
            mixed.send(end())
        while any(sender.completed < 220 for sender in senders):
            lib.handler_step(handler)
            lib.writer_step(writer)
            if mixed.completed < 200:
                assert mixed.completed <= 2 * min(sender.completed for sender in senders) + 100
        p.run(handler, writer)
        assert mixed.completed == 200
