"""Goal: importing OrbitMQ is quick. `scripts/bench 'import_*'` measures how quick; here it is what slow imports would bring."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ("asyncio", "logging", "multiprocessing", "pandas", "pyarrow", "pyspark", "rich", "ssl", "tomlkit", "typer")
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
