"""Goal: numbers of the wanted size, never 0. Method: many of each size."""

from __future__ import annotations

import pytest

from orbitmq.shm.random_number import random_number


@pytest.mark.parametrize("bits", [1, 7, 8, 9, 31, 63])
def test_its_size(bits: int) -> None:
    found = {random_number(bits) for _ in range(1000)}
    assert all(0 < each < 1 << bits and each % 2 for each in found)
    assert len(found) >= min(1 << (bits - 1), 1000) // 2


def test_every_bit_is_used() -> None:
    seen = 0
    for _ in range(1000):
        seen |= random_number(31)
    assert seen == (1 << 31) - 1
