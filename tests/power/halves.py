"""Transactions under power cuts: how a life begins and ends them, and what the plain list says of them."""

from __future__ import annotations

import struct

from orbitmq.native._core import lib
from orbitmq.store.halves import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC
from tests.native.pipeline import MESSAGE, Verdict
from tests.power.life import Life
from tests.power.plain_list import Later, Model

SEND_HALF = (1 << 32) - 3  # native/shared/session.h
SEND_SETTLE = (1 << 32) - 4
GROUP = b"shop"
ENDS = (lib.SETTLE_COMMIT, lib.SETTLE_ROLLBACK, lib.SETTLE_GIVE_UP)  # the last one is what a check-back without an answer does


def begin(life: Life, model: Model, topic: str, messages: list[tuple[bytes, int]], flags: int, ms: int) -> list[Verdict]:
    """Half messages (body, queue), for a topic."""
    own = struct.pack("=Q", len(GROUP)) + GROUP
    parts = []
    for body, queue in messages:
        content = MESSAGE.pack(len(body), len(own), queue, 0, 0, SEND_HALF) + own + body
        parts.append(content + bytes(-len(content) % 8))
        model.append(HALF_TOPIC, 0, body, ms=ms, later=Later(topic, queue, None))
    return life.send_parts(topic, parts, flags)


def end(life: Life, model: Model, place: int, how: int, flags: int, ms: int) -> Verdict:
    """Ends the transaction of the half at this place in the list, which then has the message, if it is to be stored, and the
    operation message behind it; unless it has ended before."""
    half, physical = model.sent[place], model.places[place]
    assert half.later is not None
    if is_open(model, place):
        begins = len(model.sent)
        if how == lib.SETTLE_COMMIT:
            model.append(half.later.topic, half.later.queue, half.body, ms=ms)
        elif how == lib.SETTLE_GIVE_UP:
            model.append(GIVEN_UP_TOPIC, 0, half.body, ms=ms)
        model.append(OP_TOPIC, 0, b"%d" % half.queue_offset, ms=ms, ends=place)
        model.wholes.append((begins, len(model.sent)))
    asked = struct.pack("=QQQ32x", half.queue_offset, physical, how)
    (verdict,) = life.send_parts(HALF_TOPIC, [MESSAGE.pack(0, len(asked), 0, 0, 0, SEND_SETTLE) + asked], flags)
    return verdict


def halves(model: Model) -> list[int]:
    """Of all transactions whose half the log has for certain, their places in the list."""
    return [at for at, one in enumerate(model.sent) if at >= model.gone and one.later is not None and one.later.due_ms is None]


def is_open(model: Model, place: int) -> bool:
    return all(one.ends != place for one in model.sent[place:])


def expect_halves(life: Life, model: Model) -> None:
    """Those have ended whose end is in the log, and no others."""
    ended = {one.ends for one in model.sent}
    for place in halves(model):
        found = lib.control_half_state(life.tree.control, model.sent[place].queue_offset) != lib.HALF_OPEN
        assert found == (place in ended), f"half {place}: {'ended' if found else 'open'}, of {ended}"
