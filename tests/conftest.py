"""What every test stands on: a runtime folder of this run's own, so that brokers of other runs, and of the machine's user, may
bear the same names."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from orbitmq.shm.segment import MOUNT, shared_memory_free
from tests.slowest import Slowest

# Of shared memory, below which tests leave it to the brokers.
ROOM = 1 << 30


# The machine may be ten times slower than the one that a test was written on.
settings.register_profile("orbitmq", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("orbitmq")


def pytest_configure(config: pytest.Config) -> None:
    # Tests start Python a thousand times. Some machines, containers above all, tell it not to keep what it has compiled; then
    # each of these processes, and each worker of pytest-xdist, compiles every module again, which is half of a start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    config.pluginmanager.register(Slowest())


@pytest.fixture(scope="session", autouse=True)
def runtime_folder() -> Iterator[None]:
    # Not below pytest's own folder: the path of a Unix socket must be short.
    with tempfile.TemporaryDirectory(prefix="orbitmq-test-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "XDG_RUNTIME_DIR", folder)
        patch.delenv("ORBITMQ_RUNTIME_DIR", raising=False)
        yield


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder without a disk, for a test that makes stores by the thousand and does not ask what a sync does; on a disk where
    shared memory has little room."""
    if shared_memory_free() < ROOM:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="orbitmq-test-", dir=MOUNT) as folder:
        yield Path(folder)


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """A shell that starts the tests in its background lets them ignore SIGINT, and their children with them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
