"""A broker's counters and gauges as metrics, named after Prometheus' conventions (docs/monitoring.md lists them)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from orbitmq.client.admin.health import DEGRADED, OK, REFUSING, STOPPED, Health
from orbitmq.native._core import lib
from orbitmq.shm.counters import REASONS, ActorPage, Histogram

if TYPE_CHECKING:
    from orbitmq.client.admin.status import Status
    from orbitmq.client.client import Client
    from orbitmq.client.connection.attachment import Attachment

STATES = (OK, DEGRADED, REFUSING, STOPPED)
POSITIONS = ("wrote", "flushed", "reput", "confirmed", "allocated", "min_offset")
STOPS = ("wrote", "flushed", "reput", "allocated", "queues")
# Of an actor's counters, those that go down too.
NOW = {"sessions", "ids"}


class Spread(NamedTuple):
    """A histogram that an actor keeps, whose buckets end at powers of two."""

    actor: str
    name: str
    help: str
    unit: float  # of a recorded value
    powers: range
    whole: bool  # values are numbers of things; else they are times, whose fractions are cut off


SPREADS = (
    Spread("flush", "sync_duration_seconds", "Durations of the log's syncs.", 1e-6, range(4, 25), False),
    Spread("scheduler", "delay_lateness_seconds", "How late delayed messages came.", 1e-3, range(21), False),
    Spread("writer", "write_group_messages", "Messages in a write group.", 1, range(1, 14), True),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value. labels: pairs of name and value."""

    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """Samples of one name, whose labels differ."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: tuple[Sample, ...]  # of a histogram: how many values are at most `le`
    total: float = 0  # of a histogram's values


def metrics_of(status: Status, connections: int, histograms: Mapping[str, Histogram]) -> list[Metric]:
    """Everything that is counted. connections: of the control socket. histograms: by actor."""
    return [
        *metrics_of_health(status.health),
        _gauge("build_info", "The running version.", [Sample(1, (("version", status.version),))]),
        *_log(status),
        *_actors(status),
        *(_histogram(histograms[each.actor], each) for each in SPREADS if each.actor in histograms),
        *_topics(status),
        *_groups(status),
        *_clients(status, connections),
    ]


def look(client: Client) -> tuple[Health, list[Metric]]:
    """Raises: BrokerNotRunning, BrokerStopped, TimedOut."""
    status = client.status()
    connections = sum(each.connections for each in client.clients())
    return status.health, metrics_of(status, connections, _read_histograms(client.connection.attachment))


def _read_histograms(attachment: Attachment) -> dict[str, Histogram]:
    pages = (ActorPage(lib.control_actor(attachment.control, index)) for index in range(lib.ACTORS_MAX))
    return {seen.name: page.histogram() for page in pages if (seen := page.read()).epoch}


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
    writer, refused = next(((each.counters, each.refused) for each in status.actors if each.name == "writer"), ({}, {}))
    for counter, name, text in (
        ("messages", "messages_appended_total", "Messages that the log got."),
        ("rejected", "messages_rejected_total", "Messages that the writer answered with an error."),
        ("duplicates", "messages_duplicate_total", "Messages that were stored before, under the same id."),
    ):
        yield _counter(name, text, [Sample(writer.get(counter, 0))])
    reasons = (Sample(refused.get(reason, 0), (("reason", reason),)) for reason in REASONS)
    yield _counter("messages_refused_total", "The rejected messages, by reason.", reasons)
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


def _histogram(seen: Histogram, spread: Spread) -> Metric:
    ends = ((((1 << power) - spread.whole) * spread.unit, seen.below(power)) for power in spread.powers)
    samples = [Sample(count, (("le", str(float(f"{end:.9g}"))),)) for end, count in ends]
    samples.append(Sample(seen.count, (("le", "+Inf"),)))
    return Metric(f"orbitmq_{spread.name}", "histogram", spread.help, tuple(samples), seen.total * spread.unit)


def _gauge(name: str, text: str, samples: Iterable[Sample]) -> Metric:
    return Metric(f"orbitmq_{name}", "gauge", text, tuple(samples))


def _counter(name: str, text: str, samples: Iterable[Sample]) -> Metric:
    return Metric(f"orbitmq_{name}", "counter", text, tuple(samples))
