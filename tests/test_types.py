"""Goal: type checkers know the public API, and refuse what users get wrong. Method: mypy and pyright check a user's program,
which must pass in their strict modes, and a list of mistakes, each of which must not (tests/checked). Here OrbitMQ is installed
as in a checkout (pip install --editable), in test_packaging.py as a wheel."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checked.checkers import CHECKERS, HERE, PROGRAM, Refused, judge, mistakes, verdict
from tests.client.test_help import TYPES, members

# Not for programs: the library's own parts use these.
INTERNAL = {
    ("TopicInfo", "of"),
    *(("Producer", name) for name in ("ends", "forget_check", "prepare_check")),
    ("Producer", "send_columns"),
    *(("HandOut", name) for name in ("life", "offset", "opening", "slot")),
    *(("TransactionChecker", name) for name in ("add", "forget", "leave", "start")),
    *(("Job", name) for name in ("done", "fail", "give_up", "hand_out", "thread")),
}


# Each checker takes seconds of processor time; how long that is by the clock depends on the machine.
# One worker asks them once for all of these tests.
pytestmark = pytest.mark.xdist_group("types")


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Refused]:
    return judge(tmp_path_factory.mktemp("user"))


@pytest.mark.parametrize("checker", CHECKERS)
def test_mistakes_are_refused_and_nothing_else(refused: dict[str, Refused], checker: str) -> None:
    assert len(mistakes()) > 60
    assert not verdict(refused[checker])


@pytest.mark.parametrize("checker", CHECKERS)
def test_what_a_checker_must_say_is_seen(refused: dict[str, Refused], checker: str) -> None:
    """Goal: the test above can fail. Method: a mistake that is accepted, and a line of the program that is refused."""
    name, line = next(iter(refused[checker]))
    missing = {place: why for place, why in refused[checker].items() if place != (name, line)}
    assert f"{name}:{line}: accepted" in verdict(missing)
    assert "program.py:1: refused" in verdict({**refused[checker], ("program.py", 1): "no"})


def test_the_program_runs(tmp_path: Path) -> None:
    """Goal: what the program says about types is true. Method: it asserts, and warnings are errors."""
    command = [sys.executable, "-W", "error", str(HERE / "program.py"), str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr


def test_the_program_uses_everything() -> None:
    """Goal: no public name is left unchecked. Method: each attribute of the public types is in the program."""
    trees = [ast.parse((HERE / name).read_text()) for name in PROGRAM]
    used = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names = {(kind.__name__, name) for kind in TYPES for name, _ in members(kind)}
    assert not sorted((kind, name) for kind, name in names - INTERNAL if name not in used)
