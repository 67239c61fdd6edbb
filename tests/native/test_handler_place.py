"""Goal: what is given back is a record that was stored, and no bytes of a body that look like one, also before reput has come
so far. Of handler_place.c.

Method: no reput runs here, so records are found by a walk from its position, which a test sets. Where the queues' units say it,
tests/actors/test_gateway_sendback.py and test_gateway_transactions.py show the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from orbitmq.native._core import lib
from orbitmq.store.delays import DELAY_TOPIC
from tests.forged import BODY_AT, forged_at
from tests.native import pipeline as p
from tests.native.test_handler_back import UNKNOWN_MESSAGE, Tree

BEHIND = 23
WALK_MOST = 1 << 17  # in handler_place.c


@pytest.mark.parametrize("seed", [1, 2])
def test_bodies_that_look_like_records(tmp_path: Path, seed: int) -> None:
    """In any order, and over the ends of files."""
    rng = random.Random(seed)
    with p.pipeline(tmp_path, file_size=64 << 10, message_max=32 << 10, files=8) as pipeline:
        tree = Tree(pipeline)
        true, false = list[int](), list[int]()
        for number in range(300):
            body = rng.randbytes(rng.randrange(600))
            if number % 3 == 0:
                place = pipeline.wrote + BODY_AT
                body = forged_at(place, "T", number % 4, rng.choice((0, number // 4, number)), body)
                false.append(place)
            sent = tree.send(p.message(body, queue=number % 4))
            true.append(sent.physical_offset)
            if sent.physical_offset + BODY_AT not in false:
                false = [each for each in false if each < sent.physical_offset]  # a file ended before it
        assert len(false) > 80 and pipeline.wrote > 2 * pipeline.file_size
        for place in rng.sample(true + false, len(true) + len(false)):
            found = tree.give_back(place, -1).code
            assert found == (UNKNOWN_MESSAGE if place in false else p.APPENDED), place
        assert not any(each.body == b"forged" for each in pipeline.records() if each.topic == DELAY_TOPIC)


def test_queues_that_are_far_behind(tmp_path: Path) -> None:
    """So many records are passed over at once, and asking again goes on from there."""
    with p.pipeline(tmp_path, file_size=4 << 20, files=6) as pipeline:
        tree = Tree(pipeline)
        many = [p.message(b"")] * 64
        for _ in range(WALK_MOST // len(many) + 1):
            last = tree.send(*many)
        assert tree.give_back(last.physical_offset, -1).code == BEHIND
        assert tree.give_back(0, -1).code == p.APPENDED, "what is near is found meanwhile"
        assert tree.give_back(last.physical_offset, -1).code == BEHIND
        assert tree.give_back(last.physical_offset, -1).code == p.APPENDED


def test_a_place_that_reput_has_passed(tmp_path: Path) -> None:
    """Then its queue has a unit for it, or it is none."""
    with p.pipeline(tmp_path) as pipeline:
        tree = Tree(pipeline)
        place = tree.send(p.message(b"x")).physical_offset
        lib.control_recovered(pipeline.control, 0, pipeline.wrote, pipeline.wrote, pipeline.wrote, pipeline.file_size, 0)
        assert tree.give_back(place, -1).code == UNKNOWN_MESSAGE
