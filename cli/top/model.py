"""What the live view knows: the last look at the broker, and rates as series. It draws nothing and asks nobody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orbitmq.cli.looks import Between, Look
from orbitmq.cli.top.complaints import Complaints
from orbitmq.cli.top.series import Series
from orbitmq.client.admin.status import ActorStatus, GroupStatus, Status, TopicStatus

GAP_S = 15.0  # rates over a longer time would say nothing about now

Life = tuple[int, int]  # pid and epoch of an actor: its pid alone may become another process's


@dataclass(frozen=True, slots=True)
class Seen:
    """A look, and the seconds of processor time that each actor had used by then."""

    look: Look
    busy: Mapping[Life, float]


@dataclass(frozen=True, slots=True)
class ActorRow:
    """share: of one processor, 1.0 is all of it; None: not known yet."""

    status: ActorStatus
    share: float | None
    rates: Series

    @property
    def name(self) -> str:
        return self.status.name


@dataclass(frozen=True, slots=True)
class TopicRow:
    status: TopicStatus
    rates: Series

    @property
    def name(self) -> str:
        return self.status.name

    @property
    def held(self) -> int:
        """Messages that can be read."""
        return sum(queue.max_offset - queue.min_offset for queue in self.status.queues)


@dataclass(frozen=True, slots=True)
class GroupRow:
    status: GroupStatus
    rates: Series
    lags: Series

    @property
    def name(self) -> str:
        return self.status.name

    @property
    def members(self) -> int:
        return len(self.status.members) + len(self.status.workers)


class Model:
    """Takes one look after the other. Of what a look no longer has, nothing is kept."""

    def __init__(self) -> None:
        self.messages, self.bytes, self.lag = Series(), Series(), Series()
        self.complaints = Complaints()
        self.away = ""  # why there is no broker to look at; "": there is one
        self._seen: Seen | None = None
        self._actors: dict[str, Series] = {}
        self._shares: dict[str, float] = {}
        self._topics: dict[str, Series] = {}
        self._groups: dict[str, Series] = {}
        self._lags: dict[str, Series] = {}

    @property
    def status(self) -> Status | None:
        """As it was at the last look, which is not the broker's any more if it is away."""
        return self._seen.look.status if self._seen is not None else None

    def lost(self, why: str) -> None:
        """There was no look: the broker is gone, or it does not answer."""
        self.away = why
        self.complaints.lost(why)
        for series in (self.messages, self.bytes, self.lag, *self._each()):
            series.add(None)

    def take(self, seen: Seen) -> None:
        last, self._seen, self.away = self._seen, seen, ""
        status = seen.look.status
        self.complaints.compare(last.look.status if last else None, status)
        between = Between(last.look, seen.look) if last is not None and _comparable(last.look, seen.look) else None
        before = between.before.status if between else None
        self.messages.add(between.of_actor("writer", "messages") if between else None)
        self.bytes.add(between.of_position("wrote") if between else None)
        self.lag.add(sum(group.lag_messages for group in status.groups))
        known = {actor.name for actor in before.actors} if before else set()
        self._actors = _kept(self._actors, (actor.name for actor in status.actors))
        for name, series in self._actors.items():
            series.add(between.of_actor(name, "messages") if between and name in known else None)
        known = {topic.name for topic in before.topics} if before else set()
        self._topics = _kept(self._topics, (topic.name for topic in status.topics))
        for name, series in self._topics.items():  # a new topic's first messages came in a time that nobody measured
            series.add(between.of_topic(name) if between and name in known else None)
        known = {group.name for group in before.groups} if before else set()
        self._groups = _kept(self._groups, (group.name for group in status.groups))
        for name, series in self._groups.items():
            series.add(between.of_group(name) if between and name in known else None)
        self._lags = _kept(self._lags, self._groups)
        for group in status.groups:
            self._lags[group.name].add(group.lag_messages)
        self._shares = _shares(last, seen) if between and last else {}

    def actors(self) -> list[ActorRow]:
        found = self.status.actors if self.status else ()
        return [ActorRow(each, self._shares.get(each.name), self._actors[each.name]) for each in found]

    def topics(self) -> list[TopicRow]:
        return [TopicRow(each, self._topics[each.name]) for each in (self.status.topics if self.status else ())]

    def groups(self) -> list[GroupRow]:
        found = self.status.groups if self.status else ()
        return [GroupRow(each, self._groups[each.name], self._lags[each.name]) for each in found]

    def _each(self) -> list[Series]:
        return [series for kept in (self._actors, self._topics, self._groups, self._lags) for series in kept.values()]


def _comparable(before: Look, now: Look) -> bool:
    """A broker that was restarted counts anew."""
    return before.status.generation == now.status.generation and 0 < now.at - before.at <= GAP_S


def _kept(series: dict[str, Series], names: Iterable[str]) -> dict[str, Series]:
    return {name: series.get(name) or Series() for name in names}


def _shares(last: Seen, seen: Seen) -> dict[str, float]:
    """By actor, for those that have lived since the look before."""
    passed = seen.look.at - last.look.at
    found = {}
    for actor in seen.look.status.actors:
        life = (actor.pid, actor.epoch)
        if life in seen.busy and life in last.busy:
            found[actor.name] = max(0.0, seen.busy[life] - last.busy[life]) / passed
    return found
