"""A SQL92 filter's text, checked before anything is read."""

from __future__ import annotations

from orbitmq.errors import FilterError
from orbitmq.errors.remedy import Hint
from orbitmq.shm.sql_text import SqlFault, sql_or_fault


def checked_sql(sql: str | None) -> bytes | None:
    """The text as Reader.sql takes it. Raises: FilterError, whose text shows the place."""
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
