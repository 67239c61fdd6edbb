"""The folders of an export: which folder each message goes to, and the names that Spark and Arrow read back."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import hint
from orbitmq.tables.columns import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

# Made of the store time, UTC: 2026-05-01 and 2026-05-01-17; and the length of each, microseconds.
DERIVED = {"day": 86_400_000_000, "hour": 3_600_000_000}
NULL = "__HIVE_DEFAULT_PARTITION__"
NAME_MAX = 255  # bytes of one name in a path
# Characters that Spark escapes in the name of a partition's folder.
_ESCAPED = re.compile(r"[\x01-\x1f\x7f%=/:#?*\"'\\{}\[\]^]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Key = tuple[str | None, ...]


def possible() -> list[str]:
    """Columns of which folders can be made, besides day and hour: texts and small numbers."""
    return [name for name, column in COLUMNS.items() if column.sql in ("string", "int")]


def check_by(by: Sequence[str]) -> None:
    """Raises: SettingError."""
    for position, name in enumerate(by):
        if name not in DERIVED and name not in possible():
            raise SettingError(
                f"cannot export by {name!r}: this is not one of the columns by which files can be put into folders",
                hint=f"choose among {', '.join([*DERIVED, *possible()])}",
                name="by",
                value=name,
            )
        if name in by[:position]:
            raise SettingError(f"cannot export by {','.join(by)}: {name} is named twice", name="by", value=",".join(by))
    if not by:
        text = "cannot export: the list of columns for the folders is empty"
        raise SettingError(text, hint=hint("name at least one || leave out {by}"), name="by", value="")


def folder(by: Sequence[str], key: Key) -> str:
    """Relative path, such as topic=orders/day=2026-05-01. Raises: SettingError: a value is too long for a file name."""
    names = [f"{name}={NULL if value is None else escaped(value)}" for name, value in zip(by, key, strict=True)]
    for name, column in zip(names, by, strict=True):
        if len(os.fsencode(name)) > NAME_MAX:
            raise SettingError(
                f"cannot export by {column!r}: the folder {name[:80]}... would have a name of {len(os.fsencode(name))} bytes",
                hint=hint("leave {} out of {by}: a name has at most {} bytes", column, NAME_MAX),
                name="by",
                value=column,
            )
    return "/".join(names)


def escaped(value: str) -> str:
    if value == NULL:  # a reader would take it for null
        return f"%{ord(value[0]):02X}{value[1:]}"
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)


def divided(batch: pa.RecordBatch, topic: str, by: Sequence[str]) -> Iterator[tuple[Key, pa.RecordBatch]]:
    """The batch, of one topic, divided into a part for each folder, with rows in their order. If there are several parts, they
    are copies."""
    import pyarrow.compute as pc

    codes, distinct = None, 1
    for name in by:
        if name != "topic":
            own, count = _codes(_values(batch, name))
            if count > 1:
                codes, distinct = (own, count) if codes is None else _codes(pc.add(pc.multiply(codes, count), own))
    if codes is None or distinct < 2:
        if batch.num_rows:
            yield _key(batch, 0, topic, by), batch
        return
    order = pc.array_sort_indices(codes)  # a stable one
    ends = pc.run_end_encode(codes.take(order), run_end_type="int32").run_ends.to_pylist()
    for begin, end in pairwise([0, *ends]):
        places = order.slice(begin, end - begin)
        yield _key(batch, places[0].as_py(), topic, by), batch.take(places)


def _codes(values: Any) -> tuple[Any, int]:
    """A number for each, equal if the values are, and how many numbers there are."""
    import pyarrow as pa

    found = values.dictionary_encode(null_encoding="encode")
    return found.indices.cast(pa.int64()), len(found.dictionary)


def _values(batch: pa.RecordBatch, name: str) -> Any:
    """By what the rows are divided: the column, or the number of the day or hour."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name not in DERIVED:
        return batch.column(name)
    times, length = batch.column("timestamp").cast(pa.int64()), DERIVED[name]
    # Rounded down: division of whole numbers rounds towards 0.
    return pc.divide(pc.if_else(pc.less(times, 0), pc.subtract(times, length - 1), times), length)


def _key(batch: pa.RecordBatch, row: int, topic: str, by: Sequence[str]) -> Key:
    key: list[str | None] = []
    for name in by:
        if name == "topic":
            key.append(topic)
        elif name in DERIVED:
            start = batch.column("timestamp")[row].value // DERIVED[name] * DERIVED[name]
            key.append((_EPOCH + timedelta(microseconds=start)).strftime("%Y-%m-%d" if name == "day" else "%Y-%m-%d-%H"))
        else:
            value = batch.column(name)[row].as_py()
            key.append(None if value is None else str(value))
    return tuple(key)
