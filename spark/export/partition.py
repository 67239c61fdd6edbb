"""The folders of an export: which folder each message goes to, and the names that Spark and Arrow read back."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import hint
from orbitmq.spark.columns import COLUMNS

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
                f"cannot export by {name!r}: no folders can be made of it",
                hint=f"choose among {', '.join([*DERIVED, *possible()])}",
                name="by",
                value=name,
            )
        if name in by[:position]:
            raise SettingError(f"cannot export by {','.join(by)}: {name} stands there twice", name="by", value=",".join(by))
    if not by:
        raise SettingError("cannot export by nothing: name a column at least", hint=hint("leave out {by}"), name="by", value="")


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
    import numpy as np
    import pyarrow as pa

    codes = np.zeros(batch.num_rows, dtype=np.int64)
    for name in by:
        if name != "topic":
            own = _codes(batch, name)
            if own.size and (own != own[0]).any():
                distinct, own = np.unique(own, return_inverse=True)
                codes = np.unique(codes * distinct.size + own, return_inverse=True)[1].astype(np.int64)
    if codes.size and not (codes != codes[0]).any():
        yield _key(batch, 0, topic, by), batch
        return
    order = np.argsort(codes, kind="stable")
    borders = np.flatnonzero(np.diff(codes[order])) + 1
    for places in np.split(order, borders):
        yield _key(batch, int(places[0]), topic, by), batch.take(pa.array(places))


def _codes(batch: pa.RecordBatch, name: str) -> Any:
    """Numbers that are equal if the values are."""
    import numpy as np
    import pyarrow as pa

    if name in DERIVED:
        return batch.column("timestamp").cast(pa.int64()).to_numpy() // DERIVED[name]
    array = batch.column(name)
    if pa.types.is_integer(array.type) and array.null_count == 0:
        return array.to_numpy()
    return array.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


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
