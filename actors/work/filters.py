"""Which messages the workers of a group want of a topic: by tags, by SQL92, or all. The workers of a topic say the same; the
dispatcher judges (native/actors/dispatcher/dispatcher_filter.c)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from orbitmq.errors import GroupInUse, SettingError
from orbitmq.shm.random_number import random_number
from orbitmq.shm.sql_text import SqlFault, sql_or_fault
from orbitmq.store.work.plan import PlannedFilter, PlannedGroup, PlannedWorker

TAGS_MAX = 4096
TAGS_BYTES_MAX = 65_536  # of all tags together; as much as a text of SQL92 may have


class WorkFilter(NamedTuple):
    """As a worker asks for it. tags: sorted; none: every message. sql: no text: every message."""

    tags: tuple[bytes, ...] = ()
    sql: bytes = b""

    def __bool__(self) -> bool:
        return bool(self.tags or self.sql)

    def __str__(self) -> str:
        tags = f"tags {b' || '.join(self.tags).decode(errors='replace')!r:.100}" if self.tags else ""
        sql = f"sql {self.sql.decode(errors='replace')!r:.100}" if self.sql else ""
        return " and ".join(filter(None, (tags, sql))) or "no filter"


EVERYTHING = WorkFilter()


def asked_filter(group: str, tags: Any, sql: Any) -> WorkFilter:
    """What a question has said. Raises: SettingError."""

    def refuse(setting: str, value: object, why: str) -> SettingError:
        text = f"cannot work in the group {group!r} with {setting} {value!r:.100}: {why}"
        return SettingError(text, name=setting, value=value)

    if not isinstance(tags, list) or not all(isinstance(tag, str) and tag for tag in tags):
        raise refuse("tags", tags, "it is no list of tags")
    encoded = sorted({tag.encode(errors="replace") for tag in tags})
    if len(encoded) > TAGS_MAX or sum(map(len, encoded)) > TAGS_BYTES_MAX:
        raise refuse("tags", tags, f"at most {TAGS_MAX:,} tags of {TAGS_BYTES_MAX:,} bytes together can be asked for")
    if not isinstance(sql, str):
        raise refuse("sql", sql, "it is no text")
    text = sql_or_fault(sql) if sql else b""
    if isinstance(text, SqlFault):
        raise refuse("sql", sql, f"column {text.column}: {text.why}")
    return WorkFilter(tuple(encoded), text)


def filter_of(group: PlannedGroup, topic: int) -> WorkFilter:
    """topic: its number in the group."""
    for each in group.filters:
        if each.topics >> topic & 1:
            return WorkFilter(each.tags, each.sql)
    return EVERYTHING


def check_same(
    name: str, group: PlannedGroup | None, topics: list[str], asked: WorkFilter, others: Callable[[PlannedWorker], bool]
) -> None:
    """others: whether a worker of the plan is there, and another one. Raises: GroupInUse: a worker of one of the topics came
    with another filter."""
    for at, topic in enumerate(group.topics if group else ()):
        assert group is not None
        had = filter_of(group, at)
        there = [each for each in group.workers if each.topics >> at & 1 and others(each)]
        if topic not in topics or had == asked or not there:
            continue
        pids = sorted({worker.pid for worker in there})
        raise GroupInUse(
            f"cannot work in the group {name!r} with {asked} for topic {topic!r}: its {len(there)} "
            f"worker{'s' if len(there) > 1 else ''}, of process {', '.join(map(str, pids[:5]))}, came with {had}",
            hint="give all workers of a group the same tags and sql, or close the others first, or use another group",
            group=name,
            members=len(there),
            pids=pids,
        )


def with_filter(group: PlannedGroup, topics: int, asked: WorkFilter) -> list[PlannedFilter]:
    """The group's filters, of which this one is that of the topics. topics: bits. A filter that stays keeps its number."""
    fresh = []
    number = 0
    for each in group.filters:
        same = WorkFilter(each.tags, each.sql) == asked
        number = each.number if same else number
        left = each.topics | topics if same else each.topics & ~topics
        if left:
            fresh.append(each._replace(topics=left))
    if asked and not number:
        fresh.append(PlannedFilter(random_number(63), topics, asked.tags, asked.sql))
    return fresh
