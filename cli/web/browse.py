"""Messages of a topic a page at a time, newest or oldest first, read from the store's files: no session, no group, and nothing
that the broker would notice.

A page goes over all queues of the topic in the order of the log. Where it ended is told queue by queue, so the next page begins
exactly there, whatever was sent meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal

from orbitmq.client.consumer.subscription import look_up, tag_list
from orbitmq.client.lookup import Attached, reader_of
from orbitmq.client.sql_filter import checked_sql
from orbitmq.errors import CorruptRecord, SettingError, UnknownQueue
from orbitmq.native._types import Message, Reader
from orbitmq.shm.topic_name import check_topic_name
from orbitmq.store.index_file import TIME_END

Direction = Literal["older", "newer"]
AT_ONCE = (8, 512)  # messages of one queue that are read together: at first, and at most
LOOKS_MAX = 200_000  # messages that one page looks at, so that a filter that nothing passes still returns
TIME_MAX_S = 2.0  # the same for messages that are large, or on a slow disk
MOST_MAX = 500


@dataclass(frozen=True, slots=True)
class Damaged:
    """A message that cannot be read, in the place where it stands."""

    topic: str
    queue: int
    offset: int
    physical_offset: int
    why: str


Found = Message | Damaged


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page is to show.

    direction: "older": newest first; "newer": oldest first. places: by queue, where an earlier page ended; a queue without one
    begins at its end or beginning. since_ms: with "newer" and without places: from the first message stored at or after it."""

    topic: str
    direction: Direction = "older"
    most: int = 50
    tags: str | None = None
    sql: str | None = None
    queue: int | None = None
    since_ms: int | None = None
    places: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_topic_name(self.topic)
        if self.direction not in ("older", "newer"):
            text = f"could not read with direction={self.direction!r:.40}: it must be 'older' or 'newer'"
            raise SettingError(text, setting="direction", value=self.direction)
        if not 1 <= self.most <= MOST_MAX:
            text = f"could not show {self.most} messages: a page has 1 to {MOST_MAX} messages"
            raise SettingError(text, setting="most", value=self.most)


@dataclass(frozen=True, slots=True)
class Page:
    """places: by queue, where it ended. looked: at how many messages. whole: False: there may be more that way."""

    messages: list[Found]
    places: dict[int, int]
    looked: int
    whole: bool


def page_of(attached: Attached, asked: Asked, clock: Callable[[], float] = time.monotonic) -> Page:
    """Raises: UnknownTopic, NoPermission; UnknownQueue; FilterError, SettingError: the filter is none."""
    topic = look_up(attached.topics_address, asked.topic, "read")
    if asked.queue is not None and not 0 <= asked.queue < topic.queues:
        text = f"could not read queue {asked.queue} of {topic.name!r}: it has {topic.queues}"
        raise UnknownQueue(text, topic=topic.name, queue=asked.queue, queues=topic.queues)
    tags, sql = tag_list(asked.tags), checked_sql(asked.sql)
    chosen = range(topic.queues) if asked.queue is None else (asked.queue,)
    with closing(reader_of(attached)) as reader:
        reader.filter(tags)
        reader.sql(sql)
        lanes = [_lane(reader, reader.add(topic.first_slot + queue, 0), queue, asked) for queue in chosen]
        return _merged(lanes, asked, clock)


class _Lane:
    """One queue on its way. `front`: what comes next; `place`: an offset beside which everything on one side was given."""

    def __init__(self, reader: Reader, cursor: int, asked: Asked, queue: int, begin: int, end: int) -> None:
        self._reader, self._cursor, self._topic = reader, cursor, asked.topic
        self._older = asked.direction == "older"
        self.queue, self._begin, self._end = queue, begin, end  # what is not read yet: [begin, end)
        self._read: list[Found] = []  # the next one last
        self._step = AT_ONCE[0]
        self.looked = 0

    @property
    def front(self) -> Found | None:
        return self._read[-1] if self._read else None

    @property
    def over(self) -> bool:
        return not self._read and self._begin >= self._end

    @property
    def place(self) -> int:
        if self._read:
            return self._read[-1].offset + self._older
        return self._end if self._older else self._begin

    def take(self) -> Found:
        return self._read.pop()

    def read(self) -> None:
        """Reads a portion, in which nothing may pass the filter."""
        count = min(self._step, self._end - self._begin)
        self._step = min(2 * self._step, AT_ONCE[1])
        first = self._end - count if self._older else self._begin
        self._read = list(self._between(first, first + count))
        self.looked += count
        if self._older:
            self._end = first
        else:
            self._begin = first + count
            self._read.reverse()

    def _between(self, at: int, end: int) -> Iterator[Found]:
        while at < end:
            try:
                yield from self._reader.range(self._cursor, at, end - at)
            except CorruptRecord as error:
                where = at if error.queue_offset is None else error.queue_offset
                yield Damaged(self._topic, self.queue, where, error.offset or 0, error.message)
                at = where + 1
                continue
            at = max(at + 1, self._reader.positions()[self._cursor])  # it stops before what is damaged


def _lane(reader: Reader, cursor: int, queue: int, asked: Asked) -> _Lane:
    begin, end = reader.bounds(cursor)
    at = asked.places.get(queue)
    if at is not None:
        at = min(max(at, begin), end)
        begin, end = (begin, at) if asked.direction == "older" else (at, end)
    elif asked.direction == "newer" and asked.since_ms is not None:
        begin = max(begin, min(reader.since(cursor, min(max(0, asked.since_ms), TIME_END)), end))
    return _Lane(reader, cursor, asked, queue, begin, end)


def _merged(lanes: list[_Lane], asked: Asked, clock: Callable[[], float]) -> Page:
    """In the order of the log."""
    found: list[Found] = []
    until = clock() + TIME_MAX_S
    going = lanes
    while len(found) < asked.most and _known(going, lanes, until, clock) and (going := [each for each in going if each.front]):
        # a front is the newest of its lane, or the oldest
        fronts = ((each.front.physical_offset, each) for each in going if each.front)
        choose = max if asked.direction == "older" else min
        found.append(choose(fronts, key=lambda pair: pair[0])[1].take())
    places = {each.queue: each.place for each in lanes}
    return Page(found, places, sum(each.looked for each in lanes), all(each.over for each in lanes))


def _known(going: list[_Lane], lanes: list[_Lane], until: float, clock: Callable[[], float]) -> bool:
    """Makes known what comes next in every queue. False: the page has looked for long enough."""
    for lane in going:
        while lane.front is None and not lane.over:
            if sum(each.looked for each in lanes) >= LOOKS_MAX or clock() >= until:
                return False
            lane.read()
    return True
