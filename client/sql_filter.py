"""A SQL92 filter's text, checked before anything is read. native/format/sql.h compiles it; docs/filters.md has the grammar."""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.errors import FilterError
from orbitmq.errors.remedy import Hint
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


def checked_sql(sql: str | None) -> bytes | None:
    """The same. Raises: FilterError, whose text shows the place."""
    if sql is None:
        return None
    if not isinstance(sql, str):
        raise FilterError(f"could not filter by SQL {sql!r:.80}: it is not text", setting="sql", value=sql)
    found = sql_or_fault(sql)
    if isinstance(found, SqlFault):
        raise refusal(found, sql)
    return found


def refusal(fault: SqlFault, sql: str, **place: str) -> FilterError:
    """place: setting or option, under which the text was given; the argument `sql` if nothing is said."""
    text = f"could not filter by SQL: column {fault.column}: {fault.why}\n{fault.picture}"
    way = Hint(((fault.way,),)) if fault.way else None
    where: dict[str, str] = place or {"setting": "sql"}
    return FilterError(
        text, hint=way, value=sql, column=fault.column, found=fault.found, expected=fault.expected,
        setting=where.get("setting"), option=where.get("option"),
    )  # fmt: skip


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
