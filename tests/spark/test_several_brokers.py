"""Goal: a topic of several brokers is read whole, and each partition has one number for ever. Method: two brokers, and a name
server that tells of one, of both, or in another order. Also of spark/servers/route.py."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from orbitmq.errors import SettingError, TimedOut
from orbitmq.spark.servers.cluster import Cluster
from orbitmq.spark.servers.route import STRIDE
from orbitmq.spark.servers.servers import Servers
from orbitmq.spark.source import remote_slices
from orbitmq.spark.source.options import SourceOptions, parse
from orbitmq.spark.source.snapshot import of_options
from orbitmq.spark.stream.reader import OrbitStreamReader
from orbitmq.tables import planning
from tests.spark.name_server import Held, Routes, name_server
from tests.trees import indexed, small_broker

pytestmark = pytest.mark.pyspark

QUEUES = {"a": 2, "b": 3}


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Held]]:
    """Broker a has bodies "a0" .. "a49", broker b "b0" .. "b49"."""
    folder = tmp_path_factory.mktemp("several")
    with (
        small_broker(folder / "a", listen="127.0.0.1:0") as a,
        small_broker(folder / "b", listen="127.0.0.1:0") as b,
    ):
        found = {}
        for name, broker in (("a", a), ("b", b)):
            broker.create_topic("orders", QUEUES[name])
            with broker.producer() as producer:
                producer.send_batch("orders", [b"%s%d" % (name.encode(), number) for number in range(50)])
            indexed(broker)
            found[name] = Held(name, broker.status().listens, QUEUES[name])
        yield found


@pytest.fixture
def routes(held: dict[str, Held]) -> Routes:
    return {"orders": [held["b"], held["a"]]}


@pytest.fixture
def names(routes: Routes) -> Iterator[str]:
    with name_server(routes) as address:
        yield address


def asked(servers: str, *, streaming: bool = False, **options: str) -> SourceOptions:
    given = {"servers": servers, "subscribe": "orders", "columns": "partition,offset,value", "timeout": "60s"}
    return parse({**given, "startingOffsets": "earliest", **options}, streaming=streaming)


def read(options: SourceOptions) -> dict[int, list[bytes]]:
    """Bodies by partition."""
    snapshot = of_options(options)
    numbered = options.numbered(snapshot.brokers)
    table = pa.Table.from_batches(remote_slices.read_slices(planning.slices(snapshot.topics, options), numbered))
    found: dict[int, list[bytes]] = {}
    for row in table.to_pylist():
        found.setdefault(row["partition"], []).append(row["value"])
    return found


def numbers(first: str, second: str) -> list[int]:
    return [*range(QUEUES[first]), *(STRIDE + queue for queue in range(QUEUES[second]))]


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_partitions_are_numbered_in_order(names: str, order: tuple[str, str]) -> None:
    found = read(asked(names, brokers=",".join(order)))
    assert sorted(found) == numbers(*order)
    for place, name in enumerate(order):
        bodies = [body for number, some in found.items() if number // STRIDE == place for body in some]
        assert sorted(bodies) == sorted(b"%s%d" % (name.encode(), number) for number in range(50))


def test_a_batch_needs_no_order(names: str) -> None:
    assert read(asked(names)) == read(asked(names, brokers="a,b"))


def test_one_queue_of_the_second(names: str) -> None:
    found = read(asked(names, subscribe="orders", startingOffsets=f'{{"orders": {{"{STRIDE + 1}": 5}}}}', brokers="a,b"))
    whole = read(asked(names))
    assert found == {**whole, STRIDE + 1: whole[STRIDE + 1][5:]}


def test_what_was_planned_is_read(routes: Routes, names: str) -> None:
    """Goal: numbers of a batch do not change when a broker joins between planning and reading."""
    both = routes["orders"]
    routes["orders"] = [each for each in both if each.broker == "b"]
    options = asked(names)
    snapshot = of_options(options)
    slices = planning.slices(snapshot.topics, options)
    routes["orders"] = both
    values = [
        each for batch in remote_slices.read_slices(slices, options.numbered(snapshot.brokers)) for each in batch["value"]
    ]
    assert sorted(each.as_py() for each in values) == sorted(b"b%d" % number for number in range(50))


def test_a_broker_that_is_away(routes: Routes, names: str) -> None:
    options = asked(names)
    snapshot = of_options(options)
    slices = planning.slices(snapshot.topics, options)
    routes["orders"] = [each for each in routes["orders"] if each.broker == "b"]
    with pytest.raises(TimedOut, match="broker 'a', which has partition 0, is not in it"):
        list(remote_slices.read_slices(slices, asked(names, timeout="10s").numbered(snapshot.brokers)))


def test_a_stream_wants_an_order(routes: Routes, names: str) -> None:
    """And then goes on when a broker is put behind the others."""
    with pytest.raises(SettingError, match=r"several brokers, a, b, without an order") as caught:
        OrbitStreamReader(asked(names, streaming=True)).initialOffset()
    assert caught.value.option == "brokers"
    both = routes["orders"]
    routes["orders"] = [each for each in both if each.broker == "b"]
    alone = OrbitStreamReader(asked(names, streaming=True))
    begin, end = alone.initialOffset(), alone.latestOffset()
    assert sorted(end["orders"]) == [str(queue) for queue in range(QUEUES["b"])]
    routes["orders"] = both
    with pytest.raises(SettingError, match="broker 'a': option brokers = 'b' does not name it"):
        OrbitStreamReader(asked(names, streaming=True, brokers="b")).latestOffset(end)
    more = OrbitStreamReader(asked(names, streaming=True, brokers="b,a"))
    later = more.latestOffset(end)
    assert {number: later["orders"][number] for number in end["orders"]} == end["orders"]
    for first, last, name in ((begin, end, b"b"), (end, later, b"a")):
        parts = more.partitions(first, last)
        bodies = [each.as_py() for part in parts for batch in more.read(part) for each in batch["value"]]
        assert sorted(bodies) == sorted(b"%s%d" % (name, number) for number in range(50))


def test_numbers_of_a_topic_of_one_broker(names: str, held: dict[str, Held]) -> None:
    with Cluster(Servers(names, 60)) as cluster:
        route = cluster.route("orders")
    assert route is not None
    assert [number for number, _, _ in route.partitions(["b"])] == list(range(QUEUES["b"]))
    assert list(read(asked(held["b"].address))) == list(range(QUEUES["b"]))


def test_names_that_are_not_there(names: str) -> None:
    """Their places are kept."""
    assert sorted(read(asked(names, brokers="x,a,b"))) == [STRIDE + each for each in numbers("a", "b")]
