"""Goal: through a gateway the source gives the same rows as from the store's folder, and says what is wrong with servers that
do not answer, lie or die. Method: a broker tree with a gateway, both ways on the same topics; a thread as a server of wrong
answers. Also of spark/servers/connection.py, and of spark/source/remote_extents.py and remote_slices.py."""

from __future__ import annotations

import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import orbitmq
from orbitmq.errors import CorruptRecord, OffsetOutOfRange, OrbitError, ProtocolError, SettingError, TimedOut, UnknownTopic
from orbitmq.spark.servers import pulled_store
from orbitmq.spark.servers.cluster import Cluster
from orbitmq.spark.servers.servers import Servers
from orbitmq.spark.source import remote_slices
from orbitmq.spark.source.options import SourceOptions, parse
from orbitmq.spark.source.snapshot import of_options
from orbitmq.tables import planning, slice_reader
from orbitmq.tables.columns import COLUMNS, schema
from tests.actors.remoting_client import Remote
from tests.native import remoting_model as model
from tests.native.remoting_model import JSON, Header
from tests.trees import indexed, kill, small_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 3000
ALL = ",".join(COLUMNS)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    """Messages short, long and compressed, with and without tags, keys and properties, some from a client of RocketMQ's."""
    with small_broker(tmp_path_factory.mktemp("servers") / "store", listen="127.0.0.1:0", flush_interval_ms=20) as broker:
        broker.create_topic("t", 3)
        broker.create_topic("single", 1)
        broker.create_topic("empty", 2)
        with broker.producer() as producer:
            for number in range(COUNT):
                tags, keys = (None, None) if number % 3 == 0 else (f"tag{number % 5}", [f"k{number}", f"of{number % 7}"])
                more = {"color": f"c\u00e4{number % 9}", "price": str(number)} if number % 2 else None
                producer.send("t", b"%d" % number * (number % 40), tags=tags, keys=keys, properties=more, flag=number - 500)
            producer.send("single", bytes(100_000), queue=0)
        with Remote(broker.status().listens) as remote:
            body = zlib.compress(b"long " * 10_000)
            assert remote.send("t", body, 1, b"a\x01b\x02", f=1).code == 0
            for number in range(100):
                assert remote.send("single", b"%d" % number, 0, b"TAGS\x01x\x02KEYS\x01k\x02").code == 0
        indexed(broker)
        yield broker


def asked(broker: orbitmq.Broker, subscribe: str = "t", **options: str) -> SourceOptions:
    return parse({"servers": broker.status().listens, "subscribe": subscribe, "columns": ALL, **options})


def pulled(options: SourceOptions) -> pa.Table:
    slices = planning.slices(of_options(options).topics, options)
    return pa.Table.from_batches(remote_slices.read_slices(slices, options), schema(options.columns))


def mapped(broker: orbitmq.Broker, subscribe: str = "t", **options: str) -> pa.Table:
    """The same, from the store's folder."""
    wanted = parse({"path": broker.status().store, "subscribe": subscribe, "columns": ALL, "read": "appended", **options})
    snapshot = of_options(wanted)
    slices = planning.slices(snapshot.topics, wanted)
    sizes = snapshot.log_file_size, snapshot.queue_file_units
    return pa.Table.from_batches(slice_reader.read_slices(str(snapshot.root), sizes, slices, wanted), schema(wanted.columns))


def rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=lambda row: (row["topic"], row["partition"], row["offset"]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subscribe": "t,single,empty"},
        {"tags": "tag1 || tag3"},
        {"sql92": "price > 1000 AND color IS NOT NULL"},
        {"columns": "partition,offset,topic"},
        {"startingOffsets": '{"t": {"0": 17}}', "endingOffsets": '{"t": {"0": 500, "1": 3}}'},
    ],
    ids=["all", "topics", "tags", "sql", "columns", "offsets"],
)
def test_the_same_rows_as_from_the_folder(broker: orbitmq.Broker, options: dict[str, str]) -> None:
    expected = mapped(broker, **options)
    found = pulled(asked(broker, **options))
    assert expected.num_rows > 0 and found.schema.equals(expected.schema)
    assert rows(found) == rows(expected)
    for queue in range(3):
        offsets = [row["offset"] for row in found.to_pylist() if (row["topic"], row["partition"]) == ("t", queue)]
        assert offsets == sorted(offsets)


def test_the_rows_were_all_sent(broker: orbitmq.Broker) -> None:
    """The test above would accept two empty halves."""
    bodies = sorted(pulled(asked(broker, columns="value")).column("value").to_pylist())
    assert bodies == sorted([*(b"%d" % number * (number % 40) for number in range(COUNT)), b"long " * 10_000])


def test_runs_end_where_a_batch_is_full(broker: orbitmq.Broker) -> None:
    options = asked(broker)
    slices = planning.slices(of_options(options).topics, options)
    batches = list(remote_slices.read_slices(slices, options, rows=100))
    assert max(batch.num_rows for batch in batches) <= 100
    assert rows(pa.Table.from_batches(batches)) == rows(mapped(broker))


def test_topics_of_a_pattern(broker: orbitmq.Broker) -> None:
    options = parse({"servers": broker.status().listens, "subscribePattern": "s.*"})
    assert {"single"} == {topic for topic in of_options(options).topics if not topic.startswith("SCHEDULE")}


def test_the_gateway_dies_between_two_pulls(broker: orbitmq.Broker) -> None:
    options = asked(broker)
    slices = planning.slices(of_options(options).topics, options)
    reading = remote_slices.read_slices(slices, options, rows=50)
    batches = []
    gateways = [name for name in actor_names(broker) if name.startswith("gateway")]
    assert gateways
    for number, batch in enumerate(reading):
        batches.append(batch)
        if number % 20 == 5:
            kill(broker, gateways[number % len(gateways)])
    assert rows(pa.Table.from_batches(batches)) == rows(mapped(broker))


def actor_names(broker: orbitmq.Broker) -> list[str]:
    return [actor.name for actor in broker.status().actors]


def test_an_unknown_topic(broker: orbitmq.Broker) -> None:
    with pytest.raises(UnknownTopic, match=r"'tt' of option subscribe.*no such topic") as caught:
        pulled(asked(broker, "tt"))
    assert "single" in (caught.value.topics or ())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "p"}, "path and servers are given"),
        ({"broker": "b"}, "broker and servers are given"),
        ({"servers": "host:x"}, "it must end with a port"),
        ({"servers": " "}, "it names nobody"),
        ({"read": "flushed"}, "does not tell"),
        ({"group": "g"}, "nothing is committed"),
        ({"accessKey": "a"}, "only together with secretKey"),
        ({"secretKey": "of-nobody"}, "secretKey = .\\*\\(hidden\\).* only together with accessKey"),
        ({"secretKye": "of-nobody"}, "secretKye = .\\*\\(hidden\\).*did you mean secretKey"),
        ({"tls": "maybe"}, "true or false"),
        ({"tlsTrust": "f"}, "without tls = true"),
        ({"tls": "true", "tlsTrust": "/nowhere"}, "no such file"),
        ({"tls": "true", "tlsTrust": __file__}, "cannot be used"),
        ({"tls": "true", "tlsTrust": __file__, "tlsVerify": "false"}, "any certificate"),
        ({"brokers": "a,a"}, "twice"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse({"servers": "host:9876", "subscribe": "t", **options})


def test_a_timeout_without_servers() -> None:
    with pytest.raises(SettingError, match=r"option timeout.*servers may be away"):
        parse({"path": "p", "subscribe": "t", "timeout": "1s"})


Reply = Callable[[int, Header, dict[str, str]], bytes | None]


@contextmanager
def wrong_server(reply: Reply) -> Iterator[str]:
    """Answers request after request with what `reply` gives for its number; None closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        count = 0

        def serve() -> None:
            nonlocal count
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer:
                    came = b""
                    while some := peer.recv(1 << 16):
                        came += some
                        while (size := model.border(came)) is not None and len(came) >= size:
                            _, head, _ = model.split(came[:size])
                            came = came[size:]
                            header = model.read_json(head)
                            fields = {name.decode(): value.decode() for name, value in (header.fields or {}).items()}
                            count += 1
                            data = reply(count, header, fields)
                            if data is None:
                                break
                            peer.sendall(data)
                        else:
                            continue
                        break

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield address
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def said(asked: Header, body: bytes = b"", code: int = 0, **fields: object) -> bytes:
    told = {name.encode(): str(value).encode() for name, value in fields.items()}
    return model.frame(JSON, model.write_json(Header(code, 0, 407, asked.opaque, 1, b"why not", told)), body)


def routed(asked: Header, address: str) -> bytes:
    """As RocketMQ writes it, whose keys that are numbers have no quotes."""
    broker = f'{{"brokerAddrs":{{0:"{address}"}},"brokerName":"b"}}'
    return said(asked, f'{{"brokerDatas":[{broker}],"queueDatas":[{{"brokerName":"b","readQueueNums":1}}]}}'.encode())


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(TimedOut, match=f"a route of topic 't' from {address} of option servers within 0.01 s") as caught:
        of_options(parse({"servers": address, "subscribe": "t", "timeout": "10ms"}))
    assert caught.value.option == "timeout"


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda header: b"\xff" * 8, ProtocolError, "damaged: its length"),
        (lambda header: (100).to_bytes(4, "big") + (99).to_bytes(4, "big"), ProtocolError, "99 of 100 bytes"),
        (lambda header: model.frame(JSON, b"{"), ProtocolError, "not JSON"),
        (lambda header: model.frame(JSON, b"[]"), ProtocolError, "no object"),
        (lambda header: said(header, b"nothing"), ProtocolError, "no JSON object"),
        (lambda header: said(header, b"{}"), ProtocolError, "no route"),
        (lambda header: said(Header(opaque=header.opaque + 1), b"{}"), ProtocolError, "it answers request"),
        (lambda header: said(header, code=16), ProtocolError, "code 16, 'why not'"),
        (lambda header: said(header, code=2), TimedOut, "code 2"),
        (lambda header: None, TimedOut, "closed in the middle"),
        (lambda header: said(header, b"{}")[:-1], TimedOut, "timed out"),
    ],
)
def test_wrong_answers(answer: Callable[[Header], bytes | None], error: type[OrbitError], message: str) -> None:
    with (
        wrong_server(lambda _, header, __: answer(header)) as address,
        Cluster(Servers(address, 3 if message == "timed out" else 10 if error is TimedOut else 60)) as cluster,
        pytest.raises(error, match=message),
    ):
        cluster.route("t")


def test_a_closed_connection_is_made_again() -> None:
    with (
        wrong_server(lambda number, header, _: None if number < 3 else routed(header, "127.0.0.1:1")) as address,
        Cluster(Servers(address, 60)) as cluster,
    ):
        route = cluster.route("t")
    assert route is not None
    [holder] = route.holders.values()
    assert (holder.address.port, holder.reads) == (1, 1)


def test_the_second_server_answers_for_the_first(broker: orbitmq.Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        gone = f"127.0.0.1:{listening.getsockname()[1]}"
    assert rows(pulled(asked(broker, servers=f"{gone};{broker.status().listens}"))) == rows(mapped(broker))


@contextmanager
def broken_pulls(broker: orbitmq.Broker, change: Callable[[bytearray], None]) -> Iterator[str]:
    """A server of topic "single" whose records are changed."""
    host, _, port = broker.status().listens.rpartition(":")
    with Remote(f"{host}:{port}") as remote:
        own: list[str] = []

        def reply(_: int, header: Header, fields: dict[str, str]) -> bytes:
            if header.code == 105:
                return routed(header, own[0])
            answer = remote.ask(header.code, **fields)
            body = bytearray(answer.body)
            if body:
                change(body)
            return said(header, bytes(body), answer.code, **answer.fields)

        with wrong_server(reply) as address:
            own.append(address)
            yield address


def flip(place: int) -> Callable[[bytearray], None]:
    def change(body: bytearray) -> None:
        body[place] ^= 1

    return change


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (flip(0), ProtocolError, "damaged: a record of"),
        (flip(4), ProtocolError, "unknown magic"),
        (flip(27), ProtocolError, "do not rise"),
        (flip(88), CorruptRecord, "offset"),
    ],
    ids=["size", "magic", "offset", "body"],
)
def test_damaged_records(
    broker: orbitmq.Broker, change: Callable[[bytearray], None], error: type[OrbitError], message: str
) -> None:
    with broken_pulls(broker, change) as address, pytest.raises(error, match=message):
        pulled(asked(broker, "single", servers=address))


def test_messages_that_are_gone(tmp_path: Path) -> None:
    """Planned, then removed by hand: the slice begins before what the queue holds, and ends behind it."""
    with small_broker(tmp_path / "store", listen="127.0.0.1:0") as broker, broker.producer() as producer:
        broker.create_topic("t", 1)
        for number in range(10):
            producer.send("t", b"%d" % number)
        indexed(broker)
        options = asked(broker, timeout="6s")
        beyond = [planning.Slice("t", 0, 4, 12)]
        with pytest.raises(OffsetOutOfRange, match="at offset 10: its broker does not have it any more; 0 to 10") as caught:
            list(remote_slices.read_slices(beyond, options))
        assert caught.value.option == "failOnDataLoss"
        lenient = asked(broker, timeout="6s", failOnDataLoss="false")
        assert sum(batch.num_rows for batch in remote_slices.read_slices(beyond, lenient)) == 6
        gone = [planning.Slice("u", 0, 0, 1)]
        with pytest.raises(UnknownTopic, match=r"'u' from .* it is gone"):
            list(remote_slices.read_slices(gone, options))


def test_files_that_hold_a_range() -> None:
    """Each range lies in one file, whatever its place."""
    for begin in (0, 1, 4095, 1 << 30, (1 << 30) - 7, (1 << 42) - 100, (1 << 42) + 12345):
        for length in (1, 20, 4096, 5 << 20):
            size = pulled_store._span(begin, begin + length)
            assert begin // size == (begin + length - 1) // size
            assert size % 4096 == 0


@pytest.mark.pyspark
def test_spark_reads_a_batch(spark: SparkSession, broker: orbitmq.Broker) -> None:
    def collected(**place: str) -> list[object]:
        frame = spark.read.format("orbitmq").options(subscribe="t,single", minPartitions="4", **place).load()
        assert frame.rdd.getNumPartitions() >= 4
        return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))

    found = collected(servers=broker.status().listens)
    assert len(found) == COUNT + 102
    assert found == collected(path=broker.status().store)
