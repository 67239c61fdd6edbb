"""Goal: every memory-order edge of native/ is held by a litmus test, and both say the same as the sources.

Method: the model decides each test of native/litmus as it stands and with each of its orders weakened; the index
(native/README.md), the labels in the sources' comments and the lines that the tests quote are compared as text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.native.litmus.model import allows, runs
from tests.native.litmus.program import load, weakened

NATIVE = Path(__file__).parents[3] / "native"
TESTS = sorted((NATIVE / "litmus").glob("*.litmus"))
INDEX = (NATIVE / "README.md").read_text()
LABEL = re.compile(r"\[(?:edge )?([A-Z]\d(?:(?:, |-)[A-Z]\d)*)\]")
ROW = re.compile(r"^\| ([A-Z]\d(?:, [A-Z]\d)*) \|", re.MULTILINE)


def sources() -> dict[str, str]:
    return {path.name: path.read_text() for path in [*NATIVE.rglob("*.[ch]")] if path.parent.name not in ("sanitize", "cdef")}


def operations(text: str) -> list[int]:
    """Numbers of the lines after the comment that have a memory order."""
    head = text[: text.index("*)")].count("\n") + 1
    return [number for number, line in enumerate(text.splitlines(), 1) if number > head and "memory_order_" in line]


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_the_outcome_is_impossible(path: Path) -> None:
    program = load(path)
    assert program.name == path.stem
    assert runs(program), "nothing runs, so nothing is shown"
    assert program.forbidden
    assert not allows(program)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_just_the_orders_called_needed_are(path: Path) -> None:
    """Goal: no test passes by accident, and none claims more than is true. Method: one order weakened at a time."""
    program = load(path)
    needed = [line for line in operations(program.text) if any(allows(weaker) for _, weaker in weakened(program, line))]
    assert program.needed == needed


def body(text: str, function: str) -> str | None:
    """A function of a C source, to its closing brace. None: there is none of this name."""
    whole = rf"^[a-z][^\n;=]*\b{function}\([^;]*?\)\n?\s*\{{.*?^\}}"
    of_one_line = rf"^[a-z][^\n;=]*\b{function}\([^;\n]*\) \{{[^\n]*\}}$"
    found = re.search(f"{whole}|{of_one_line}", text, re.MULTILINE | re.DOTALL)
    return found.group() if found else None


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_quoted_lines_stand_where_they_are_quoted_from(path: Path) -> None:
    """Goal: a litmus test describes the code as it is. Method: each 'file, function: text' of its comment is looked up."""
    comment = path.read_text().partition("(*")[2].partition("*)")[0]
    quotes = re.findall(r"^ +(\w+\.[ch]), (\w+): (.+?)\s*$", comment, re.MULTILINE)
    assert quotes
    texts = sources()
    for file, function, quote in quotes:
        code = body(texts[file], function)
        assert code is not None, f"{file} has no function {function}"
        assert " ".join(quote.split()) in " ".join(code.split()), f"{function} in {file} does not say: {quote}"


def labels_of(text: str) -> set[str]:
    return {label for labels in LABEL.findall(text) for label in re.split(", |-", labels)}


def test_the_index_lists_every_edge_and_every_test() -> None:
    indexed = {label for row in ROW.findall(INDEX) for label in row.split(", ")}
    in_sources: dict[str, set[str]] = {}
    for name, text in sources().items():
        for label in labels_of(text):
            in_sources.setdefault(label, set()).add(name)
    assert indexed == set(in_sources)
    cells = [line.rpartition(" | ")[2] for line in INDEX.splitlines() if ROW.match(line)]
    listed = {name for cell in cells for name in re.findall(r"`([a-z_]+)`", cell)}
    assert listed == {path.stem for path in TESTS}


def test_each_edge_is_named_where_the_index_says() -> None:
    """Goal: a reader who follows the index finds the label. Method: for each row its functions exist, and each of its files,
    both halves, has a label of the row."""
    texts = sources()
    for line in INDEX.splitlines():
        row = ROW.match(line)
        if row is None:
            continue
        places = re.findall(r"`(\w+)` in \[([\w.]+)\]", line)
        assert len(places) >= 2, line
        for function, file in places:
            assert body(texts[file], function) is not None, f"{file} has no function {function}"
        wanted = set(row.group(1).split(", "))
        named = {}
        for _, file in places:
            named[file] = wanted & labels_of(texts[file])
            assert named[file], f"{file} names no edge of: {line}"
        assert set().union(*named.values()) == wanted, line
