"""Goal: a rung bell ends every wait, before and after, and a child's bell is its own."""

from __future__ import annotations

import os
import select

from orbitmq.client.connection.bell import Bell
from tests.shm.children import children


def readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def test_rung_before_and_after_somebody_waits() -> None:
    for first in (True, False):
        bell = Bell()
        if first:
            bell.ring()
        descriptor = bell.descriptor()
        assert readable(descriptor) is bell.rung is first
        bell.ring()
        assert readable(descriptor) and bell.rung and bell.descriptor() == descriptor
        assert readable(descriptor), "it stays rung"


def test_a_child_does_not_ring_its_parents() -> None:
    """Also if the parent's descriptor was made before the fork; and a bell that was rung is rung in the child, too."""
    quiet, rung = Bell(), Bell()
    rung.ring()
    mine = quiet.descriptor()
    rung.descriptor()

    def child() -> None:
        assert readable(rung.descriptor())
        quiet.ring()
        assert readable(quiet.descriptor())

    with children() as family:
        family.start(child)
        family.finish()
    assert not readable(mine) and not quiet.rung


def test_its_descriptor_is_closed_with_it() -> None:
    bell = Bell()
    descriptor = bell.descriptor()
    del bell
    try:
        os.fstat(descriptor)
    except OSError:
        return
    raise AssertionError("it is open still")
