"""Goal: orbitmq.dataset gives exactly the messages that were asked for, with all that was stored, without Spark. Method: stores
made by hand, and a comprehension over what was put into them. Here it is also seen that source/slice_reader.py needs no
PySpark: conftest.py refuses its import."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import orbitmq
from orbitmq import errors
from orbitmq.tables.columns import COLUMNS, schema
from orbitmq.tables.slice_reader import read_slices
from tests.tables.stored_topics import Row, StoredTopics

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OWN = ("%RETRY%billing", "SCHEDULE_TOPIC_XXXX", "DefaultCluster_REPLY_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC")
TOPICS = ("orders", "bills", "empty", *OWN)
EVERY = tuple(name for name in COLUMNS if name != "headers")


def _price(row: Row) -> int:
    return row[9] % 11


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredTopics:
    stored = StoredTopics(tmp_path_factory.mktemp("dataset") / "store")
    for topic, queues in zip(TOPICS, (3, 1, 2, 1, 1, 1, 1), strict=True):
        stored.add(topic, queues)
    for number in range(400):
        tags, keys = (None, None) if number % 3 == 0 else (f"tag{number % 5}", f"k{number} of{number % 7}")
        price = {"price": str(number % 11)}
        stored.send("orders", b"%d" % number * (number % 40), tags=tags, keys=keys, flag=number, properties=price)
        if number % 10 == 0:
            stored.send("bills", b"", keys="\u00e4", flag=number, properties=price)
        if number % 40 == 0:
            for topic in OWN:
                stored.send(topic, b"own", flag=number, properties=price)
    return stored


def rows(batches: Any) -> list[Row]:
    """Of batches with every column, sorted like those of the store."""
    found = []
    for batch in batches:
        for row in batch.to_pylist():
            times = ((row[name] - _EPOCH) // timedelta(milliseconds=1) for name in ("timestamp", "born_timestamp"))
            place = row["topic"], row["partition"], row["offset"]
            found.append((*place, row["value"], row["tags"], row["keys"], *times, row["physical_offset"], row["flag"]))
    return sorted(found)


def moment_ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


ENDS = st.none() | st.integers(-5, 445)


@settings(max_examples=60, deadline=None)
@given(
    topics=st.none() | st.lists(st.sampled_from(TOPICS), min_size=1, unique=True),
    start=ENDS,
    end=ENDS,
    tags=st.none() | st.lists(st.integers(0, 5), min_size=1).map(lambda numbers: " || ".join(f"tag{n}" for n in numbers)),
    dearer=st.none() | st.integers(0, 11),
    columns=st.none() | st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, unique=True),
)
def test_what_was_asked_for_and_nothing_else(
    stored: StoredTopics,
    topics: list[str] | None,
    start: int | None,
    end: int | None,
    tags: str | None,
    dearer: int | None,
    columns: list[str] | None,
) -> None:
    """Random questions. start, end: which message's store time."""
    times = [row[6] for row in stored.rows]
    since, until = (None if at is None else times[0] + at for at in (start, end))
    named: dict[str, Any] = {"tags": tags, "sql": None if dearer is None else f"price > {dearer}"}
    named |= {"start": None if since is None else moment(since), "end": None if until is None else moment(until).isoformat()}
    if since is not None and until is not None and since > until:
        with pytest.raises(errors.SettingError, match="the end lies before the start"):
            orbitmq.dataset(stored.root, topics, **named)
        return
    wanted = [
        row
        for row in stored.of(*(topics or ("orders", "bills")))
        if (since is None or row[6] >= since)
        and (until is None or row[6] < until)
        and (tags is None or row[4] in tags.split(" || "))
        and (dearer is None or _price(row) > dearer)
    ]
    found = orbitmq.dataset(stored.root, topics, **named)
    assert rows(found) == wanted
    narrow = orbitmq.dataset(stored.root, topics, columns=columns, **named)
    assert narrow.schema == schema(columns or EVERY)
    table = narrow.to_table()
    assert table.schema == narrow.schema and table.num_rows == len(wanted)
    assert table.to_pylist() == found.to_table().select(columns).to_pylist() if columns and "headers" not in columns else True


def test_it_is_read_again_and_again(stored: StoredTopics) -> None:
    """Goal: a dataset is no cursor. Method: two readings at a time, then the same by other calls."""
    found = orbitmq.dataset(stored.root)
    assert found.topics == ("bills", "empty", "orders") and found.offsets == len(stored.of("orders", "bills"))
    one, other = found.to_batches(), iter(found)
    assert next(one).equals(next(other))
    whole = stored.of("orders", "bills")
    assert rows(found) == rows(found.to_reader()) == rows([found.to_table()]) == whole
    assert "3 topics" in repr(found) and str(stored.root) in repr(found)


LIBRARIES: dict[str, Callable[[Any], Any]] = {
    "arrow": pa.table,
    "polars": lambda found: polars.DataFrame(found).to_arrow(),
    "duckdb": lambda found: duckdb.sql("select * from found").to_arrow_table(),
    "pandas": lambda found: pa.Table.from_pandas(found.to_table().to_pandas()),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_other_libraries_see_the_same(stored: StoredTopics, library: str) -> None:
    found = orbitmq.dataset(stored.root)
    table = LIBRARIES[library](found)
    assert table.column_names == list(EVERY)
    assert rows(table.to_batches()) == stored.of("orders", "bills")
    assert [dict(row or ()) for row in table["properties"].to_pylist()] == [
        dict(row) for row in found.to_table()["properties"].to_pylist()
    ]


@pytest.mark.parametrize(
    ("named", "kind", "told"),
    [
        ({"topics": "orders"}, errors.SettingError, r"write topics=\['orders'\]"),
        ({"topics": []}, errors.SettingError, "the list of topics is empty"),
        ({"topics": ["ordres"]}, errors.UnknownTopic, "'ordres'.* no such topic; it has .*orders"),
        ({"topics": ["a b"]}, errors.TopicNameError, "is not allowed"),
        ({"columns": "value"}, errors.SettingError, r"write columns=\['value'\]"),
        ({"columns": []}, errors.SettingError, "the list of columns is empty"),
        ({"columns": ["body"]}, errors.SettingError, "'body': there is no such column; the columns are key, value, topic"),
        ({"columns": ["value", "value"]}, errors.SettingError, "'value': it is named twice"),
        ({"start": "yesterday"}, errors.SettingError, "start 'yesterday': it is not a time"),
        ({"end": 17}, errors.SettingError, "end 17: it is not a time"),
        ({"tags": "a||"}, errors.SettingError, "a tag is empty"),
        ({"sql": "price >"}, errors.FilterError, "the text ends"),
        ({"read": "all"}, errors.SettingError, "could not read messages that are 'all': they must be 'flushed' or 'appended'"),
    ],
)
def test_mistakes_are_told(stored: StoredTopics, named: dict[str, Any], kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=f"(?s){told}"):
        orbitmq.dataset(stored.root, **named)


def test_no_store_and_no_broker(tmp_path: Path) -> None:
    with pytest.raises(errors.SettingError, match="it is not a folder; give the folder that the broker was started with"):
        orbitmq.dataset(tmp_path / "nothing")
    with pytest.raises(errors.BrokerNotRunning, match="give a store by the path of its folder"):
        orbitmq.dataset("nobody-runs-this")


def test_moments_without_a_zone_are_of_this_machine(stored: StoredTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    here = moment(stored.rows[200][6]).astimezone().replace(tzinfo=None)
    wanted = [row for row in stored.of("orders") if row[6] >= stored.rows[200][6]]
    assert rows(orbitmq.dataset(stored.root, ["orders"], start=here)) == wanted
    assert rows(orbitmq.dataset(stored.root, ["orders"], start=here.isoformat())) == wanted
    assert not rows(orbitmq.dataset(stored.root, ["orders"], start=here + timedelta(days=9)))
    after = here + timedelta(microseconds=1)
    assert rows(orbitmq.dataset(stored.root, ["orders"], start=after)) == [row for row in wanted if row[6] > moment_ms(after)]
    assert rows(orbitmq.dataset(stored.root, ["orders"], start="0001-01-01T00:00:00+00:00")) == stored.of("orders")


@pytest.fixture
def shortened(tmp_path: Path) -> StoredTopics:
    """Several log files of two queues."""
    stored = StoredTopics(tmp_path / "store")
    stored.add("t", 2)
    for number in range(200):
        stored.send("t", b"%d" % number + bytes(1000))
    return stored


def test_what_retention_removes_is_told(shortened: StoredTopics, caplog: pytest.LogCaptureFixture) -> None:
    """Goal: nothing is missing without a word. Method: the oldest log file goes after the dataset was made."""
    strict = orbitmq.dataset(shortened.root)
    lenient = orbitmq.dataset(shortened.root, allow_gaps=True)
    (shortened.root / "commitlog" / f"{0:020d}").unlink()
    left = [row for row in shortened.of("t") if row[8] >= 1 << 16]
    for read in (strict.to_table, lambda: list(strict), lambda: strict.to_reader().read_all()):
        with pytest.raises(errors.OffsetOutOfRange, match=r"retention has removed it.*allow_gaps=True") as caught:
            read()
    assert (caught.value.topic, caught.value.queue) == ("t", 0) and "failOnDataLoss" not in str(caught.value)
    with pytest.raises(polars.exceptions.ComputeError, match=r"retention has removed it.*allow_gaps=True"):
        polars.DataFrame(strict)
    with caplog.at_level(logging.WARNING, "orbitmq"):
        assert rows(lenient) == left
    assert f"{200 - len(left)} messages" not in caplog.text and caplog.text.count("messages are left out") == 2
    assert rows(orbitmq.dataset(shortened.root)) == left


def test_damage_is_told(shortened: StoredTopics) -> None:
    shortened.spoil_body(shortened.rows[7][8])
    with pytest.raises(errors.CorruptRecord) as caught:
        orbitmq.dataset(shortened.root, allow_gaps=True).to_table()
    assert caught.value.offset == shortened.rows[7][8]
    assert orbitmq.dataset(shortened.root, columns=["offset"]).to_table().num_rows == 200


def test_a_batch_has_a_bound(shortened: StoredTopics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.tables.dataset.BATCH_ROWS", 7)
    batches = list(orbitmq.dataset(shortened.root))
    assert max(batch.num_rows for batch in batches) == 7 and sum(batch.num_rows for batch in batches) == 200
    assert not list(read_slices(str(shortened.root), (1 << 16, 1000), (), orbitmq.dataset(shortened.root)._options))


def test_pyarrow_is_all_it_needs(stored: StoredTopics) -> None:
    """Method: a fresh interpreter in which everything else cannot be imported; and one without pyarrow."""
    program = "; ".join(
        (
            "import sys",
            "sys.modules.update(dict.fromkeys(sys.argv[2:]))",
            "import orbitmq",
            "print(orbitmq.dataset(sys.argv[1], columns=list(orbitmq.tables.columns.COLUMNS)).to_table().num_rows)",
        )
    )
    program = program.replace("import orbitmq;", "import orbitmq, orbitmq.tables.columns;")

    def run(*without: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, str(stored.root), *without]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = run("pyspark", "py4j", "pandas", "numpy", "duckdb", "polars")
    assert done.stdout == f"{len(stored.of('orders', 'bills'))}\n", done.stderr
    assert "pip install 'orbitmq[arrow]'" in run("pyarrow").stderr
