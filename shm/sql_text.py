"""The text of a SQL92 filter, and where it is wrong. native/format/sql.h compiles it; docs/filters.md has the grammar."""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.native._core import ffi, lib
from orbitmq.shm.text import utf8

_SHOWN = 40  # characters of a long line that the picture shows on either side of the place


class SqlFault(NamedTuple):
    """Why a text is no filter. column: in characters, from 1. found: what stands there; "" at the end. expected: what could
    stand there; None if `why` says all. picture: the line of the text, and under it a caret."""

    column: int
    found: str
    expected: str | None
    why: str
    way: str | None
    picture: str


def sql_or_fault(sql: str) -> bytes | SqlFault:
    """The text as Reader.sql takes it. Raises: UsageError: it is not valid text. MemoryError."""
    text = utf8(sql, "filter by SQL")
    fault = ffi.new("struct sql_fault *")
    program = lib.sql_compile(text, min(len(text), 0xFFFFFFFF), fault)
    if program != ffi.NULL:
        lib.sql_free(program)
        return text
    if fault.memory:
        raise MemoryError
    at, end = (len(text[:place].decode(errors="replace")) for place in (fault.at, fault.at + fault.size))
    found = sql[at:end]
    expected, way = _string(fault.expected), _string(fault.way)
    what = f"found {_short(found)!r}" if found else "the text ends"
    why = f"{what}, expected {expected}" if expected else f"{_string(fault.why)}{f': {_short(found)!r}' if found else ''}"
    return SqlFault(at + 1, found, expected, why, way, _picture(sql, at, end))


def _string(text: ffi.CData) -> str | None:
    return None if text == ffi.NULL else ffi.string(text).decode()


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _picture(sql: str, at: int, end: int) -> str:
    """The line with the place, shortened, and carets under the place."""
    first = sql.rfind("\n", 0, at) + 1
    last = sql.find("\n", at)
    last = len(sql) if last < 0 else last
    begin, behind = max(first, at - _SHOWN), min(last, at + _SHOWN)
    line = "".join(each if each.isprintable() else " " for each in sql[begin:behind])
    before, after = "..." if begin > first else "", "..." if behind < last else ""
    carets = "^" * max(1, min(end, behind) - at)
    return f"    {before}{line}{after}\n    {' ' * (len(before) + at - begin)}{carets}"
