"""The project's own files, and what its modules import, for tests that read sources."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.syntax import nodes

ROOT = Path(__file__).resolve().parent.parent

FOLDERS = ["actors", "cli", "client", "contrib", "native", "remoting", "shm", "spark", "store", "tables"]
FOUND_BY_SPARK = "pyspark_orbitmq"  # by its name, which therefore cannot lie within the package
BUILT = re.compile(r"\.(?:so|o|pyc)$|^orbitmq\.native\._core\.c$")


@cache
def sources(*suffixes: str) -> tuple[Path, ...]:
    """The project's files with one of these suffixes, or all of them; without links, and without what is built. It does not ask
    git, because a copy of the tree need not be a git checkout."""
    if suffixes:
        return tuple(path for path in sources() if path.suffix in suffixes)
    folders = (ROOT / name for name in [*FOLDERS, FOUND_BY_SPARK, ".ci", "docs", "orbitmq", "scripts", "tests"])
    paths = [path for pattern in ("*.md", "*.py", "*.toml", "*.in") for path in ROOT.glob(pattern)]
    paths += (path for folder in folders for path in folder.rglob("*"))
    return tuple(sorted(path for path in paths if not BUILT.search(path.name) and path.is_file() and not path.is_symlink()))


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def imports(path: Path, text: str) -> tuple[tuple[int, str], ...]:
    """Line and dotted name of every import in a file, at whatever depth, with relative ones made absolute; and of every import
    by a name in quotes."""
    package = [*(["orbitmq"] if path.parts[0] != "orbitmq" else []), *path.parent.parts]
    found: list[tuple[int, str]] = []
    for node in nodes(text):
        if isinstance(node, ast.Import):
            found += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and _name(node.func).endswith(("import_module", "__import__")):
            found += ((node.lineno, part.value) for part in node.args if isinstance(part, ast.Constant))
    return tuple(found)


def _name(node: ast.expr) -> str:
    """The last name of an expression that ends with one. ast.unparse takes longer than all else here."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
