"""Goal: docs/errors.md, and the tree at the head of orbitmq/errors.py, tell of every error, and of no other. Method: both are
read, and compared with the classes."""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache
from pathlib import Path

import pytest

from orbitmq import errors
from tests.test_tidy import ROOT, sources

PAGE = ROOT / "docs" / "errors.md"
LINE = re.compile(r"^(?P<lines>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: \(also (?P<also>\w+)\))?")
ROW = re.compile(r"^\| `(?P<name>[A-Z]\w+)` \| (?P<when>.+?) \| (?P<attributes>.*?) ?\| (?P<retry>.+?) \|$", re.MULTILINE)

Tree = dict[str, frozenset[str]]


def tree_of_classes() -> Tree:
    """Names of the errors, and of what each derives from."""
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.OrbitError)]
    return {kind.__name__: frozenset(base.__name__ for base in kind.__bases__) - {"Exception"} for kind in kinds}


def tree_in(text: str) -> Tree:
    """The same, out of a drawing."""
    found: Tree = {}
    above: list[str] = []
    for drawn in filter(None, (LINE.match(line) for line in text.splitlines())):
        depth = len(drawn["lines"]) // 4
        parents = {drawn["also"], *above[depth - 1 : depth]} if depth else {drawn["also"]}
        above[depth:] = [drawn["name"]]
        found[drawn["name"]] = frozenset(filter(None, parents))
    return found


def rows() -> dict[str, re.Match[str]]:
    return {row["name"]: row for row in ROW.finditer(PAGE.read_text())}


def test_the_page_draws_the_tree() -> None:
    (drawn,) = re.findall(r"```text\n(OrbitError\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert tree_in(drawn) == tree_of_classes()


def test_the_module_draws_the_tree() -> None:
    text = ast.get_docstring(ast.parse(Path(errors.__file__).read_text())) or ""
    drawn = text[text.index("    OrbitError") :].partition("\n\n")[0]
    assert tree_in(re.sub(r"(?m)^    ", "", drawn)) == tree_of_classes()


def test_every_error_has_one_row() -> None:
    names = [row["name"] for row in ROW.finditer(PAGE.read_text())]
    assert sorted(names) == sorted(tree_of_classes())


def test_also_is_of_python() -> None:
    """Goal: an "also" that no class has is a slip of the pen."""
    also = set(re.findall(r"\(also (\w+)\)", PAGE.read_text()))
    assert also <= {*dir(builtins), *tree_of_classes()}


@cache
def named_values() -> set[str]:
    """Names under which an error may get a value: keywords and keys in Python, those of Py_BuildValue in C."""
    found: set[str] = {"message", "hint", "values"}
    for path in sources(".py"):
        if path.relative_to(ROOT).parts[0] in ("tests", "scripts"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                found |= {word.arg for word in node.keywords if word.arg}
            elif isinstance(node, ast.Dict):
                found |= {key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    for path in sources(".c"):
        for values in re.findall(r"Py_BuildValue\((.*?)\)[,;]|SetAttrString\((.*?)\)", path.read_text(), re.DOTALL):
            found |= set(re.findall(r'"(\w+)"', "".join(values)))
    return found


@pytest.mark.parametrize("name", sorted(rows()))
def test_attributes_are_given(name: str) -> None:
    """Goal: the page promises no attribute that nobody sets. Method: its names against those in the sources."""
    promised = set(re.findall(r"`(\w+)`", rows()[name]["attributes"]))
    assert promised <= named_values()


def test_a_drawing_is_read() -> None:
    """Goal: the comparison can fail. Method: a small tree that is not ours."""
    drawn = "OrbitError\n├── Full (also KeyError)\n│   └── NoMeans    short of something\n└── Closed"
    assert tree_in(drawn) == {
        "OrbitError": frozenset(),
        "Full": frozenset({"OrbitError", "KeyError"}),
        "NoMeans": frozenset({"Full"}),
        "Closed": frozenset({"OrbitError"}),
    }
