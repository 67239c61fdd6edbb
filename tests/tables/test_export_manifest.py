"""Goal: a run's file is read as it was written, and any other content is an error that names the file; the sum of runs is
what a reader may believe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import ExportDamaged
from orbitmq.tables.export.manifest import COMPLETE, PENDING, End, ExportFile, Gap, Mark, Range, Run, decoded
from orbitmq.tables.export.state import State

NUMBERS = st.integers(0, 1 << 62)
QUEUES = st.integers(0, 9)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ENDS = st.dictionaries(NAMES, st.dictionaries(QUEUES, st.builds(End, NUMBERS, st.none() | st.builds(Mark, NUMBERS, NUMBERS))))
RANGES = st.lists(st.builds(Range, QUEUES, NUMBERS, NUMBERS, NUMBERS), max_size=2).map(tuple)
FILES = st.lists(st.builds(ExportFile, NAMES, NAMES, NUMBERS, NUMBERS, RANGES), max_size=2).map(tuple)
GAPS = st.lists(st.builds(Gap, NAMES, QUEUES, NUMBERS, NUMBERS, NUMBERS), max_size=2).map(tuple)
WORDS = st.lists(NAMES, max_size=2).map(tuple)
RUNS = st.builds(
    Run, NUMBERS, st.sampled_from([PENDING, COMPLETE]), NAMES, NAMES, WORDS, WORDS, WORDS, NAMES, ENDS, GAPS, FILES, WORDS
)
PATH = Path("runs/7.json")


@settings(max_examples=50)
@given(RUNS)
def test_a_run_comes_back(run: Run) -> None:
    content = run.encoded()
    assert decoded(PATH, content) == run and content.endswith(b"\n") and content.count(b"\n") == 1
    assert decoded(PATH, run.completed().encoded()).state == COMPLETE


def plain() -> dict[str, Any]:
    run = Run(7, PENDING, "now", "/s", (), (), (), "", {"t": {0: End(5, Mark(1, 2))}}, (Gap("t", 0, 1, 2, 1),), (), ("x/1",))
    content: dict[str, Any] = json.loads(run.encoded())
    return content


@pytest.mark.parametrize("name", sorted(plain()))
@pytest.mark.parametrize("value", [None, 5, "x", [5], {"t": 5}, {"t": {"x": {}}}, [{}], float("inf")])
def test_a_field_that_is_something_else(name: str, value: Any) -> None:
    """It is read, if it can mean something, or refused as damaged; never another exception."""
    for content in ({**plain(), name: value}, {key: each for key, each in plain().items() if key != name}):
        try:
            decoded(PATH, json.dumps(content).encode())
        except ExportDamaged as error:
            assert error.path == str(PATH)


@pytest.mark.parametrize("content", [b"", b"[]", b"5", b"{", b"\xff", b'{"version": 2}', b"[" * 100_000])
def test_what_is_no_run(content: bytes) -> None:
    with pytest.raises(ExportDamaged, match=r"cannot read runs/7\.json"):
        decoded(PATH, content)


def run_of(number: int, replaces: tuple[str, ...] = (), **ends: int) -> Run:
    files = tuple(ExportFile(f"{topic}-{number}", topic, 1, 1, ()) for topic in ends)
    gaps = tuple(Gap(topic, 0, 0, 1, 1) for topic in ends)
    moved = {topic: {number % 2: End(end, None)} for topic, end in ends.items()}
    return Run(number, COMPLETE, "", "", (), (), replaces, "", moved, gaps, files)


def test_the_sum_of_runs() -> None:
    """Queues keep the end of the last run that moved them; what a run replaces no longer counts, of its topics alone."""
    assert State.of([]) == State()
    state = State.of([run_of(1, a=5, b=6), run_of(2, a=7), run_of(3, a=9)])
    assert state.run is not None and state.run.number == 3
    assert {queue: end.offset for queue, end in state.ends["a"].items()} == {1: 9, 0: 7}
    assert [file.path for file in state.files] == ["a-1", "b-1", "a-2", "a-3"]
    state = State.of([run_of(1, a=5, b=6), run_of(2, ("a",), a=7)])
    assert {topic: sorted(ends) for topic, ends in state.ends.items()} == {"b": [1], "a": [0]}
    assert [file.path for file in state.files] == ["b-1", "a-2"] and [gap.topic for gap in state.gaps] == ["b", "a"]
