"""What a worker's session says when it joins its group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from orbitmq.client.consumer.subscription import tag_list
from orbitmq.client.sql_filter import checked_sql
from orbitmq.client.work.job import SECONDS_MAX
from orbitmq.errors import SettingError
from orbitmq.native._core import lib


@dataclass(frozen=True, slots=True)
class WorkSettings:
    """Raises: SettingError; FilterError: the place where sql is wrong."""

    group: str
    topics: tuple[str, ...]
    visibility: float
    in_hand: int
    max_tries: int | None
    key_ordered: bool
    start: Literal["earliest", "latest"]
    tags: str | None = None
    sql: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.in_hand, bool) or not isinstance(self.in_hand, int) or not 1 <= self.in_hand <= lib.WORK_WINDOW:
            why = f"it must be a number from 1 to {lib.WORK_WINDOW:,}"
            raise SettingError(f"could not set in_hand to {self.in_hand!r}: {why}", setting="in_hand", value=self.in_hand)
        check_seconds("visibility", self.visibility, 0.1)
        tag_list(self.tags)
        checked_sql(self.sql)

    @property
    def ring_capacity(self) -> int:
        """Records of the session's rings: a power of two."""
        capacity = 64
        while capacity < min(self.in_hand, lib.WORK_RING_MAX):
            capacity *= 2
        return capacity

    def fields(self) -> dict[str, Any]:
        """Of the question."""
        given = {name: getattr(self, name) for name in ("group", "in_hand", "start", "max_tries", "key_ordered")}
        given |= {"tags": [tag.decode() for tag in tag_list(self.tags)], "sql": self.sql or ""}
        return given | {"topics": list(self.topics), "visibility_ms": round(self.visibility * 1000)}


def check_seconds(name: str, value: float, least: float) -> None:
    """Raises: SettingError: no number of seconds, or out of bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= SECONDS_MAX:
        why = f"it lies outside {least:g} to {SECONDS_MAX:g} seconds"
        raise SettingError(f"could not set {name} to {value!r}: {why}", setting=name, value=value)
