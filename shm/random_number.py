"""Random numbers that nobody can foretell, and that are never 0.

The standard library's `secrets` has them too, but it loads OpenSSL, and every start of a broker would wait for that."""

from __future__ import annotations

import os


def random_number(bits: int) -> int:
    """Below 2 ** bits, and odd, so that it is not 0."""
    return int.from_bytes(os.urandom((bits + 7) // 8), "big") >> -bits % 8 | 1
