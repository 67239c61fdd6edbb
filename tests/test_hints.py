"""Goal: the advice of an error is data, and each face shows it as its users type it. Method: every hint in the sources is read,
in Python and in C, and spelled for each face; and errors are raised in the way that users of each face meet them."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main

import orbitmq
from orbitmq import errors
from orbitmq.cli import spelling, tree
from orbitmq.cli.main import named_by
from orbitmq.errors import BrokerNotRunning, OrbitError
from orbitmq.errors.remedy import FACES, Hint, Knob, all_of, environment, hint, library, of_plain, settings_file
from orbitmq.shm.frames import error_map, error_raised
from orbitmq.spark.sink.options import KNOWN as SINK
from orbitmq.spark.source.options import KNOWN as SOURCE
from orbitmq.spark.spelling import spark
from orbitmq.store.settings.setting_sources import resolve
from orbitmq.store.settings.tree_settings import KINDS
from tests.sources import ROOT, short, sources
from tests.syntax import nodes, of_all_sources, parsed
from tests.trees import small_broker

LITERAL_OF_C = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
HINT_OF_C = re.compile(r"\{[a-z_]+(?:=[^{} ]+)?(?: of [a-z]+)?\}")
# The places of the library's arguments: every public function there, and what C gives to users.
LIBRARY = ("client", "tables/dataset.py", "tables/export/topics.py", "store/repair", "native/_types.pyi")
DEEDS = {"skip_damaged"}  # what the library has a method for instead of an argument


class Found(NamedTuple):
    """A hint in the sources."""

    place: str
    text: str
    hint: Hint


def in_python() -> Iterator[Found]:
    for path in sources(".py"):
        if path.relative_to(ROOT).parts[0] in ("tests", "scripts", "docs"):
            continue
        for node in nodes(path.read_text()):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hint", "a_hint"):
                text = node.args[0]
                assert isinstance(text, ast.Constant), f"{short(path)}:{node.lineno}: its text is put together"
                given = [_sample(each) for each in node.args[1:]]
                yield Found(f"{short(path)}:{node.lineno}", text.value, hint(text.value, *given))


def _sample(node: ast.expr) -> object:
    """Possible values: a knob for a knob, else a text."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Knob":
        of = {word.arg: ast.literal_eval(word.value) for word in node.keywords}
        return Knob("retention_hours" if of else "columns", 7 if len(node.args) > 1 else None, **of)
    return 7


def literals_of_c() -> Iterator[tuple[str, str]]:
    """File and text of each, with its continuation in the next line."""
    for path in (ROOT / "native" / "python").rglob("*.c"):
        whole = re.sub(r'"\s*\\?\n\s*"', "", path.read_text())
        yield from ((short(path), each) for each in LITERAL_OF_C.findall(whole))


def in_c() -> Iterator[Found]:
    for place, text in literals_of_c():
        if HINT_OF_C.search(text):
            yield Found(place, text, hint(text))


@cache
def hints() -> list[Found]:
    return [*in_python(), *in_c()]


@cache
def arguments() -> set[str]:
    names: set[str] = set()
    for place in LIBRARY:
        for path in (ROOT / place).rglob("*.py") if (ROOT / place).is_dir() else [ROOT / place]:
            for node in nodes(path.read_text()):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    names |= {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
                elif isinstance(node, ast.ClassDef):  # settings are fields of one
                    names |= {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
    return names


@cache
def commands() -> dict[str, Any]:
    """The commands with their options, by the words that run them."""
    found: dict[str, Any] = {}

    def look(command: Any, words: str) -> None:
        inner = getattr(command, "commands", {})
        if not inner:
            found[words.strip()] = command
        for name, each in inner.items():
            look(each, f"{words} {name}")

    look(typer.main.get_command(named_by([])), "")
    return found


@of_all_sources
def test_hints_are_found() -> None:
    """Goal: the search below sees what there is. Method: hints of both languages that are known to exist."""
    assert len(hints()) > 50
    assert {"native/python/producer/verdicts.c", "client/aio/producer.py"} <= {each.place.partition(":")[0] for each in hints()}


@of_all_sources
def test_every_hint_is_for_every_face() -> None:
    """Goal: no hint names a knob that does not exist, and no face shows another's spelling. One test for all hints, because a
    test for each would let every worker parse the sources to collect the tests."""
    wrong = []
    for found in hints():
        try:
            is_for_every_face(found)
        except AssertionError as error:
            wrong.append(f"{found.place}: {found.text}: {error}")
    assert not wrong, "\n".join(wrong)


def is_for_every_face(found: Found) -> None:
    for knob in found.hint.knobs:
        known = {"broker": KINDS.keys(), "spark": {*SOURCE, *SINK, "checkpointLocation"}}
        assert knob.name in known.get(knob.of, arguments() | DEEDS | KINDS.keys()), knob
    python = found.hint.spelled(library) or ""
    assert not re.search(r"(?<![\w-])--[a-z]", python.replace("(of a container: --shm-size)", "")) and "{" not in python
    for words, command in commands().items():
        typed = found.hint.spelled(spelling.spelled_by(command)) or ""
        if words != "config set":
            assert not re.search(r"(?<!--set )\b[a-z_]+=(?!=)|\b(?:True|False)\b|\(\)", typed), (words, typed)
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", typed.replace("(of a container: --shm-size)", "")):
            owner = "up" if f"{option} of orbitmq up" in typed or re.search(rf"{option} \S+ of orbitmq up", typed) else words
            assert option in [each for parameter in commands()[owner].params for each in parameter.opts], (words, typed)
    for face in (spark, settings_file, environment):
        told = found.hint.spelled(face) or ""
        assert not re.search(r"(?<![\w-])--[a-z]|\b[a-z_]+=(?: |$|True|False)", told.replace("--shm-size", "")), (face, told)
    assert of_plain(found.hint.plain()) == found.hint


# Commands of the shell, which are the same for everybody; and texts that are not about a knob.
OF_THE_SHELL = re.compile(
    r"`?orbitmq [a-z]+[^`;]*`?|'orbitmq clock --believe'|errors='replace'|topic=<|topic=orders/day=|docker.*"
)


NAMES = {name for name in vars(errors) if isinstance(getattr(errors, name), type)} | {"refused", "_refused"}


def called(node: ast.AST) -> str:
    """Name of the function or method that this calls; "" if it calls none."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""


def assigned(function: ast.AST) -> dict[str, list[ast.expr]]:
    """The values that a function assigns to its local variables; of a tuple, the parts one by one."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                many = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                pairs = zip(target.elts, node.value.elts, strict=False) if many else [(target, node.value)]  # type: ignore[attr-defined]
                for name, value in pairs:
                    if isinstance(name, ast.Name):
                        found.setdefault(name.id, []).append(value)
    return found


def parts_of_text(given: ast.expr, variables: dict[str, list[ast.expr]]) -> Iterator[tuple[int, str]]:
    """Line and text of the texts in an expression, and in what was assigned to its variables. In an f-string,
    {} stands for each value."""
    left: list[ast.AST] = [given]
    seen = set()
    while left:
        each = left.pop()
        if isinstance(each, ast.JoinedStr):
            yield each.lineno, "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in each.values)
            left += [part for part in each.values if not isinstance(part, ast.Constant)]
            continue
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.lineno, each.value
        elif isinstance(each, ast.Name) and each.id not in seen:
            seen.add(each.id)
            left += variables.get(each.id, [])
        left += ast.iter_child_nodes(each)


def texts_in(tree: ast.Module) -> set[tuple[int, str, bool]]:
    """Line and text of each part of a message or a hint that an error is made with; True: of a hint."""
    found = set()
    for place in ast.walk(tree):
        if not isinstance(place, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            continue
        variables = {} if isinstance(place, ast.Module) else assigned(place)
        for node in ast.walk(place):
            if isinstance(node, ast.Call) and called(node) in NAMES:
                hints = [word.value for word in node.keywords if word.arg == "hint"]
                for part in [*node.args, *hints]:
                    found |= {(*each, part in hints) for each in parts_of_text(part, variables)}
    return found


def texts_of_errors() -> Iterator[tuple[str, str, bool]]:
    """Every text that is given to an error, as message or hint, outside of the command's own code; True: as a hint."""
    for path in sources(".py"):
        if path.relative_to(ROOT).parts[0] not in ("tests", "scripts", "docs", "cli"):
            for line, text, of_hint in sorted(texts_in(parsed(path.read_text()))):
                yield f"{short(path)}:{line}", text, of_hint
    for place, text in literals_of_c():
        if re.search(r"\b(?:could not|cannot|raise|leave|use|give|start)\b", text):
            yield place, text, False


@of_all_sources
def test_no_text_holds_a_spelling() -> None:
    """Goal: no knob of a face is in plain text, where the other faces would show it too. Method: a search for options and
    keywords in every text of an error; inside braces it is a knob."""
    wrong = [f"{place}: {text}" for place, text, of_hint in texts_of_errors() if has_spelling(text, of_hint)]
    assert not wrong, "\n".join(wrong)


def has_spelling(text: str, of_hint: bool) -> bool:
    """An option or a keyword; in a hint also the plain name of a setting or an argument that is to be changed."""
    rest = re.sub(r"\{[^}]*\}\}?", "", OF_THE_SHELL.sub("", text))
    knobs = set(re.findall(r"\b(?:raise|lower|leave out) (\w+)", rest)) | set(re.findall(r"\b[a-z]+_[a-z_]+\b", rest))
    if of_hint and knobs & (arguments() | KINDS.keys()):
        return True
    plain = rest.replace("--shm-size", "").replace("topics=[", "")
    return re.search(r"(?<![\w-])--[a-z]|\b[a-z_]{3,}=(?![=\"'])", plain) is not None


@of_all_sources
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("raise Full('no', hint='raise in_hand')", True),
        ("raise Full('no', hint='raise visibility of the worker')", True),
        ("text = f'no, with in_hand={number}'; raise Full(text)", True),
        ("text = 'no'; more = text + ', with in_hand=' + text; raise errors.Full(more)", True),
        ("text, way = 'no', 'use --window'; raise Full(text, hint=way)", True),
        ("raise Full('no', hint=hint('raise {in_hand} || raise {window of producer}'))", False),
        ("text = f'no, with {number} as in_hand'; raise Full(text, hint='wait a moment')", False),
        ("other = 'in_hand=7'; raise Full('no')", False),
    ],
)
def test_a_spelling_is_seen(line: str, found: bool) -> None:
    """Goal: the test above can fail. Method: functions with and without a spelling, in a variable too."""
    texts = texts_in(parsed(f"def function(number):\n    {line}"))
    assert any(has_spelling(text, of_hint) for _, text, of_hint in texts) == found


@of_all_sources
def test_nobody_edits_prose() -> None:
    """Goal: no face makes its texts by cutting up another's. Method: a search for text methods on an error's text."""
    wrong = []
    for path in sources(".py"):
        if path.relative_to(ROOT).parts[0] in ("tests", "scripts", "docs"):
            continue
        for node in nodes(path.read_text()):
            if isinstance(node, ast.Attribute) and node.attr in ("replace", "partition", "split", "removesuffix", "sub"):
                of = node.value
                named = of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""
                if named in ("message", "hint", "remedy") and not short(path).startswith("shm/control_socket"):
                    wrong.append(f"{short(path)}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


def test_options_of_up_are_those_of_settings() -> None:
    """Goal: the table of settings with an option of their own is that of `orbitmq up`."""
    assert set(spelling.OF_UP) == set(inspect.signature(tree.up).parameters) & KINDS.keys() - {"name"}


FACED = hint("raise {timeout} || raise {window of producer} || lower {message_max of broker} || use {allow_deletion=True}")


@pytest.mark.parametrize(
    ("face", "told"),
    [
        (
            library,
            "raise timeout=, or raise window= of producer(), or lower message_max of the broker, or use allow_deletion=True",
        ),
        (spark, "raise option timeout, or lower message_max of the broker"),
        (settings_file, "raise timeout, or lower message_max, or use allow_deletion = true"),
        (environment, "raise ORBITMQ_TIMEOUT, or lower ORBITMQ_MESSAGE_MAX, or use ORBITMQ_ALLOW_DELETION=True"),
        ("send", "raise --timeout, or lower --message-max of orbitmq up"),
        ("up", "raise --set timeout=..., or lower --message-max, or use --allow-deletion"),
        ("config set", "raise timeout, or lower message_max, or use --allow-deletion"),
        ("find", "lower --message-max of orbitmq up"),
    ],
)
def test_each_face_has_its_spelling(face: Any, told: str) -> None:
    spelled = face if callable(face) else spelling.spelled_by(commands()[face])
    assert FACED.spelled(spelled) == told


def test_values_are_never_knobs() -> None:
    """Goal: a folder called {timeout} stays one."""
    assert (
        hint("look at {} || {}", "a || {timeout}", Knob("window", 7)).spelled(library) == "look at a || {timeout}, or window=7"
    )
    assert hint("use {retention_bytes={}}", 4096).knobs == (Knob("retention_bytes", 4096),)


def test_a_face_without_any_of_the_ways_says_nothing() -> None:
    assert hint("raise {window of producer}").spelled(spark) is None
    assert (
        str(errors.Full("could not send", hint=hint("raise {window of producer}")))
        == "could not send; raise window= of producer()"
    )


def test_hints_add_up() -> None:
    assert all_of(None, "look", hint("raise {timeout}"), "") == Hint((("look",), ("raise ", Knob("timeout"))))
    assert all_of(None, None) is None


def test_an_error_names_its_knob() -> None:
    """Goal: a program can change the setting itself. Method: a send that is refused."""
    error = errors.TimedOut("could not send", hint=FACED, timeout=3)
    assert (error.knob, error.knobs[1]) == ("timeout", Knob("window", of="producer"))
    assert error_raised(error_map(error)).knobs == error.knobs


def test_a_value_from_the_file_is_mended_there(tmp_path: Path) -> None:
    """Goal: a user who wrote a TOML key gets a TOML key, and one who set a variable gets a variable; also if the broker's
    process reports the error."""
    (tmp_path / "orbitmq").mkdir()
    (tmp_path / "orbitmq" / "settings.toml").write_text("retention_bytes = 5\n")
    with pytest.raises(errors.SettingError) as in_file:
        resolve(str(tmp_path), {"log_file_size": 1 << 20}, {})
    told = str(in_file.value.hint)
    assert (
        "use retention_bytes = 3145728, or use retention_bytes = 0 for no limit" in told
        and "--" not in told.split("correct the", maxsplit=1)[0]
    )
    (tmp_path / "orbitmq" / "settings.toml").unlink()
    with pytest.raises(errors.SettingError) as around:
        resolve(str(tmp_path), {"log_file_size": 1 << 20}, {"ORBITMQ_RETENTION_BYTES": "5"})
    assert "use ORBITMQ_RETENTION_BYTES=3145728" in str(around.value)
    assert str(error_raised(error_map(around.value))) == str(around.value)
    with pytest.raises(errors.SettingError) as given:
        resolve(str(tmp_path), {"log_file_size": 1 << 20, "retention_bytes": 5}, {})
    assert "use retention_bytes=3145728" in str(given.value)
    assert "use --retention-bytes 3145728" in str(given.value.remedy.spelled(spelling.spelled_by(commands()["up"])))  # type: ignore[union-attr]
    assert set(FACES) == {"library", "file", "environment"}


def test_two_words_for_one_place(tmp_path: Path) -> None:
    """Goal: name and store exclude each other, in the spelling of the user who gave both."""
    with pytest.raises(errors.SettingError) as both:
        orbitmq.connect("default", store=tmp_path)
    assert both.value.hint == "leave out name=, or leave out store="
    assert both.value.remedy is not None
    assert both.value.remedy.spelled(spelling.spelled_by(commands()["status"])) == "leave out --name, or leave out --store"
    assert both.value.remedy.spelled(spark) == "leave out option broker, or leave out option path"


@pytest.mark.parametrize("name", ["plain-1_%", "a|b", "%RETRY%g|h"])
def test_names_in_hints_can_be_pasted(tmp_path: Path, name: str) -> None:
    """Goal: a command in a hint is what a shell takes it for. Method: topics, brokers and stores with such names; the words
    of the command that a shell would see."""

    def words(error: OrbitError, command: str) -> list[str]:
        seen = shlex.shlex(command + str(error.hint).partition(command)[2], posix=True, punctuation_chars=True)
        seen.whitespace_split = True
        return list(seen)

    with pytest.raises(BrokerNotRunning) as absent:
        orbitmq.connect(f"{name} 'x'")
    assert words(absent.value, "orbitmq up") == ["orbitmq", "up", "--name", f"{name} 'x'"]
    store = tmp_path / f"{name} $x"
    with small_broker(store) as broker:
        broker.create_topic(f"shut{name}", 1)
        broker.set_permissions(f"shut{name}", read=False, write=False)
        create, allow = "orbitmq topic create", "orbitmq topic permissions"
        with broker.producer() as producer:
            for topic, command in ((f"no{name}", create), (f"shut{name}", allow)):
                with pytest.raises(OrbitError) as sent:
                    producer.send(topic, b"x")
                with pytest.raises(OrbitError) as read:
                    broker.consumer(None, [topic])
                for error in (sent.value, read.value):
                    assert words(error, command)[3] == topic, error.hint
    with pytest.raises(BrokerNotRunning) as gone:
        orbitmq.connect(store=store)
    assert words(gone.value, "orbitmq up") == ["orbitmq", "up", "--store", str(store)]
