"""What a run exports: of each queue everything after the last run's end, if it is still the same queue."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.client.group_name import check_group_type
from orbitmq.client.several import Ordered, Several, not_one_text
from orbitmq.errors import ExportDiffers, OffsetOutOfRange, SettingError, UnknownTopic
from orbitmq.errors.remedy import Knob, hint
from orbitmq.shm.topic_name import kept_topic
from orbitmq.shm.topic_table import QueueKey
from orbitmq.tables.choice import topics_there
from orbitmq.tables.columns import COLUMNS, chosen
from orbitmq.tables.export.folder import ExportFolder
from orbitmq.tables.export.manifest import End, Gap, Mark
from orbitmq.tables.export.marks import Marks
from orbitmq.tables.export.partition import check_by
from orbitmq.tables.export.state import State
from orbitmq.tables.extents import Snapshot
from orbitmq.tables.planning import Slice

BY = ("topic", "day")
FULL_HINT = hint("export into another folder || begin again with {full=True}")


@dataclass(frozen=True, slots=True)
class Wish:
    """What the caller asked for. No topics: all but reserved ones. by, columns: None: as in the last run, or the defaults.
    group: under which name it shows how far it is; None: nowhere."""

    topics: tuple[str, ...] = ()
    by: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    full: bool = False
    allow_gaps: bool = False
    group: str | None = None

    @classmethod
    def of(
        cls,
        topics: Several[str] = (),
        by: Ordered[str] | None = None,
        columns: Several[str] | None = None,
        *,
        full: bool = False,
        allow_gaps: bool = False,
        group: str | None = None,
    ) -> Wish:
        """Raises: SettingError: a column does not exist, or no folder can be made of it. GroupNameError."""
        if group is not None:
            check_group_type(group)
        for parameter, names in (("topics", topics), ("by", by), ("columns", columns)):
            not_one_text(names, f"export with {parameter}", parameter)
        chosen(columns)
        if by is not None:
            check_by(tuple(by))
        named = tuple(dict.fromkeys(topics))
        shape = None if by is None else tuple(by), None if columns is None else tuple(columns)
        return cls(named, *shape, full, allow_gaps, group)


@dataclass(frozen=True, slots=True)
class Plan:
    """by, columns: of the whole folder. ends: after the run, of the queues that it moves. replaces: topics that begin again."""

    by: tuple[str, ...]
    columns: tuple[str, ...]
    replaces: tuple[str, ...]
    slices: tuple[Slice, ...]
    ends: dict[str, dict[int, End]]
    gaps: tuple[Gap, ...]

    @property
    def nothing(self) -> bool:
        return not (self.slices or self.ends or self.replaces)

    @property
    def messages(self) -> int:
        return sum(each.count for each in self.slices)


def plan(folder: ExportFolder, state: State, snapshot: Snapshot, wish: Wish) -> Plan:
    """Raises: UnknownTopic; ExportDiffers: another store, a topic that was created again, other columns or folders than before,
    without full; OffsetOutOfRange: messages are gone that were not exported, and gaps are not allowed."""
    topics = _topics(snapshot, state, wish)
    if wish.full:
        everything = not wish.topics or {*state.ends} <= {*topics}
        replaces = tuple(sorted({*state.ends, *topics} if everything else topics)) if state.run else ()
    else:
        everything, replaces = state.run is None, ()
    by, columns = _shape(folder, state, wish, free=everything)
    marks = Marks(snapshot)
    try:
        if not everything:
            _check_store(folder, state, snapshot, marks, set(replaces))
        slices: list[Slice] = []
        ends: dict[str, dict[int, End]] = {}
        gaps: list[Gap] = []
        for topic in topics:
            known = {} if topic in replaces else state.ends.get(topic, {})
            bounds = snapshot.topics.get(topic, {})
            for queue in sorted({*bounds, *known}):
                begin, end, gap = _range(folder, marks, (topic, queue), bounds.get(queue, (0, 0)), known.get(queue))
                if gap:
                    gaps.append(gap)
                if begin < end:
                    slices.append(Slice(topic, queue, begin, end))
                if begin < end or gap:
                    ends.setdefault(topic, {})[queue] = End(end, marks.of(topic, queue, end - 1))
    finally:
        marks.close()
    if gaps and not wish.allow_gaps:
        raise _lost(folder, gaps, snapshot)
    return Plan(by, columns, replaces, tuple(slices), ends, tuple(gaps))


def reached(state: State, snapshot: Snapshot) -> dict[QueueKey, int]:
    """For each queue of the topics that have been exported, the offset that the next run begins at."""
    found = {}
    for topic, ends in state.ends.items():
        for queue, (minimum, _) in snapshot.topics.get(topic, {}).items():
            found[topic, queue] = ends[queue].offset if queue in ends else minimum
    return found


def _topics(snapshot: Snapshot, state: State, wish: Wish) -> list[str]:
    """All: without those that broker and groups keep for themselves, unless a run has exported them."""
    for topic in wish.topics:
        if topic not in snapshot.topics:
            raise UnknownTopic(
                f"cannot export topic {topic!r}: {snapshot.root} has no such topic",
                hint=f"it has {topics_there(snapshot.topics)}",
                topic=topic,
                topics=sorted(snapshot.topics),
            )
    return list(wish.topics) or sorted(name for name in snapshot.topics if name in state.ends or not kept_topic(name))


def _shape(folder: ExportFolder, state: State, wish: Wish, *, free: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Folders and columns. free: they may differ from those of the last run."""
    last = state.run
    by = wish.by or (last.by if last else BY)
    columns = wish.columns or (last.columns if last else chosen(None))
    for name, now, was in (("by", by, last and last.by), ("columns", columns, last and last.columns)):
        if not free and now != was:
            raise ExportDiffers(
                f"cannot export to {folder.root} with {name} {','.join(now)}: its earlier files were exported with {name} "
                f"{','.join(was or ())}",
                hint=hint("leave out {} || begin again with {full=True}, for all topics at once", Knob(name)),
                path=str(folder.root),
            )
    for name in columns:
        if name not in COLUMNS:
            raise ExportDiffers(
                f"cannot export to {folder.root}: its earlier files have the column {name}, which this version does not know",
                hint=FULL_HINT,
                path=str(folder.root),
            )
    if all(name in by for name in columns):
        raise SettingError(
            f"cannot export with columns {','.join(columns)} by {','.join(by)}: no column is left for the files",
            hint=hint("name more {columns} || make folders of fewer with {by}"),
            name="columns",
            value=",".join(columns),
        )
    return tuple(by), tuple(columns)


def _check_store(folder: ExportFolder, state: State, snapshot: Snapshot, marks: Marks, leave: set[str]) -> None:
    """True if what was exported came out of this store: its newest marked message is still there."""
    found = (end.mark for topic, ends in state.ends.items() if topic not in leave for end in ends.values() if end.mark)
    newest = max(found, key=lambda mark: mark.physical, default=None)
    if newest is None:
        return
    holds = marks.holds(newest)
    assert state.run is not None
    if holds is False or (holds is None and state.run.store != str(snapshot.root)):
        why = (
            f"the message at {newest.physical:,} of the log is not the one that was exported"
            if holds is False
            else f"they came out of {state.run.store}, and nothing that was exported is left here to compare"
        )
        raise ExportDiffers(
            f"cannot export {snapshot.root} to {folder.root}: it holds another store's messages: {why}",
            hint=FULL_HINT,
            path=str(folder.root),
            store=state.run.store,
        )


def _range(
    folder: ExportFolder, marks: Marks, place: tuple[str, int], bounds: tuple[int, int], known: End | None
) -> tuple[int, int, Gap | None]:
    """Where to begin and where to end in one queue, and what is missing before."""
    minimum, maximum = bounds
    if known is None:
        return minimum, maximum, None
    topic, queue = place
    mark = marks.of(topic, queue, known.offset - 1) if known.mark else None
    other = mark is not None and known.mark is not None and not _same(marks, mark, known.mark)
    # After a crash of the machine the queues may end earlier than before, until the store is recovered; marks then agree.
    if other or (maximum < known.offset and (mark is None or known.mark is None)):
        why = (
            f"its message {known.offset - 1:,} is another one"
            if other
            else f"it ends at {maximum:,}, and {known.offset:,} messages of it were exported"
        )
        raise ExportDiffers(
            f"cannot export topic {topic!r}, queue {queue}, to {folder.root}: {why}; the topic was deleted and made again, "
            "or the log was cut",
            hint=hint("begin again with {full=True} for topic {} || export into another folder", topic),
            path=str(folder.root),
            topic=topic,
            queue=queue,
        )
    begin = max(known.offset, minimum)
    gap = Gap(topic, queue, known.offset, begin, begin - known.offset) if begin > known.offset else None
    return begin, max(begin, maximum), gap


def _same(marks: Marks, mark: Mark, known: Mark) -> bool:
    """True if a queue still names the message that it did. A repair may have given that message up since."""
    return mark == known or (mark.physical == known.physical and marks.holds(known) is True)


def _lost(folder: ExportFolder, gaps: list[Gap], snapshot: Snapshot) -> OffsetOutOfRange:
    first = gaps[0]
    bounds = snapshot.topics[first.topic][first.queue]
    messages = sum(gap.messages for gap in gaps)
    others = f", and of {len(gaps) - 1} more queues; {messages:,} messages in all" if len(gaps) > 1 else ""
    return OffsetOutOfRange(
        f"cannot export topic {first.topic!r} to {folder.root}: since the last export retention has removed "
        f"the offsets {first.begin:,} to {first.end - 1:,} of queue {first.queue}{others}",
        hint=hint("go on with what is left with {allow_gaps=True}; the manifest then tells of the gap"),
        topic=first.topic,
        queue=first.queue,
        offset=first.begin,
        minimum=bounds[0],
        maximum=bounds[1],
        removed=messages,
        gaps=tuple(gaps),
    )
