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

from tests.script_run import script_run
from tests.tools import TOLD, tool
from tests.waiting import Stuck

ROOT = Path(__file__).resolve().parent.parent
CORES = len(os.sched_getaffinity(0))
WORKERS = min(3 * CORES, CORES + 4)

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
        return script_run([*prefix, str(self.root / "scripts" / "test"), *arguments], kept | {"PATH": path} | environment)

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


# What the script itself calls; a machine may have more.
NEEDED = ["bash", "cat", "chmod", "dirname", "env", "flock", "mkdir", "mktemp", "mv", "rm"]
NEEDED += ["sh", "tail", "touch", "tr", "uname"]
# Of root, whatever user runs this: apt-get writes down what it is asked for, and fails at $BROKEN.
ROOTS = {
    "id": "#!/bin/sh\necho 0\n",
    "apt-get": """#!/bin/sh
shift
top=$(dirname "$0")/..
echo "$@" >>"$top/installed"
case "$*" in ${BROKEN:-nothing}) echo "no such thing"; exit 100 ;; esac
[ ! -p "$top/gate" ] || case "$*" in *chromium*) read -r line <"$top/gate" ;; esac
""",
}
TOOLS = ["chromium-headless-shell", "btrfs-progs", "xfsprogs"]


@pytest.fixture
def bare(checkout: Checkout) -> Checkout:
    """A machine that has none of the programs of others."""
    for name in NEEDED:
        (checkout.root / "bin" / name).symlink_to(shutil.which(name) or name)
    for name, text in ROOTS.items():
        (checkout.root / "bin" / name).write_text(text)
        (checkout.root / "bin" / name).chmod(0o755)
    (checkout.root / "bin" / "java").write_text("")
    return checkout


def run_bare(checkout: Checkout, *arguments: str, **environment: str) -> tuple[int, str, list[str]]:
    """How it ended, what it printed, and what apt-get was asked for."""
    done = checkout.run(*arguments, PATH=str(checkout.root / "bin"), WORKERS="2", **environment)
    return done.returncode, done.stdout, (checkout.root / "installed").read_text().splitlines()


def test_tools_are_installed_beside_the_first_tests(bare: Checkout) -> None:
    """Method: the installation of the browser ends when pytest runs, which is possible only at the same time."""
    os.mkfifo(bare.root / "gate")
    python = bare.root / ".venv" / "bin" / "python"
    meets = 'if [[ "$*" == "-m pytest -n"* ]]; then echo >gate; until [[ -e $ORBITMQ_TOOLS_TOLD ]]; do :; done; fi'
    python.write_text(python.read_text().replace("if [[ -p gate", f"{meets}\nif [[ -p no"))
    status, printed, asked = run_bare(bare, "tests/cli", "tests/store")
    assert status == 0, printed
    assert asked[0] == "update" and [each.split()[-1] for each in asked if each.startswith("-y")] == TOOLS
    assert {"download prometheus", "download libpopt0"} < set(asked)


def test_debian_is_asked_while_setup_runs(bare: Checkout) -> None:
    """Method: setup ends when apt-get is asked, which is possible only at the same time."""
    os.mkfifo(bare.root / "asked")
    (bare.root / "scripts" / "setup").write_text("#!/bin/sh\nread -r line <asked\n")
    program = bare.root / "bin" / "apt-get"
    program.write_text(program.read_text() + '[ "$*" != update ] || echo >"$top/asked"\n')
    assert run_bare(bare, "tests/cli")[0] == 0


@pytest.mark.parametrize("broken", ["update", "*chromium-headless-shell", "download prometheus"])
def test_what_cannot_be_installed_fails_nothing(bare: Checkout, broken: str) -> None:
    """The others are installed all the same, and the reason is shown."""
    status, printed, asked = run_bare(bare, "tests/cli", "tests/store", BROKEN=broken)
    assert status == 0, printed
    assert "no such thing" in printed and [each.split()[-1] for each in asked if each.startswith("-y")] == TOOLS


def test_tools_of_other_folders_are_not_installed(bare: Checkout) -> None:
    (bare.root / "installed").touch()
    assert run_bare(bare, "tests/shm")[::2] == (0, [])


def test_a_tool_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, program = tmp_path / "told", tmp_path / "judge"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(TOLD, str(told))

    def installed() -> bool:
        program.touch(mode=0o755)
        told.touch()
        return True

    monkeypatch.setattr("tests.tools.until", lambda condition, what: condition() or (installed() and condition()))
    assert tool("nobody", "judge", package="court") == str(program)
    with pytest.raises(pytest.skip.Exception, match=r"none of nobody, somebody is installed \(Debian: court\)$"):
        tool("nobody", "somebody", package="court")


def test_an_installation_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(*given: object) -> None:
        raise Stuck

    monkeypatch.setenv(TOLD, str(tmp_path / "told"))
    monkeypatch.setattr("tests.tools.until", stuck)
    with pytest.raises(pytest.skip.Exception, match=r"nobody is not installed .*; scripts/test is still installing"):
        tool("nobody", package="court")


@pytest.mark.xdist_group("shown")
def test_workers_know_the_groups(request: pytest.FixtureRequest) -> None:
    """Tests that share a JVM stay with one worker: pytest-xdist finds the group in their names, but not under pytest 9."""
    if hasattr(request.config, "workerinput"):
        assert request.node.nodeid.endswith("@shown")
