"""Goal: importing OrbitMQ is quick. `scripts/bench 'import_*'` measures how quick; here it is what slow imports would bring."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from orbitmq.cli.main import PLACES

SLOW = (
    "asyncio", "ctypes", "hashlib", "logging", "multiprocessing", "pandas", "platform", "pyarrow", "pyspark", "rich", "shutil",
    "ssl", "subprocess", "tomlkit", "tomllib", "typer", "uuid",
)  # fmt: skip
CLIENT = "import orbitmq; orbitmq.connect, orbitmq.Producer, orbitmq.Consumer"


@pytest.mark.parametrize("program", ["import orbitmq", CLIENT], ids=["alone", "client"])
def test_nothing_slow_is_imported(program: str) -> None:
    """Method: the modules that a new interpreter has afterwards."""
    told = f"{program}; import sys; print(*set(sys.modules) & set({SLOW}))"
    done = subprocess.run([sys.executable, "-I", "-c", told], capture_output=True, text=True, check=True)
    assert not done.stdout.split()


def test_a_client_is_imported_when_it_is_used() -> None:
    """Method: as above, and of OrbitMQ itself."""
    told = "import orbitmq, sys; print(*sorted(name for name in sys.modules if name.startswith('orbitmq.')))"
    done = subprocess.run([sys.executable, "-I", "-c", told], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.startswith(("orbitmq.client", "orbitmq.native", "orbitmq.store"))]


def test_what_looks_after_a_broker_is_imported_when_it_is_used() -> None:
    told = f"{CLIENT}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", told], capture_output=True, text=True, check=True)
    names = ("admin.client_status", "admin.exact_groups", "admin.status", "work.retries", "work.worker")
    kept = {f"orbitmq.client.{name}" for name in names}
    assert all(find_spec(name) for name in kept)
    assert "orbitmq.client.admin.administration" in done.stdout and not kept & {*done.stdout.split()}


@pytest.mark.parametrize("command", ["send", "status", "topic"])
def test_a_command_imports_no_other(command: str) -> None:
    """Method: as above, when typer has the function of the command."""
    told = f"from orbitmq.cli.main import named_by; named_by([{command!r}]); import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", told], capture_output=True, text=True, check=True)
    commands = {name: f"orbitmq.cli.{module}" for name, (module, _) in PLACES.items()}
    imported = {*done.stdout.split()}
    assert {name for name, module in commands.items() if module in imported} == {command}
    assert not imported & {"asyncio", "rich.progress", "orbitmq.tables", "orbitmq.spark"}
