"""Goal: with servers, starts and ends by time are the offsets that they are with path, whatever the broker's own answer is.
Method: a gateway beside the store's folder; and a search over lists of times from every guess."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import orbitmq
from orbitmq.errors import OffsetOutOfRange
from orbitmq.spark.servers.cluster import Cluster
from orbitmq.spark.source.options import SourceOptions, parse
from orbitmq.spark.source.remote_moments import first_late
from orbitmq.spark.source.snapshot import of_options, settled
from tests.spark.test_servers import pulled, rows
from tests.trees import indexed, small_broker

COUNT = 400


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path_factory.mktemp("moments") / "store", listen="127.0.0.1:0") as broker:
        broker.create_topic("t", 3)
        broker.create_topic("empty", 1)
        with broker.producer() as producer:
            for number in range(COUNT):
                producer.send("t", b"%d" % number, queue=min(2, number % 5))
        indexed(broker)
        yield broker


@pytest.fixture(scope="module")
def times(broker: orbitmq.Broker) -> list[int]:
    """When messages were stored, each time once."""
    found = pulled(asked(broker, columns="timestamp")).column("timestamp").to_pylist()
    return sorted({round(each.timestamp() * 1000) for each in found})


def asked(broker: orbitmq.Broker, place: str = "servers", **options: str) -> SourceOptions:
    status = broker.status()
    where = {"servers": status.listens} if place == "servers" else {"path": status.store, "read": "appended"}
    return parse({**where, "subscribe": "t", **options})


def offsets_of(options: SourceOptions) -> list[object]:
    found = settled(of_options(options), options)
    return [found.starting.each, found.ending.each]


def test_the_same_offsets_as_from_the_folder(broker: orbitmq.Broker, times: list[int]) -> None:
    rng = random.Random(1)
    assert len(times) > 3
    for begin in [times[0] - 5, times[0], *rng.sample(times, 3), times[-1], times[-1] + 1]:
        end = begin + rng.randrange(50)
        options = {"startingTimestamp": str(begin), "endingTimestamp": str(end), "startingOffsetsByTimestampStrategy": "latest"}
        assert offsets_of(asked(broker, **options)) == offsets_of(asked(broker, "path", **options))


@pytest.mark.parametrize("wrong", [-1000, -30, -1, 1, 2, 30, 1000])
def test_a_broker_that_answers_with_a_neighbour(
    broker: orbitmq.Broker, times: list[int], monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    """As RocketMQ 4.9 does."""
    options = {"startingTimestamp": str(times[len(times) // 2])}
    expected = offsets_of(asked(broker, "path", **options))
    real = Cluster.offset_at
    monkeypatch.setattr(Cluster, "offset_at", lambda self, place, moment: max(0, real(self, place, moment) + wrong))
    assert offsets_of(asked(broker, **options)) == expected


def test_rows_since_a_time(broker: orbitmq.Broker, times: list[int]) -> None:
    moment = times[len(times) // 3]
    options = asked(
        broker, startingOffsetsByTimestamp=f'{{"t": {{"0": {moment}}}}}', columns="topic,partition,offset,timestamp"
    )
    found = rows(pulled(settled(of_options(options), options)))
    whole = rows(pulled(asked(broker, columns="topic,partition,offset,timestamp")))
    late = [row for row in whole if row["partition"] != 0 or row["timestamp"].timestamp() * 1000 >= moment]  # type: ignore[attr-defined]
    assert found == late and len(late) < len(whole)


def test_no_message_so_late(broker: orbitmq.Broker, times: list[int]) -> None:
    with pytest.raises(OffsetOutOfRange, match="no message was stored since"):
        offsets_of(asked(broker, startingTimestamp=str(times[-1] + 1)))
    assert offsets_of(asked(broker, subscribe="empty", endingTimestamp="1")) == [{}, {"empty": {0: 0}}]


def test_searches_from_every_guess() -> None:
    for size in (1, 2, 3, 10, 33):
        for place in range(size + 1):
            for guess in range(-2, size + 3):
                looked: list[int] = []

                def late(offset: int, place: int = place, looked: list[int] = looked) -> bool:
                    looked.append(offset)
                    return offset >= 7 + place

                assert first_late(7 + guess, (7, 7 + size), late) == 7 + place
                assert len(set(looked)) == len(looked) and all(7 <= each < 7 + size for each in looked)
                if guess == place:
                    assert len(looked) <= 2
