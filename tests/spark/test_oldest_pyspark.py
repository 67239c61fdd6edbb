"""Goal: the oldest PySpark that is supported is tried with every use that OrbitMQ makes of PySpark. Method: the mark
`oldest_pyspark` names the modules that a test goes through. Each module that imports PySpark must be named, and each kind of
call that PySpark makes to it needs a test: reading, streaming, writing, an export, a session that finds the format, Ctrl-C.

The other tests with the mark `pyspark` are about OrbitMQ's own rules: which messages an option means, for example. These rules
do not know PySpark's version.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import orbitmq.spark

MODULES = Path(orbitmq.spark.__file__).resolve().parent
TESTS = Path(__file__).parent
MARK = "oldest_pyspark"


def importing(body: list[ast.stmt]) -> bool:
    """An import of PySpark that runs, wherever it stands: not one for type checkers."""
    for statement in body:
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            if importing(statement.orelse):
                return True
            continue
        if isinstance(statement, ast.ImportFrom):
            names = [statement.module or ""]
        elif isinstance(statement, ast.Import):
            names = [each.name for each in statement.names]
        else:
            names = []
        if any(name.partition(".")[0] == "pyspark" for name in names):
            return True
        inner = [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.stmt)]
        inner += [part for each in getattr(statement, "handlers", ()) for part in each.body]
        if importing(inner):
            return True
    return False


def users_of_pyspark() -> set[str]:
    return {
        ".".join(path.relative_to(MODULES).with_suffix("").parts)
        for path in MODULES.rglob("*.py")
        if importing(ast.parse(path.read_text()).body)
    }


def named() -> Iterator[str]:
    for path in TESTS.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == MARK:
                yield from map(ast.literal_eval, node.args)


def test_each_module_that_uses_pyspark_is_named() -> None:
    users = users_of_pyspark()
    assert {"data_source", "session", "stream.admission"} < users
    assert users - set(named()) == set(), f"mark a test that goes through them with pytest.mark.{MARK}"
    assert set(named()) - users == set(), "they do not use PySpark"
