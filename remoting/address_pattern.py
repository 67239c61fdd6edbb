"""Patterns of addresses, as RocketMQ's plain_acl.yml has them: 192.168.1.*, 192.168.1.10-20, 192.168.1.{1,5}, fe80::*, several
between commas, and * for all."""

from __future__ import annotations

import re
from typing import NamedTuple

EVERYWHERE = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_DECIMAL, _HEX = re.compile("[0-9]{1,3}"), re.compile("[0-9a-fA-F]{1,4}")
_CHOICE = re.compile(r"(?P<before>[^{},]*)\{(?P<last>[^{}]*)\}")


class Range(NamedTuple):
    """Addresses of 4 (IPv4) or 8 parts (IPv6), each of which lies between the two of its place."""

    least: tuple[int, ...]
    most: tuple[int, ...]


EVERY_RANGE = (Range((0,) * 4, (0xFF,) * 4), Range((0,) * 8, (0xFFFF,) * 8))


def ranges(pattern: str) -> list[Range]:
    """Those that a pattern names; a blank one none. Raises: ValueError: why it is none."""
    pattern = pattern.strip()
    if not pattern:
        return []
    if pattern in EVERYWHERE:
        return list(EVERY_RANGE)
    choice = _CHOICE.fullmatch(pattern)
    if choice is not None:
        return [_range(choice["before"] + last.strip()) for last in choice["last"].split(",")]
    return [_range(part.strip()) for part in pattern.split(",")]


def _range(text: str) -> Range:
    wide = ":" in text
    parts = _wide_parts(text) if wide else text.split(".")
    if len(parts) != (8 if wide else 4):
        raise ValueError(f"{text!r:.60} is no address: it has {len(parts)} parts, not {8 if wide else 4}")
    pairs = [_pair(part.strip(), text, 16 if wide else 10) for part in parts]
    return Range(tuple(least for least, _ in pairs), tuple(most for _, most in pairs))


def _wide_parts(text: str) -> list[str]:
    """Of an IPv6 address, with the zeros for which :: stands."""
    before, gap, after = text.partition("::")
    first, last = (side.split(":") if side else [] for side in (before, after))
    zeros = 8 - len(first) - len(last)
    if gap and zeros < 1:
        raise ValueError(f"{text!r:.60} is no address: nothing is left for :: to stand for")
    return first + ["0"] * zeros + last if gap else first


def _pair(part: str, text: str, base: int) -> tuple[int, int]:
    most = 0xFF if base == 10 else 0xFFFF
    if part == "*":
        return 0, most
    first, dash, second = part.partition("-")
    low = _number(first, text, base)
    high = _number(second, text, base) if dash else low
    if low > high:
        raise ValueError(f"{text!r:.60} is no address: the range {part} begins above its end")
    return low, high


def _number(digits: str, text: str, base: int) -> int:
    whole = _DECIMAL if base == 10 else _HEX
    if whole.fullmatch(digits) is None or int(digits, base) > (0xFF if base == 10 else 0xFFFF):
        raise ValueError(f"{text!r:.60} is no address: {digits!r:.20} is no part of one")
    return int(digits, base)
