"""Goal: the tree keeps its shape. Method: the sources themselves are read, as text or as syntax trees, and compared with the
rules.

A rule that has to bend gets an entry in its table here, with the reason beside it.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.sources import FOLDERS, FOUND_BY_SPARK, ROOT, imports, short, sources
from tests.syntax import nodes, of_all_sources

# What each folder may import of the others. Everything may import orbitmq.errors; `root` is orbitmq/__init__.py, which is the
# library's face to users and so may reach the client.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "native": set(),
    "shm": {"native"},
    "store": {"shm", "native"},
    "remoting": {"store", "shm", "native"},
    "actors": {"remoting", "store", "shm", "native"},
    "client": {"store", "shm", "native"},
    "tables": {"client", "store", "shm", "native"},
    "root": {"tables", "client", "shm"},  # shm/means.py, which says what is short where not even a module can be loaded
    "spark": {"root", "tables", "client", "store", "shm", "native"},
    "cli": {"root", "spark", "tables", "client", "store", "shm", "native"},
    "contrib": {"root", "client", "shm"},
    "pyspark_orbitmq": {"spark"},  # beside the package
}
# The stub of the C types names the results that the Python class derived from them gives; python -m orbitmq is the command.
BESIDES = {"native/_types.pyi": {"client"}, "orbitmq/__main__.py": {"cli"}}
# Who may import what is big, and an extra. What needs only pyarrow thereby works where there is no PySpark.
EXTRAS: dict[str, set[str]] = {
    "pyarrow": {"client/consumer/arrow.py", "tables", "spark"},
    "pyspark": {"cli/quickstart/spark_part.py", "spark"},
    "py4j": set(),
    "pandas": set(),
}

LINES_MAX = {".py": 500, ".c": 600, ".h": 400, ".sh": 300}
TEST_LINES_MAX = 800


def layer_of_module(name: str) -> str | None:
    """Folder that a dotted module name belongs to; None for modules that are not ours."""
    parts = name.split(".")
    if parts[0] != "orbitmq":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else "root"


def layer_of_file(path: Path) -> str:
    """path: relative to the checkout."""
    return path.parts[0] if path.parts[0] != "orbitmq" else "errors" if path.parts[1] == "errors" else "root"


def wrong_ways(path: Path, text: str) -> list[str]:
    """What a file, given by its path relative to the checkout, imports although it must not."""
    layer = layer_of_file(path)
    allowed = MAY_IMPORT[layer] | {layer, "errors"} | BESIDES.get(str(path), set())
    found = ((line, name, layer_of_module(name)) for line, name in imports(path, text))
    return [f"{path}:{line}: {layer} imports {name}" for line, name, target in found if target and target not in allowed]


@of_all_sources
def test_imports_point_one_way() -> None:
    """Goal: no lower layer knows a higher one. Method: every import of every module is compared with the table above."""
    wrong = []
    for path in (found.relative_to(ROOT) for found in sources(".py", ".pyi")):
        if path.parts[0] in (*FOLDERS, FOUND_BY_SPARK, "orbitmq"):
            wrong += wrong_ways(path, (ROOT / path).read_text())
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("native/build_core.py", "from ..shm import ring"),
        ("shm/ring.py", "from orbitmq.store import layout"),
        ("shm/ring.py", "import orbitmq"),
        ("shm/ring.py", "import importlib\nimportlib.import_module('orbitmq.store.layout')"),
        ("store/lock.py", "import orbitmq.actors.supervisor.spec"),
        ("actors/news.py", "from orbitmq import client"),
        ("actors/news.py", "from orbitmq.client.connection.connection import Connection"),
        ("client/client.py", "def late():\n    from orbitmq.actors.settings import TreeSettings"),
        ("client/client.py", "from orbitmq.tables.export.topics import export"),
        ("tables/dataset.py", "from orbitmq.spark.session import local_session"),
        ("tables/export/topics.py", "import orbitmq"),
        ("orbitmq/__init__.py", "from orbitmq.spark.export import export"),
        ("cli/quickstart/flights.py", "from ...actors import spec"),
        ("orbitmq/errors/waits.py", "from orbitmq.client import receipt"),
        ("orbitmq/__init__.py", "from orbitmq.cli import main"),
    ],
)
def test_a_wrong_way_is_seen(path: str, text: str) -> None:
    """Goal: the test above can fail. Method: imports of every form that point the wrong way."""
    assert wrong_ways(Path(path), text)


def unwanted_extras(path: Path, text: str) -> list[str]:
    """What a file imports, for more than types, of the extras that are not its own."""
    skipped = for_types_alone(text)
    found = [(line, name.partition(".")[0]) for line, name in imports(path, text) if line not in skipped]
    places = {path.parts[0], str(path)}
    return [f"{path}:{line}: {name}" for line, name in found if name in EXTRAS and not places & EXTRAS[name]]


@of_all_sources
def test_extras_are_imported_where_they_are_needed() -> None:
    """Goal: whoever has pyarrow alone can read and export; PySpark is for spark/. Method: every import that runs, at whatever
    depth."""
    wrong, seen = [], set()
    for path in (found.relative_to(ROOT) for found in sources(".py")):
        if path.parts[0] in (*FOLDERS, FOUND_BY_SPARK, "orbitmq"):
            text = (ROOT / path).read_text()
            wrong += unwanted_extras(path, text)
            seen |= {name.partition(".")[0] for _, name in imports(path, text)} & EXTRAS.keys()
    assert not wrong, "\n".join(wrong)
    assert seen == {"pyarrow", "pyspark"}


def test_an_extra_elsewhere_is_seen() -> None:
    assert unwanted_extras(Path("tables/export/task.py"), "def late():\n    from pyspark.sql import SparkSession")
    assert unwanted_extras(Path("client/consumer/consumer.py"), "import pyarrow as pa")
    assert not unwanted_extras(Path("tables/columns.py"), "import pyarrow.compute as pc")
    assert not unwanted_extras(Path("client/consumer/consumer.py"), "if TYPE_CHECKING:\n    import pyarrow as pa")


@cache
def for_types_alone(text: str) -> set[int]:
    """Lines of imports that only type checkers follow."""
    conditions = (node for node in nodes(text if "TYPE_CHECKING" in text else "") if isinstance(node, ast.If))
    blocks = (node for node in conditions if "TYPE_CHECKING" in ast.unparse(node.test))
    return {line for block in blocks for line in range(block.lineno, (block.end_lineno or block.lineno) + 1)}


def import_graph(texts: dict[str, str]) -> dict[str, set[str]]:
    """Which of these modules, by dotted names, each imports, at whatever depth."""
    graph = {}
    for module, text in texts.items():
        skipped = for_types_alone(text)
        lines = imports(Path(*module.split(".")[1:], "x.py"), text)
        named = (name if name in texts else name.rpartition(".")[0] for line, name in lines if line not in skipped)
        graph[module] = {name for name in named if name in texts and name != module}
    return graph


def of_folders(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same for the folders of modules: orbitmq.store.repair; those of a layer's own folder are left out."""
    folders: dict[str, set[str]] = {}
    for module, named in graph.items():
        inner = {name.rpartition(".")[0] for name in (module, *named) if name.count(".") > 2}
        if module.count(".") > 2:
            folder = module.rpartition(".")[0]
            folders.setdefault(folder, set()).update(inner - {folder})
    return folders


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Nodes that lead to each other; or none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


@of_all_sources
def test_imports_make_no_circle() -> None:
    """Goal: any module, and any folder within a layer, can be read after those that it uses."""
    texts = {}
    for path in (found.relative_to(ROOT) for found in sources(".py")):
        if path.parts[0] in FOLDERS and path.stem != "__init__":
            texts[".".join(["orbitmq", *path.with_suffix("").parts])] = (ROOT / path).read_text()
    graph = import_graph(texts)
    assert len(graph) > 200 and "orbitmq.store.repair" in of_folders(graph)
    assert not circle(graph)
    assert not circle(of_folders(graph))


def test_a_circle_is_seen() -> None:
    texts = {"orbitmq.a.b": "def late():\n    from orbitmq.a import c", "orbitmq.a.c": "from orbitmq.a.b import X"}
    assert circle(import_graph(texts))
    texts["orbitmq.a.b"] = "if TYPE_CHECKING:\n    from orbitmq.a import c"
    assert not circle(import_graph(texts))
    texts = {"orbitmq.a.x.m": "import orbitmq.a.y.n", "orbitmq.a.y.o": "from orbitmq.a.x import k"}
    graph = import_graph(texts | {"orbitmq.a.x.k": "", "orbitmq.a.y.n": ""})
    assert not circle(graph) and circle(of_folders(graph))


def test_folders_are_linked_under_one_root() -> None:
    """Goal: `orbitmq.shm` is the folder shm in any checkout, and no folder escapes the table. Method: each link is relative and
    leads to its folder; there is no other."""
    assert {path.name for path in (ROOT / "orbitmq").iterdir() if path.is_symlink()} == set(FOLDERS)
    assert set(FOLDERS) == MAY_IMPORT.keys() - {"errors", "root", FOUND_BY_SPARK}
    for folder in FOLDERS:
        link = ROOT / "orbitmq" / folder
        assert link.is_symlink() and str(link.readlink()) == f"../{folder}", folder
        assert (link / "__init__.py").is_file(), folder


@cache
def of_a_machine() -> re.Pattern[str]:
    # Put together here, so that this file does not find itself.
    hosts = ["py" + "pi.org", "python" + "hosted.org", "repo.mav" + "en", "npm" + "js.org", "deb.deb" + "ian.org"]
    paths = ["/ro" + "ot/", "/tmp/w" + "t", "/tmp/ve" + "nv", "index" + "-url"]
    # client/work is a folder of ours.
    return re.compile("|".join(re.escape(text) for text in hosts + paths) + "|/ho" + "me/[a-z]{2}|(?<![a-z])/wo" + "rk/")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("files.py" + "pi.org", True),
        ("-I/ro" + "ot/include", True),
        ("cd /wo" + "rk/main", True),
        ("'/wo" + "rk/main'", True),
        ("client/wo" + "rk/run.py", False),
    ],
)
def test_a_machine_in_a_text_is_seen(text: str, found: bool) -> None:
    assert (of_a_machine().search(text) is not None) is found


def test_no_machine_in_the_text() -> None:
    """Goal: the tree names neither the machine it was written on nor a host that packages come from. Method: a search."""
    pattern = of_a_machine()
    wrong = []
    for path in sources():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # pictures and golden bytes
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                wrong.append(f"{short(path)}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)


# Waits for which nobody could ring.
NAPS = {
    "native/actors/reput/reput.c": "until a full disk has room again",
    "client/connection/connection.py": "until a coordinator's successor listens",
    "actors/reput.py": "until a coordinator answers",
    "actors/dispatcher.py": "until it may open files again",
    "client/dead_letter/redrive.py": "until what a killed process had sent is in the log and the index",
    # An Event would do, but Ctrl-C in the middle of its wait, which is Python, may end in "release unlocked lock".
    "cli/group.py": "the time over which a rate is measured",
    "cli/status.py": "the time over which a rate is measured, or between two pictures",
    "actors/supervisor/ground.py": "until a predecessor's lock is free",
    "shm/folder_lock.py": "until whoever holds it lets go",
    "spark/servers/failures.py": "until a name server or broker is back",
    "tables/slice_reader.py": "until a broker that starts has written a queue again",
    "spark/sink/state.py": "until another task has looked",
    "actors/topics/topic_registry.py": "between two looks at how far reput is",
    "tests/waiting.py": "between two looks at a condition",
    "tests/upgrade/program.py": "between two looks at files that a broker writes",
    "tests/spark/stream_rampage.py": "between two looks at a condition",
    # The rest only sets a pace: nothing is assumed to have happened meanwhile.
    "tests/actors/gated_supervisor.py": "an actor's step that does nothing",
    "tests/client/test_anyio.py": "messages at random moments",
    "tests/client/test_wait_kills.py": "senders that do not fill the disk",
    "tests/crash/worker.py": "members that do not always commit at once",
    "tests/spark/test_sink_kills.py": "a sender that does not fill the disk",
}
# Also polls and waits of nothing.
SLEEPS = {
    ".py": r"\btime\.sleep\(|\bfrom time import .*\bsleep\b|\b(?:asyncio|anyio|trio)\.sleep\((?!0\))"
    r"|\bpoll\(\)\.poll\(|\bselect\(\[\], \[\], \[\],|\bEvent\(\)\.wait(?!\(\))",
    ".c": r"\b(?:usleep|nanosleep|sleep)\(",
}


def test_nothing_sleeps_for_a_duration() -> None:
    """Goal: hot paths and tests wait for conditions. Method: a search for sleeps outside scripts/; a turn of an event loop,
    sleep(0), is none."""
    wrong = []
    for path in sources(".py", ".c"):
        if path.relative_to(ROOT).parts[0] == "scripts" or short(path) in NAPS:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(SLEEPS[path.suffix], line) and path != Path(__file__):
                wrong.append(f"{short(path)}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)


def test_files_are_of_a_readable_size() -> None:
    """Goal: one noun a file. Method: a limit on lines; a file that passes it is split by noun."""
    wrong = []
    for path in sources(*LINES_MAX):
        limit = TEST_LINES_MAX if path.relative_to(ROOT).parts[0] == "tests" else LINES_MAX[path.suffix]
        lines = len(path.read_text().splitlines())
        if lines > limit:
            wrong.append(f"{short(path)}: {lines} lines, at most {limit}")
    assert not wrong, "\n".join(wrong)


DOCSTRING = re.compile(r'(?:#.*\n|\s)*r?"""')


def test_modules_say_what_they_are() -> None:
    """Goal: one line tells a stranger why a file exists. Method: every module has a docstring, and none is a collection of
    unrelated things."""
    wrong = []
    for path in sources(".py"):
        text = path.read_text()
        if text.strip() and not DOCSTRING.match(text):
            wrong.append(f"{short(path)}: no docstring")
        if path.stem in ("util", "utils", "helpers", "misc", "common"):
            wrong.append(f"{short(path)}: named for nothing")
    assert not wrong, "\n".join(wrong)


def test_scripts_run() -> None:
    """Goal: one command for each task. Method: every script is executable and opens with what it does."""
    for path in [ROOT / ".ci" / "run", *(path for path in sources() if path.parent == ROOT / "scripts" and not path.suffix)]:
        lines = path.read_text().splitlines()
        assert path.stat().st_mode & 0o111, f"{short(path)} is not executable"
        assert lines[0].startswith(("#!/usr/bin/env ", "#!/bin/sh")), short(path)
        assert lines[1].startswith(("# ", '"""')), f"{short(path)} does not say what it does"


# Modules with an underscore in their names, which belong to the folder native/ as a whole.
PRIVATE_MODULES = {"_core", "_types"}
# Methods of every NamedTuple for its users; the underscore keeps their names apart from those of fields.
OF_RECORDS = {"_asdict", "_replace"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


OWNERS = ("self", "cls")


def own_names(text: str) -> set[str]:
    """What a module defines, at whatever depth: functions, classes, and what it assigns to, attributes of self included."""
    names = set()
    for node in nodes(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and getattr(node.value, "id", "") in OWNERS:
            names.add(node.attr)
    return names


def of_others(text: str) -> tuple[set[str], set[str]]:
    """Names that a module imports from outside the project, and expressions that stand for another module of the project or for
    an object of its types: `listener`, a parameter that is annotated so, or `self._listener`, to which it is assigned."""
    outside, ours = set(), set()
    for node in nodes(text):
        if isinstance(node, ast.Import):
            others = (alias for alias in node.names if not alias.name.startswith("orbitmq"))
            outside |= {alias.asname or alias.name.partition(".")[0] for alias in others}
        elif isinstance(node, ast.ImportFrom):
            names = {alias.asname or alias.name for alias in node.names}
            if node.level or (node.module or "").startswith(("orbitmq", "tests")):
                ours |= names
            else:
                outside |= names
    annotated = {
        each.arg
        for each in nodes(text)
        if isinstance(each, ast.arg) and each.annotation is not None and ast.unparse(each.annotation).strip("'\"") in ours
    }
    assigned = {
        ast.unparse(target)
        for node in nodes(text)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in annotated
        for target in node.targets
    }
    return outside, ours | annotated | assigned


def reaches(text: str) -> list[tuple[int, str]]:
    """Where a module reaches into another one: takes or imports a name with an underscore that is not its own."""
    own = own_names(text)
    outside, ours = of_others(text)
    found = []
    for node in nodes(text):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("orbitmq")):
            names = {each.name for each in node.names} - PRIVATE_MODULES
            found += [(node.lineno, name) for name in sorted(names) if is_private(name)]
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in PRIVATE_MODULES | OF_RECORDS:
            whose = ast.unparse(node.value)
            if whose in ("self", "cls", "super()") or whose in outside:
                continue
            if whose in ours or node.attr not in own:
                found.append((node.lineno, f"{whose}.{node.attr}"))
    return found


@of_all_sources
def test_no_module_reaches_into_another() -> None:
    """Goal: what modules share has a name without an underscore, so whoever changes one with it need look at one file only. A
    class may use what its base classes keep to themselves. Method: every attribute and import of every module."""
    wrong = []
    for path in sources(".py"):
        if path.relative_to(ROOT).parts[0] in (*FOLDERS, FOUND_BY_SPARK, "orbitmq"):
            wrong += [f"{short(path)}:{line}: {what}" for line, what in reaches(path.read_text())]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("from orbitmq.store.layout import _places", True),
        ("from .layout import _places", True),
        ("from orbitmq.native import _core", False),
        ("from orbitmq.store import layout\nlayout._places()", True),
        ("import os\nos._exit(0)", False),
        ("def close(made):\n    made._end()", True),
        ("def _end(): ...\ndef close(made):\n    made._end()", False),
        ("from orbitmq.x import X\ndef _end(): ...\ndef close(made: X):\n    made._end()", True),
        ("from orbitmq.x import X\nclass Y:\n def __init__(self, x: X):\n  self.x = x\n def _e(self):\n  self.x._e()", True),
        ("class Y(X):\n    def close(self):\n        self._end()\n        super()._end()", False),
    ],
)
def test_a_reach_is_seen(text: str, seen: bool) -> None:
    assert bool(reaches(text)) == seen
