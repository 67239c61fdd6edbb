"""Goal: scripts/test divides the tests among the cores, and if any part fails, the whole fails. Method: the script in a
checkout whose interpreter writes down what it is asked to do, and does what the test wants."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import WATCHDOG_S

ROOT = Path(__file__).resolve().parent.parent
CORES = len(os.sched_getaffinity(0))
WORKERS = min(2 * CORES, CORES + 4)

# $FAILING is a pattern of the arguments that fail. At a named pipe "gate" two runs of pytest meet, which is possible only if
# they run at the same time.
INTERPRETER = f"""#!/usr/bin/env bash
[[ $1 != -c ]] || exec {sys.executable} "$@"
older=${{PYTHONPATH:+ older}}
printf '%s\\n' "$*$older" >>calls
if [[ -p gate && "$*" == "-m pytest"* ]]; then
    if [[ -n $older ]]; then echo >gate; else read -r <gate; fi
fi
echo "says $*$older"
[[ "$*$older" != ${{FAILING:-nothing}} ]] || exit ${{STATUS:-1}}
"""


@dataclass(frozen=True)
class Checkout:
    root: Path

    def run(self, *arguments: str, prefix: Sequence[str] = (), **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("WORKERS", "PYTHONPATH")}
        path = os.pathsep.join([str(self.root / "bin"), os.environ["PATH"]])
        return subprocess.run(
            [*prefix, str(self.root / "scripts" / "test"), *arguments],
            env=kept | {"PATH": path} | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WATCHDOG_S,
            check=False,
        )

    def calls(self) -> list[str]:
        return (self.root / "calls").read_text().splitlines()

    def tests(self) -> list[str]:
        """The runs of pytest, in order of their text."""
        return sorted(call.removeprefix("-m pytest").strip() for call in self.calls() if call.startswith("-m pytest"))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    programs = {"scripts/setup": "#!/bin/sh\n", "bin/apt-get": "#!/bin/sh\n", ".venv/bin/python": INTERPRETER}
    for name, text in programs.items():
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)
    shutil.copy(ROOT / "scripts" / "test", tmp_path / "scripts")
    kept = tmp_path / ".cache" / "pyspark-4.0"
    kept.mkdir(parents=True)
    (kept / "complete").touch()
    return Checkout(tmp_path)


def test_more_workers_than_cores(checkout: Checkout) -> None:
    done = checkout.run("tests/shm")
    assert done.returncode == 0, done.stdout
    assert checkout.tests() == [f"-n {WORKERS} --dist loadgroup tests/shm" if CORES > 1 else "tests/shm"]


def test_of_the_machines_cores_those_that_it_may_use(checkout: Checkout) -> None:
    allowed = str(min(os.sched_getaffinity(0)))
    done = checkout.run("tests/shm", prefix=["taskset", "--cpu-list", allowed])
    assert done.returncode == 0, done.stdout
    assert checkout.tests() == ["tests/shm"]


@pytest.mark.parametrize(
    ("arguments", "workers", "runs"),
    [
        ([], "3", ["-m oldest_pyspark tests/spark older", "-n 3 --dist loadgroup"]),
        (["tests/spark", "-x"], "2", ["-m oldest_pyspark tests/spark -x older", "-n 2 --dist loadgroup tests/spark -x"]),
        ([], "1", ["", "-m oldest_pyspark tests/spark older"]),
        (["tests/shm", "--pdb"], "2", ["tests/shm --pdb"]),
        (["-s", "tests/shm"], "2", ["-s tests/shm"]),
    ],
)
def test_what_is_run(checkout: Checkout, arguments: list[str], workers: str, runs: list[str]) -> None:
    done = checkout.run(*arguments, WORKERS=workers)
    assert done.returncode == 0, done.stdout
    assert checkout.tests() == runs
    assert {"-m ruff check --quiet .", "-m mypy --no-error-summary"} < set(checkout.calls())
    assert all(f"says {call}" in done.stdout for call in checkout.calls()), done.stdout


def test_the_oldest_pyspark_beside_the_others(checkout: Checkout) -> None:
    os.mkfifo(checkout.root / "gate")
    done = checkout.run(WORKERS="2")
    assert done.returncode == 0, done.stdout
    assert len(checkout.tests()) == 2


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    ("failing", "named"),
    [
        ("*ruff*", "ruff"),
        ("*mypy*", "mypy"),
        ("*pytest*older", "pytest with PySpark 4.0"),
        ("*pytest*[!r]", "pytest"),
        ("*pip*", "pytest with PySpark 4.0"),
    ],
)
def test_one_failure_is_a_failure_of_the_whole(checkout: Checkout, failing: str, named: str, workers: str) -> None:
    if failing == "*pip*":
        (checkout.root / ".cache" / "pyspark-4.0" / "complete").unlink()
    done = checkout.run("tests/spark", WORKERS=workers, FAILING=failing)
    assert done.returncode == 1, done.stdout
    assert f"({named})" in done.stdout.splitlines()[-1]


def test_no_test_for_the_oldest_pyspark_is_no_failure(checkout: Checkout) -> None:
    """Pytest ends with 5 if no test was chosen; for the other run that is a failure."""
    done = checkout.run("tests/spark", "-k", "x", WORKERS="2", FAILING="*older", STATUS="5")
    assert done.returncode == 0, done.stdout
    done = checkout.run("tests/spark", "-k", "x", WORKERS="2", FAILING="*-n 2*", STATUS="5")
    assert done.returncode == 1, done.stdout


@pytest.mark.xdist_group("shown")
def test_workers_know_the_groups(request: pytest.FixtureRequest) -> None:
    """Tests that share a JVM stay with one worker: pytest-xdist finds the group in their names, but not under pytest 9."""
    if hasattr(request.config, "workerinput"):
        assert request.node.nodeid.endswith("@shown")
