"""A broker's counters and gauges as metrics, named after Prometheus' conventions (docs/monitoring.md lists them)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from orbitmq.client.health import DEGRADED, OK, REFUSING, STOPPED, Health

if TYPE_CHECKING:
    from orbitmq.client.status import Status

STATES = (OK, DEGRADED, REFUSING, STOPPED)
POSITIONS = ("wrote", "flushed", "reput", "confirmed", "allocated", "min_offset")
STOPS = ("wrote", "flushed", "reput", "allocated", "queues")
# Of an actor's counters, those that go down too.
NOW = {"sessions", "ids"}
SECONDS = 1e-6  # of a histogram in microseconds


@dataclass(frozen=True, slots=True)
class Sample:
    """One value. labels: pairs of name and value."""

    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """Samples of one name, whose labels differ."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: tuple[Sample, ...]


def metrics_of(status: Status, connections: int) -> list[Metric]:
    """Everything that is counted. connections: of the control socket."""
    return [
        *metrics_of_health(status.health),
        _gauge("build_info", "The running version.", [Sample(1, (("version", status.version),))]),
        *_log(status),
        *_actors(status),
        *_topics(status),
        *_groups(status),
        *_clients(status, connections),
    ]


def metrics_of_health(health: Health) -> list[Metric]:
    """What is known of a broker that does not run, or does not answer."""
    samples = (Sample(each == health.state, (("state", each),)) for each in STATES)
    return [
        _gauge("up", "1: the broker runs.", [Sample(health.state != STOPPED)]),
        _gauge("live", "1: it runs, and none of its processes hangs.", [Sample(health.live)]),
        _gauge("ready", "1: it takes messages now.", [Sample(health.ready)]),
        _gauge("health", "1 for the state in which the broker is.", samples),
    ]


def _log(status: Status) -> Iterator[Metric]:
    seen = status.positions
    writer = next((actor.counters for actor in status.actors if actor.name == "writer"), {})
    for counter, name, text in (
        ("messages", "messages_appended_total", "Messages that the log got."),
        ("rejected", "messages_rejected_total", "Messages that the writer answered with an error."),
        ("duplicates", "messages_duplicate_total", "Messages that were stored before, under the same id."),
    ):
        yield _counter(name, text, [Sample(writer.get(counter, 0))])
    yield _gauge("ids_remembered", "Ids by which a second send is recognised.", [Sample(writer.get("ids", 0))])
    places = (Sample(getattr(seen, each), (("position", each),)) for each in POSITIONS)
    yield _gauge("log_position_bytes", "Physical offsets: how far each stage of the broker is.", places)
    stops = (Sample(getattr(seen, f"{each}_error"), (("position", each),)) for each in STOPS)
    yield _gauge("log_position_errno", "The error number that stopped a position; 0: none.", stops)
    yield _gauge("log_unflushed_bytes", "Written, and not yet on disk.", [Sample(max(0, seen.wrote - seen.flushed))])
    yield _gauge("log_oldest_timestamp_seconds", "Time of the oldest message; 0: none.", [Sample(status.oldest_ms / 1000)])
    yield _gauge("clock_ahead_seconds", "How far the clock has jumped ahead.", [Sample(status.clock_ahead_ms / 1000)])
    yield _gauge("transactions_open", "Transactions that have not ended.", [Sample(status.open_transactions)])
    began = status.oldest_transaction_ms / 1000
    yield _gauge("transaction_oldest_timestamp_seconds", "When the oldest open one began; 0: none.", [Sample(began)])


def _actors(status: Status) -> Iterator[Metric]:
    labelled = [(actor, (("actor", actor.name),)) for actor in status.actors]
    running = (Sample(actor.state == "running", label) for actor, label in labelled)
    yield _gauge("actor_running", "1: the process runs.", running)
    beats = (Sample(actor.heartbeat_age_ms / 1000, label) for actor, label in labelled)
    yield _gauge("actor_heartbeat_age_seconds", "Time since the process showed that it is alive.", beats)
    lives = (Sample(actor.epoch - 1, label) for actor, label in labelled)
    yield _counter("actor_restarts_total", "How often the process was started again.", lives)
    by_counter: dict[str, list[Sample]] = defaultdict(list)
    for actor, label in labelled:
        for counter, value in actor.counters.items():
            by_counter[counter].append(Sample(value, label))
    for counter, samples in by_counter.items():
        if counter in NOW:
            yield _gauge(f"actor_{counter}", f"{counter} now, of the process.", samples)
        else:
            yield _counter(f"actor_{counter}_total", f"The process's counter {counter!r}.", samples)
    for name, text, actor_name, unit in (
        ("sync_quantile_seconds", "Quantiles of the log's syncs since the broker's start.", "flush", SECONDS),
        ("write_group_quantile_messages", "Quantiles of the sizes of write groups.", "writer", 1),
    ):
        found = next((actor.quantiles for actor in status.actors if actor.name == actor_name), {})
        yield _gauge(name, text, (Sample(value * unit, (("quantile", f"{q:g}"),)) for q, value in found.items()))


def _topics(status: Status) -> Iterator[Metric]:
    labelled = [(topic, (("topic", topic.name),)) for topic in status.topics]
    ever = (Sample(sum(queue.max_offset for queue in topic.queues), label) for topic, label in labelled)
    yield _counter("topic_messages_total", "Messages that became readable.", ever)
    kept = (Sample(sum(queue.max_offset - queue.min_offset for queue in topic.queues), label) for topic, label in labelled)
    yield _gauge("topic_readable_messages", "Messages that can be read now.", kept)
    yield _gauge("topic_queues", "Queues.", (Sample(len(topic.queues), label) for topic, label in labelled))


def _groups(status: Status) -> Iterator[Metric]:
    lag: dict[tuple[str, str], int] = defaultdict(int)
    removed: dict[tuple[str, str], int] = defaultdict(int)
    for group in status.groups:
        for queue in group.queues:
            lag[group.name, queue.topic] += queue.lag_messages
            removed[group.name, queue.topic] += queue.removed_messages
    for name, text, found in (
        ("group_lag_messages", "Messages that the group has still to read.", lag),
        ("group_removed_messages", "Messages that retention removed before the group read them.", removed),
    ):
        yield _gauge(name, text, (Sample(n, (("group", each), ("topic", topic))) for (each, topic), n in found.items()))
    labelled = [(group, (("group", group.name),)) for group in status.groups]
    yield _gauge("group_members", "Open consumers.", (Sample(len(group.members), label) for group, label in labelled))
    yield _gauge("group_workers", "Open workers.", (Sample(len(group.workers), label) for group, label in labelled))
    yield _gauge("group_paused", "1: nobody gets anything.", (Sample(group.paused, label) for group, label in labelled))
    letters = (Sample(group.dead_letters, label) for group, label in labelled)
    yield _gauge("group_dead_letters", "Messages that the group has given up.", letters)


def _clients(status: Status, connections: int) -> Iterator[Metric]:
    producers = sum(session.window > 0 for session in status.sessions)
    kinds = (("producer", producers), ("consumer", len(status.sessions) - producers))
    yield _gauge("sessions", "Open sessions of clients.", (Sample(n, (("kind", kind),)) for kind, n in kinds))
    yield _gauge("connections", "Connections of the control socket.", [Sample(connections)])


def _gauge(name: str, text: str, samples: Iterable[Sample]) -> Metric:
    return Metric(f"orbitmq_{name}", "gauge", text, tuple(samples))


def _counter(name: str, text: str, samples: Iterable[Sample]) -> Metric:
    return Metric(f"orbitmq_{name}", "counter", text, tuple(samples))
