"""Goal: options that cannot be are refused with the option's name and what would do. Method: each mistake once."""

from __future__ import annotations

import pytest

from orbitmq.errors import SettingError
from orbitmq.spark.columns import COLUMNS
from orbitmq.spark.options import EARLIEST, LATEST, parse

PLAIN = {"path": "/store", "subscribe": "orders"}


def test_defaults() -> None:
    options = parse({"PATH": "/store", "subscribe": " orders, bills ,orders"})
    assert (options.path, options.broker, options.topics) == ("/store", None, ("orders", "bills"))
    assert options.columns == tuple(name for name in COLUMNS if name != "headers")
    assert (options.starting.of("orders", 0), options.ending.of("bills", 3)) == (EARLIEST, LATEST)
    assert (options.min_partitions, options.max_records) == (0, 0)


def test_offsets_of_single_queues() -> None:
    options = parse({**PLAIN, "startingOffsets": '{"orders": {"1": 17, "2": -1}}', "endingOffsets": '{"orders": {"0": 5}}'})
    assert [options.starting.of("orders", queue) for queue in range(3)] == [EARLIEST, 17, LATEST]
    assert [options.ending.of("orders", queue) for queue in range(2)] == [5, LATEST]


@pytest.mark.parametrize(
    ("change", "option", "names"),
    [
        ({"subscribe": " , "}, "subscribe", "names nothing"),
        ({"broker": "b"}, "path", "both"),
        ({"path": None}, "path", "neither"),
        ({"subscrib": "x"}, "subscrib", "subscribe"),
        ({"startingOffsets": "latest"}, "startingOffsets", "earliest"),
        ({"endingOffsets": "earliest"}, "endingOffsets", "latest"),
        ({"startingOffsets": "yesterday"}, "startingOffsets", "JSON"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "startingOffsets", "JSON"),
        ({"startingOffsets": '{"orders": [1]}'}, "startingOffsets", "JSON"),
        ({"endingOffsets": '{"bills": {"0": 1}}'}, "endingOffsets", "bills"),
        ({"columns": "value,body"}, "columns", "physical_offset"),
        ({"columns": "value,value"}, "columns", "twice"),
        ({"minPartitions": "0"}, "minPartitions", "at least 1"),
        ({"maxRecordsPerPartition": "many"}, "maxRecordsPerPartition", "at least 1"),
    ],
)
def test_refused(change: dict[str, str | None], option: str, names: str) -> None:
    given = {name: value for name, value in {**PLAIN, **change}.items() if value is not None}
    with pytest.raises(SettingError, match=names) as caught:
        parse(given)
    assert caught.value.option == option and option in str(caught.value)
