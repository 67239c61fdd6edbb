"""The columns of the data source as Spark knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orbitmq.errors import ColumnError
from orbitmq.errors.remedy import hint
from orbitmq.tables.columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def ddl(names: Sequence[str]) -> str:
    """Spark's schema of these columns."""
    return ", ".join(f"{name} {COLUMNS[name].sql}{'' if COLUMNS[name].nullable else ' not null'}" for name in names)


def check(given: StructType, names: Sequence[str]) -> None:
    """Spark passes on the user's schema, or this one if the user gave none. Raises: ColumnError: it is another one."""
    found = [(field.name, field.dataType.simpleString(), field.nullable) for field in given.fields]
    if found != [(name, COLUMNS[name].sql, COLUMNS[name].nullable) for name in names]:
        raise ColumnError(
            f"cannot read with the schema {given.simpleString()}: the format has columns of its own",
            hint=hint("leave out schema(...), and choose columns with {columns of spark}"),
            columns=tuple(names),
        )
