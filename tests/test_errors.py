"""Goal: docs/errors.md, and the tree at the head of orbitmq/errors/__init__.py, tell of every error, and of no other. Method:
both are read, and compared with the classes. And: errors carry what they say as attributes, in every process."""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import pickle
import re
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgpack
import pytest

from orbitmq import errors
from orbitmq.actors.actor import ActorError
from orbitmq.errors.remedy import hint
from orbitmq.shm.frames import error_map, error_raised
from tests.sources import ROOT, sources
from tests.syntax import nodes, of_all_sources

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
        for node in nodes(path.read_text()):
            if isinstance(node, ast.Call):
                found |= {word.arg for word in node.keywords if word.arg}
            elif isinstance(node, ast.Dict):
                found |= {key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    for path in sources(".c"):
        for values in re.findall(r"Py_BuildValue\((.*?)\)[,;]|SetAttrString\((.*?)\)", path.read_text(), re.DOTALL):
            found |= set(re.findall(r'"(\w+)"', "".join(values)))
    return found


@of_all_sources
@pytest.mark.parametrize("name", sorted(rows()))
def test_attributes_are_given(name: str) -> None:
    """Goal: the page promises no attribute that nobody sets. Method: its names against those in the sources."""
    promised = set(re.findall(r"`(\w+)`", rows()[name]["attributes"]))
    assert promised <= named_values()


SENT = {"hint", "sent", "pending"}  # of every error: the page has them in tables of their own
IN_C = re.compile(r'py_raise\(\s*"(\w+)",(?:[^;"]|"[^"]*")*?Py_BuildValue\(\s*"\{[^"]*\}"((?:[^;"]|"\w+"\s*,)*)', re.DOTALL)


def given_in_python(tree: tuple[ast.AST, ...]) -> Iterator[tuple[str, str]]:
    """Class and attribute of each keyword with which an error is made."""
    names = {kind.__name__ for kind in KINDS}
    for node in tree:
        if isinstance(node, ast.Call):
            made = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if made in names:
                yield from ((made, word.arg) for word in node.keywords if word.arg and word.arg not in SENT)


def given_in_c(text: str) -> Iterator[tuple[str, str]]:
    """The same, of each key of the dictionary that an error is raised with."""
    for made, values in IN_C.findall(text):
        yield from ((made, name) for name in re.findall(r'"(\w+)"\s*,\s*(?:"\w+")?', values))


def test_attributes_in_the_sources_are_found() -> None:
    """Goal: the search below sees what there is. Method: a call of each language."""
    code = "raise errors.Full('no', hint='wait', limit='window')\nother(size=7)"
    assert list(given_in_python(nodes(code))) == [("Full", "limit")]
    code = 'return py_raise("Full", "raise {x}", Py_BuildValue("{s:s,s:I}", "limit", "window", "size", n), "no %s", "most");'
    assert list(given_in_c(code)) == [("Full", "limit"), ("Full", "size")]
    assert ("PropertiesTooLarge", "size") in {each for path in sources(".c") for each in given_in_c(path.read_text())}


@of_all_sources
def test_attributes_are_told() -> None:
    """Goal: every attribute that users may meet is in the row of its class. Method: the keywords of each class, and those with
    which the sources make errors, against the page."""
    found = {
        (kind.__name__, word.name)
        for kind in KINDS
        if kind is not errors.OrbitError and "__init__" in vars(kind)
        for word in inspect.signature(kind).parameters.values()
        if word.kind is word.KEYWORD_ONLY
    }
    for path in sources(".py", ".c"):
        if path.relative_to(ROOT).parts[0] not in ("tests", "scripts"):
            text = path.read_text()
            found |= set(given_in_c(text) if path.suffix == ".c" else given_in_python(nodes(text)))
    told = {(name, each) for name, row in rows().items() for each in re.findall(r"`(\w+)`", row["attributes"])}
    assert not sorted(found - told), "docs/errors.md does not name these"


def test_a_drawing_is_read() -> None:
    """Goal: the comparison can fail. Method: a small tree that is not ours."""
    drawn = "OrbitError\n├── Full (also KeyError)\n│   └── NoMeans    short of something\n└── Closed"
    assert tree_in(drawn) == {
        "OrbitError": frozenset(),
        "Full": frozenset({"OrbitError", "KeyError"}),
        "NoMeans": frozenset({"Full"}),
        "Closed": frozenset({"OrbitError"}),
    }


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.OrbitError)]
SAMPLES: dict[str, object] = {
    "str": "orders",
    "int": 7,
    "float": 2.5,
    "bool": True,
    "object": "anything",
    "str | int": 100,
    "Sequence[str]": ["a", "b"],
    "Sequence[int]": [4711],
    "Sequence[Any]": [("orders", 0, 1, 2)],
    "Sequence[tuple[str, int]]": [("orders", 1)],
}


def attributes(kind: type[errors.OrbitError]) -> dict[str, object]:
    """The keywords that a class takes by its own signature, each with a value of the type that is written there."""
    found = {}
    for owner in kind.__mro__:
        if owner is not errors.OrbitError and issubclass(owner, errors.OrbitError) and "__init__" in vars(owner):
            words = inspect.signature(owner).parameters.values()
            for word in words:
                if word.kind is word.KEYWORD_ONLY:
                    found[word.name] = SAMPLES[str(word.annotation).removesuffix(" | None")]
    return found


def filled(kind: type[errors.OrbitError]) -> errors.OrbitError:
    """An error of this class with every attribute that it can have."""
    error = kind("could not do it", hint=hint("raise {timeout} || look at {}", "a {path}"))
    for name, value in attributes(kind).items():
        assert hasattr(error, name), f"{kind.__name__} does not set {name}"
        setattr(error, name, value)
    error.index, error.failed, error.sent = 1, 2, 3
    return error


def same(one: errors.OrbitError, other: errors.OrbitError) -> bool:
    return type(one) is type(other) and vars(one) == vars(other) and one.args == other.args and str(one) == str(other)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_travel(kind: type[errors.OrbitError]) -> None:
    """Goal: an error arrives whole in another process. Method: each class with every attribute, pickled, copied, and
    through the control socket's frames."""
    error = filled(kind)
    error.add_note("in line 7")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert same(pickle.loads(pickle.dumps(error, protocol)), error)
    assert same(copy.copy(error), error) and same(copy.deepcopy(error), error)
    raised = error_raised(msgpack.unpackb(msgpack.packb(error_map(filled(kind))), use_list=False))
    assert str(raised) == str(error) and raised.values == {
        name: tuple(value) if isinstance(value, list) else value for name, value in error.values.items() if name != "__notes__"
    }


@pytest.mark.parametrize("kind", KINDS)
def test_attributes_are_there(kind: type[errors.OrbitError]) -> None:
    """Goal: an attribute that does not apply is None, as its annotation says, and one that the class does not have is an
    AttributeError, of a name that a checker refuses."""
    error = kind("could not do it")
    promised = set(re.findall(r"`(\w+)`", rows()[kind.__name__]["attributes"]))
    assert all(getattr(error, name) is None for name in promised | attributes(kind).keys())
    assert error.values == {} and error.hint is None and error.knob is None and error.knobs == ()
    assert not any("__getattr__" in vars(each) for each in kind.__mro__)
    with pytest.raises(AttributeError):
        error.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_an_error_of_the_broker_alone_travels() -> None:
    """Goal: a class that users never see is no exception to that."""
    error = ActorError("the writer failed", actor="writer", errno=28)
    assert same(pickle.loads(pickle.dumps(error)), error) and same(copy.copy(error), error)
    assert error.reworded("it failed").actor == "writer"


def test_a_batch_is_looked_at_first() -> None:
    """Goal: no program sends messages of a batch twice because the error's class is one that is safe to repeat."""
    assert errors.Full("could not", sent=0).retry is errors.Retry.SAFE
    assert errors.Full("could not", sent=3).retry is errors.Retry.LOOK_FIRST
    refused = errors.StoreFull("could not")
    refused.receipts = []
    assert refused.retry is errors.Retry.LOOK_FIRST


def test_a_handle_stays_here() -> None:
    """Goal: an error with the handle of what was sent can be pickled, without it; a copy in this process keeps it."""
    error = errors.TimedOut("could not", pending=threading.Lock(), sent=3)
    away = pickle.loads(pickle.dumps(error))
    assert (away.pending, away.sent) == (None, 3) and copy.copy(error).pending is error.pending


def test_another_version_may_know_more() -> None:
    """Goal: what this version does not know of an error does not keep it from being raised."""
    content = {"error": "UnknownTopic", "message": "no", "hint": None, "values": {"topic": "orders", "colour": "red"}}
    raised = error_raised(content)
    assert type(raised) is errors.UnknownTopic and raised.values == {"topic": "orders"}
    assert type(error_raised({**content, "error": "Novelty"})) is errors.BrokerError


RETRIES = {
    errors.Retry.SAFE: r"\*\*yes\*\*",
    errors.Retry.LOOK_FIRST: r"\*\*look first\*\*",
    errors.Retry.NO: r"^no: ",
    errors.Retry.AFTER_CHANGE: r"^(?:after|with) |^see the class$|: with another offset|^a poll raises it again",
}


def test_the_page_and_the_errors_agree_on_retries() -> None:
    """Goal: programs and readers are told the same. Method: error.retry, also of errors with the attributes that change it,
    against the page's last column; each answer of the page is some error's."""
    variants = [kind("could not") for kind in KINDS]
    variants += [
        errors.TimedOut("could not", pending=object()),
        errors.RequestTimeout("could not", receipt=object()),
        errors.StoreFailed("could not", physical_offset=7),
        errors.BrokerStopped("could not", sent=7),
        errors.OffsetOutOfRange("could not", removed=7),
    ]
    told: dict[str, set[errors.Retry]] = {}
    for error in variants:
        name = type(error).__name__
        assert re.search(RETRIES[error.retry], rows()[name]["retry"].lower()), (name, error.retry)
        told.setdefault(name, set()).add(error.retry)
    for name, found in told.items():
        wanted = {
            retry
            for retry in (errors.Retry.SAFE, errors.Retry.LOOK_FIRST)
            if re.search(RETRIES[retry], rows()[name]["retry"].lower())
        }
        assert wanted <= found, name
