"""Goal: a filter in C says what RocketMQ's says, of every message, and takes the same texts; docs/filters.md has exceptions.

Method: random filters and messages, compared with an evaluator in plain Python (sql_model.py). The usual run compares some
80,000, in two seconds; this compares more than a million in half a minute:

    SQL_PAIRS=1200000 .venv/bin/python -m pytest tests/native/test_sql.py -k as_the_model

Then the cases that a reader of docs/filters.md would try.
"""

from __future__ import annotations

import os
import random

import pytest

from orbitmq.native._core import ffi, lib
from orbitmq.shm.sql_text import SqlFault, sql_or_fault
from tests.native import sql_model

PAIRS = int(os.environ.get("SQL_PAIRS", "80000"))
SEED = int(os.environ.get("SQL_SEED", "0")) or random.randrange(1, 1 << 32)
RESULTS = {lib.SQL_FALSE: "FALSE", lib.SQL_TRUE: "TRUE", lib.SQL_NULL: "NULL", lib.SQL_ERROR: "ERROR"}
MESSAGES = 10  # of one filter
BATCHES = 4


def program(text: str) -> ffi.CData | None:
    """None: it is no filter, for a reason that is said."""
    fault, data = ffi.new("struct sql_fault *"), text.encode()
    made = lib.sql_compile(data, len(data), fault)
    if made != ffi.NULL:
        return ffi.gc(made, lib.sql_free)
    assert (fault.expected != ffi.NULL) != (fault.why != ffi.NULL)
    assert fault.at + fault.size <= len(data)
    return None


def evaluated(made: ffi.CData, properties: dict[str, str]) -> str:
    """The properties lie in memory of exactly their size."""
    data = "\2".join(f"{name}\1{value}" for name, value in properties.items()).encode()
    return RESULTS[lib.sql_evaluate(made, data, len(data))]


def result(text: str, **properties: str) -> str:
    made = program(text)
    assert made is not None
    found = evaluated(made, properties)
    assert found == sql_model.result(sql_model.compiled(text), properties)
    return found


@pytest.mark.parametrize("batch", range(BATCHES))
def test_as_the_model(batch: int) -> None:
    rng = random.Random(SEED + batch)
    counts: dict[str, int] = {}
    for _ in range(PAIRS // MESSAGES // BATCHES):
        text = sql_model.any_text(rng)
        try:
            model = sql_model.compiled(text)
        except sql_model.Refused:
            model = None
        made = program(text)
        assert (made is None) == (model is None), f"seed {SEED}, batch {batch}: {text!r}"
        counts["refused"] = counts.get("refused", 0) + (made is None)
        if made is None or model is None:
            continue
        for _ in range(MESSAGES):
            of = sql_model.any_message(rng)
            expected = sql_model.result(model, of)
            assert evaluated(made, of) == expected, f"seed {SEED}, batch {batch}: {text!r} of {of}"
            counts[expected] = counts.get(expected, 0) + 1
    assert {"TRUE", "FALSE", "NULL", "ERROR", "refused"} == {kind for kind, count in counts.items() if count > 5}, counts


@pytest.mark.parametrize(
    ("text", "properties", "expected"),
    [
        ("price > 100", {"price": "101"}, "TRUE"),
        ("price > 100", {"price": "100"}, "FALSE"),
        ("price > 100", {}, "NULL"),
        ("price > 100", {"price": "100.5"}, "ERROR"),  # no int
        ("price > 100.0", {"price": "100.5"}, "TRUE"),
        ("price > 100", {"price": "3000000000"}, "ERROR"),  # 100 is an int, as in RocketMQ
        ("price > 3000000000", {"price": "3000000001"}, "TRUE"),
        ("price > 100.0", {"price": "3000000000"}, "TRUE"),
        ("price = 'x' OR region = 'eu'", {"price": "1", "region": "eu"}, "TRUE"),
        ("price > 1 OR region = 'eu'", {"price": "x", "region": "eu"}, "ERROR"),
        ("region = 'eu' OR price > 1", {"price": "x", "region": "eu"}, "TRUE"),
        ("a <> 'x'", {}, "NULL"),
        ("NOT (a = 'x')", {}, "NULL"),
        ("a IS NULL", {}, "TRUE"),
        ("a IS NOT NULL", {"a": "1"}, "TRUE"),
        ("a = b", {}, "TRUE"),
        ("a = b", {"a": "1"}, "FALSE"),
        ("a = b", {"b": "1"}, "NULL"),
        ("a < b", {"a": "9", "b": "10"}, "TRUE"),  # two properties under < are doubles
        ("a IN ('x', 'y''s')", {"a": "y's"}, "TRUE"),
        ("a NOT IN ('x')", {}, "NULL"),
        ("a NOT CONTAINS 'x'", {}, "FALSE"),
        ("a CONTAINS ''", {"a": "x"}, "FALSE"),
        ("a between 1 and 3", {"a": "3"}, "TRUE"),
        ("a not between 1 and 3", {"a": "4"}, "TRUE"),
        ("TAGS = 'paid'", {"TAGS": "paid"}, "TRUE"),
        ("vip = TRUE", {"vip": "True"}, "TRUE"),
        ("vip", {"vip": "true"}, "FALSE"),
        ("TRUE -- all", {}, "TRUE"),
        ("/* none */ FALSE", {}, "FALSE"),
    ],
)
def test_meanings(text: str, properties: dict[str, str], expected: str) -> None:
    assert result(text, **properties) == expected


@pytest.mark.parametrize(
    ("text", "column", "found", "expected", "why"),
    [
        ("price >> 100", 8, ">", "a property, a number", "found '>'"),
        ("price > ", 9, "", "a property, a number", "the text ends"),
        ("", 1, "", "a property", "the text ends"),
        ("a = 'x", 5, "'x", None, "closing quote"),
        ("a IN (1, 2)", 7, "1", "a text in single quotes", "found '1'"),
        ("grün = 1", 3, "ü", None, "no such character"),
        ("a > 'x'", 5, "'x'", None, "order"),
        ("a = NULL", 5, "NULL", None, "equals nothing"),
        ("NOT a = 1", 1, "NOT a", None, "NOT belongs"),
        ("a = 1 b", 7, "b", "an operator, AND, OR or the end", "found 'b'"),
        ("(a = 1", 7, "", "an operator, AND, OR or )", "the text ends"),
        ("a BETWEEN 3 AND 1", 11, "3 AND 1", None, "lower bound"),
        ("a > 9223372036854775808", 5, "9223372036854775808", None, "greater than"),
        ("a > 1e999", 5, "1e999", None, "too large"),
        ("1", 1, "1", None, "neither true nor false"),
        ("a /* b", 3, "/* b", None, "comment"),
        ('a = "x"', 5, '"', None, "single quotes"),
        ("a > 5x", 5, "5x", None, "neither a number"),
        ("-a > 5", 2, "a", None, "only a number"),
    ],
)
def test_faults(text: str, column: int, found: str, expected: str | None, why: str) -> None:
    """Each names the place, what is there, and what was expected; the carets stand under it."""
    fault = sql_or_fault(text)
    assert isinstance(fault, SqlFault)
    assert (fault.column, fault.found) == (column, found)
    assert why in fault.why and (fault.expected or "").startswith(expected or "")
    line, carets = fault.picture.split("\n")
    assert line == f"    {text}"
    assert carets == "    " + " " * (column - 1) + "^" * max(1, len(found))


def test_limits() -> None:
    """Just within each limit, and one more."""
    for most, one_more in [
        ("(" * 63 + "TRUE" + ")" * 63, "(" * 64 + "TRUE" + ")" * 64),
        (" AND ".join(f"p{i} = 1" for i in range(64)), " AND ".join(f"p{i} = 1" for i in range(65))),
        ("TRUE" + " " * (65536 - 4), "TRUE" + " " * (65536 - 3)),
        (" OR ".join(["a IS NULL"] * 1600), " OR ".join(["a IS NULL"] * 1700)),
    ]:
        made = program(most)
        assert made is not None
        evaluated(made, {})
        assert program(one_more) is None


def test_long_lists() -> None:
    """A list of thousands of texts finds each of them, and nothing else."""
    made = program("a IN (" + ", ".join(f"'{i}'" for i in range(0, 8000, 2)) + ")")
    assert made is not None
    for i in range(8000):
        assert evaluated(made, {"a": str(i)}) == ("FALSE" if i % 2 else "TRUE")


def test_the_last_of_equal_names_counts() -> None:
    made = program("a = '2'")
    assert made is not None
    for data, expected in [(b"a\x011\x02a\x012", "TRUE"), (b"a\x012\x02a\x011\x02", "FALSE"), (b"a\x01\x02\x02b", "NULL")]:
        assert RESULTS[lib.sql_evaluate(made, data, len(data))] == expected
