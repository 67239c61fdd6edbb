"""Goal: scripts/setup tells uv of the index that pip uses, and leaves uv alone where somebody has configured one of them. The
script and setup.py say why if OrbitMQ cannot be used on a machine. Method: the script in a checkout whose interpreter writes
down what it is asked to install, and asks the real one for all else; or with stand-ins for the programs of another machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from pip._internal.models.index import PyPI

from tests.script_run import script_run
from tests.waiting import WATCHDOG_S

ROOT = Path(__file__).resolve().parent.parent
UV = ROOT / ".venv" / "bin" / "uv"

# $CONFIGURED is what pip says of its configuration; $UV_STATUS is how uv ends.
INTERPRETER = f"""#!/usr/bin/env bash
case "$*" in
    "-m pip --version") exit ;;
    "-m venv --clear "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && exit ;;
    "-m pip config list") printf '%s\\n' "${{CONFIGURED:-}}" && exit ;;
    "-m pip install --no-compile uv") cp "$(dirname "$0")/../../uv" "$(dirname "$0")/uv" && exit ;;
    "-m pip install "*) echo "pip ${{*:4}}" >>calls && exit ;;
esac
exec {sys.executable} "$@"
"""
FAKE_UV = """#!/bin/sh
echo "uv $1 $2 with ${UV_CONFIG_FILE:-nothing}" >>calls
exit ${UV_STATUS:-0}
"""
ALL = "pip --editable .[cli,spark,quickstart,dev]"
CORE = "pip --no-deps --editable ."
OTHER = "index" + "-url"  # in pip's configuration


@dataclass(frozen=True)
class Checkout:
    root: Path

    def setup(self, **environment: str) -> list[str]:
        """What was installed, and by whom."""
        (self.root / "calls").unlink(missing_ok=True)
        shutil.rmtree(self.root / ".venv" / "python.stamp", ignore_errors=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_", "XDG_CONFIG"))}
        own = {"PYTHON": str(self.root / "python"), "HOME": str(self.root / "home"), "CC": "true"}
        own["PATH"] = os.pathsep.join([str(self.root / "bin"), os.environ["PATH"]])
        done = script_run([str(self.root / "scripts" / "setup")], kept | own | environment)
        assert done.returncode == 0, done.stdout
        (self.root / ".venv" / "python.stamp").unlink()  # so that the next one installs again
        return sorted((self.root / "calls").read_text().splitlines())

    @property
    def told(self) -> Path:
        return self.root / ".venv" / "uv.toml"

    def by_uv(self, config: object = None) -> list[str]:
        return [CORE, f"uv pip install with {config or self.told}"]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    for folder in ("bin", "home", "native", "scripts"):
        (tmp_path / folder).mkdir()
    programs = {"python": INTERPRETER, "uv": FAKE_UV, "bin/java": "#!/bin/sh\n", "bin/apt-get": "#!/bin/sh\nexit 1\n"}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "scripts")
    for name in ("pyproject.toml", "setup.py"):
        (tmp_path / name).touch()
    return Checkout(tmp_path)


def test_uv_is_told_of_the_index(checkout: Checkout) -> None:
    """Which pip uses if nobody has configured it; with the answer that its files never change."""
    assert checkout.setup() == checkout.by_uv()
    assert tomllib.loads(checkout.told.read_text()) == {
        "index": [
            {
                "url": PyPI.simple_url,
                "default": True,
                "cache-control": {"files": "max-age=365000000, immutable"},
            }
        ]
    }


@pytest.mark.skipif(not UV.exists(), reason="this checkout has no uv to read the file: pip has an index of its own")
def test_uv_takes_the_file(checkout: Checkout) -> None:
    """It refuses names and values that it does not know."""
    checkout.setup()
    ask = [str(UV), "--offline", "--config-file", str(checkout.told), "pip", "list", "--python", sys.executable]
    done = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=WATCHDOG_S)
    assert done.returncode == 0 and not done.stderr.strip(), done.stderr
    checkout.told.write_text(checkout.told.read_text().replace("url = ", "address = "))
    done = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=WATCHDOG_S)
    assert done.returncode and "missing field `url`" in done.stderr, "or else it reads nothing"


@pytest.mark.parametrize(
    "configured", [f":env:.{OTHER}='https://mirror.invalid/simple'", f"global.{OTHER}='x'", f"install.extra-{OTHER}='x'"]
)
def test_pip_with_an_index_of_its_own_installs_all(checkout: Checkout, configured: str) -> None:
    assert checkout.setup(CONFIGURED=configured) == [ALL]
    assert not checkout.told.exists()
    assert checkout.setup(CONFIGURED="global.timeout='60'") == checkout.by_uv()
    assert checkout.setup(CONFIGURED=configured) == [ALL], "also if uv was there before"
    assert not (checkout.root / ".venv" / "bin" / "uv").exists(), "or scripts/test would use it"


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_CONFIG_FILE"])
def test_who_has_configured_uv_is_left_alone(checkout: Checkout, name: str) -> None:
    """Also if a setup before that has told uv of an index: scripts/test would go on with it."""
    checkout.setup()
    assert checkout.told.exists()
    assert checkout.setup(**{name: "/mine"}) == checkout.by_uv("/mine" if name == "UV_CONFIG_FILE" else "nothing")
    assert not checkout.told.exists()


def test_the_users_own_file_counts(checkout: Checkout) -> None:
    mine = checkout.root / "home" / ".config" / "uv" / "uv.toml"
    mine.parent.mkdir(parents=True)
    mine.touch()
    assert checkout.setup() == checkout.by_uv("nothing")
    assert not checkout.told.exists()


def test_if_uv_fails_pip_installs_all(checkout: Checkout) -> None:
    assert checkout.setup(UV_STATUS="2") == sorted([ALL, *checkout.by_uv()])


SYSTEM = "/usr/bin/python3"
NO_HEADER = f"has_header() {{ [[ $1 != {SYSTEM} ]]; }}"
COMPLETE = """import ensurepip, os, sys, sysconfig, venv
sys.exit(sys.version_info < (3, 11) or not os.path.exists(sysconfig.get_path("include") + "/Python.h"))"""


@pytest.mark.parametrize(
    ("given", "changed", "found"),
    [({}, "", SYSTEM), ({}, NO_HEADER, "python3"), ({"PYTHON": "python3.11"}, "", "python3.11")],
    ids=["the system's", "the system's lacks something", "the one that is named"],
)
def test_which_interpreter_is_used(tmp_path: Path, given: dict[str, str], changed: str, found: str) -> None:
    """The script's own functions, where an interpreter of the test's comes first on PATH."""
    if found != SYSTEM:
        (tmp_path / found).symlink_to(sys.executable)
    elif subprocess.run([SYSTEM, "-c", COMPLETE], capture_output=True, check=False).returncode:
        pytest.skip(f"{SYSTEM} lacks something that OrbitMQ needs")
    script = (ROOT / "scripts" / "setup").read_text()
    functions = script[script.index("find_python() {") : script.index("# Prints the Debian packages")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON"} | given
    environment["PATH"] = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    ask = ["bash", "-c", "\n".join(["set -euo pipefail", functions, changed, "find_python"])]
    done = subprocess.run(ask, env=environment, capture_output=True, text=True, check=True, timeout=WATCHDOG_S)
    assert done.stdout.strip() == str(tmp_path / found), done.stderr


def test_an_interpreter_that_is_none(checkout: Checkout) -> None:
    """It is named at once, and nothing is installed for it."""
    environment = {**os.environ, "PYTHON": "nopython", "HOME": str(checkout.root / "home")}
    done = script_run([str(checkout.root / "scripts" / "setup")], environment)
    assert done.returncode == 1
    why = "PYTHON is 'nopython', which is no Python of 3.11 or newer here; name another, or leave it out"
    assert done.stdout == f"setup: {why}\n"
    assert not (checkout.root / ".venv").exists()


# A Python that believes to be of another version.
OLD_PYTHON = f"""#!/bin/bash
exec {sys.executable} -c "import sys; sys.version_info = (3, 9, 2); exec(sys.argv[1])" "$2"
"""
TOOLS = ("bash", "dirname", "env", "flock", "tr", "uname")


def refused(checkout: Checkout, **programs: str) -> str:
    """What the script says where there are only these programs, and what every system has."""
    found = checkout.root / "bin"
    shutil.rmtree(found)
    found.mkdir()
    for name in TOOLS:
        (found / name).symlink_to(shutil.which(name) or name)
    for name, text in {"id": "#!/bin/bash\necho 1000\n", "java": "#!/bin/bash\n", **programs}.items():
        (found / name).unlink(missing_ok=True)
        (found / name).write_text(text)
        (found / name).chmod(0o755)
    script = checkout.root / "scripts" / "setup"
    script.write_text(script.read_text().replace("/usr/bin/python3\n", f"{found}/no-python\n"))
    done = script_run([str(script)], {"PATH": str(found), "HOME": str(checkout.root / "home"), "CC": "bash"})
    assert done.returncode == 1, done.stdout
    assert not (checkout.root / ".venv").exists()
    return done.stdout


def test_another_system(checkout: Checkout) -> None:
    """It is named before anything else is looked at."""
    assert refused(checkout, uname="#!/bin/bash\necho Darwin\n") == "setup: OrbitMQ needs Linux; this is Darwin\n"


def test_a_python_that_is_too_old(checkout: Checkout) -> None:
    said = refused(checkout, python3=OLD_PYTHON)
    assert said == "setup: python3 is 3.9; OrbitMQ needs 3.11 or newer; name another with PYTHON=...\n"


def test_a_python_that_is_too_old_after_debian_was_asked(checkout: Checkout) -> None:
    """As root: what Debian has is no newer."""
    debian = {"id": "#!/bin/bash\necho 0\n", "apt-get": "#!/bin/bash\n", "flock": "#!/bin/bash\n"}
    said = refused(checkout, python3=OLD_PYTHON, **debian)
    first, last = said.splitlines()
    assert first.startswith("setup: installing from Debian: python3 ")
    assert last == "setup: python3 is 3.9; OrbitMQ needs 3.11 or newer; name another with PYTHON=..."


def test_no_python_at_all(checkout: Checkout) -> None:
    assert refused(checkout).startswith("setup: not installed: python3 python3-venv python3-dev")


def test_the_core_is_not_built_on_another_system() -> None:
    """Of setup.py, which pip runs."""
    run = "import runpy, sys, setuptools.command.build_ext; sys.platform = 'darwin'; runpy.run_path('setup.py')"
    ask = [sys.executable, "-c", run]
    done = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=False, timeout=WATCHDOG_S)
    assert done.returncode == 1
    why = "it needs Linux, for its futexes, sealed memory files and pidfds"
    assert done.stderr == f"orbitmq cannot be built on darwin: {why}\n"
