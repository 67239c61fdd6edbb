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
    whole = rf"^[A-Za-z][^\n;=]*\b{function}\([^;]*?\)\n?\s*\{{.*?^\}}"
    of_one_line = rf"^[A-Za-z][^\n;=]*\b{function}\([^;\n]*\) \{{[^\n]*\}}$"
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


def spoken(text: str, function: str) -> str:
    """A function with the comment above it."""
    code = body(text, function) or ""
    comment = re.search(r"/\*(?:(?!\*/).)*\*/\s*\Z", text[: text.index(code)], re.DOTALL)
    return (comment.group() if comment else "") + code


def gaps(line: str, texts: dict[str, str]) -> list[str]:
    """What is wrong with a row of the index: both halves must exist, and name an edge of the row; together they name all."""
    places = re.findall(r"`(\w+)` in \[([\w.]+)\]", line)
    wanted, named = set(line.removeprefix("| ").partition(" |")[0].split(", ")), set()
    wrong = [] if len(places) >= 2 else ["there are not two halves"]
    for function, file in places:
        found = wanted & labels_of(spoken(texts[file], function))
        named |= found
        if not found:
            wrong.append(f"{function} in {file} names none of these edges")
    return [f"{each}: {line}" for each in wrong + [f"{label} is named nowhere" for label in sorted(wanted - named)]]


def test_each_edge_is_named_where_the_index_says() -> None:
    """Goal: a reader who follows the index finds the label. Method: both halves of each row, with the comments above them."""
    texts = sources()
    wrong = [gap for line in INDEX.splitlines() if ROW.match(line) for gap in gaps(line, texts)]
    assert not wrong, "\n".join(wrong)


def test_a_half_without_its_label_is_seen() -> None:
    """Goal: the test above can fail. Method: sources in which one half has lost its label, or its function."""
    line = next(line for line in INDEX.splitlines() if line.startswith("| R1 |"))
    texts = sources()
    assert not gaps(line, texts)
    for told in ("acquire in ring_peek [edge R1]", "release in ring_publish [edge R1]", "ring_publish(struct"):
        assert texts["ring.c"].count(told) == 1
        assert gaps(line, texts | {"ring.c": texts["ring.c"].replace(told, "")})


def test_the_map_leads_to_functions_that_are_there() -> None:
    """Goal: "where is it?" in native/README.md is answered truly. Method: each `function` in [file](path) is looked up."""
    places = re.findall(r"`(\w+)` in \[[\w./]+\]\(([\w./]+)\)", INDEX)
    assert len(places) > 80
    for function, path in places:
        text = (NATIVE / path).read_text()
        found = body(text, function) if path.endswith((".c", ".h")) else re.search(rf"^ *def {function}\(", text, re.MULTILINE)
        assert found, f"{path} has no function {function}"
