"""What every test uses: a runtime folder of this run's own, so that brokers of other runs, and of the machine's user, may have
the same names."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.collecting import Collecting
from tests.failing import Failing
from tests.grouping import Grouping
from tests.memory import folder_in_memory
from tests.slowest import Slowest
from tests.waiting import until
from tests.warm import Parents

# The machine may be ten times slower than the one that a test was written on.
settings.register_profile("orbitmq", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("orbitmq")


def pytest_configure(config: pytest.Config) -> None:
    # Tests start Python a thousand times. Some machines, containers above all, tell it not to keep what it has compiled; then
    # each of these processes, and each worker of pytest-xdist, compiles every module again, which is half of a start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    config.pluginmanager.register(Collecting())
    config.pluginmanager.register(Failing(config))
    config.pluginmanager.register(Grouping())
    config.pluginmanager.register(Slowest())


@pytest.fixture(scope="session", autouse=True)
def runtime_folder() -> Iterator[None]:
    # Not below pytest's own folder, because the path of a Unix socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="orbitmq-test-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "XDG_RUNTIME_DIR", str(folder))
        patch.delenv("ORBITMQ_RUNTIME_DIR", raising=False)
        yield

    def removed() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    until(removed, "the end of a broker that a test has left, and that makes its files again")


@pytest.fixture(scope="session")
def warm_parents() -> Iterator[Parents]:
    """Of all folders whose conftest has the fixture `warm`: a worker goes from one to another and back, and a parent takes
    longer to make than ten brokers."""
    parents = Parents()
    yield parents
    parents.end()


@pytest.fixture
def in_memory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder without a disk (memory.py). If the test fails, what is in it is kept where pytest keeps such things."""
    with folder_in_memory(lambda: tmp_path_factory.mktemp("instead-of-memory")) as folder:
        failed = request.session.testsfailed
        yield folder
        if request.session.testsfailed > failed:
            kept = tmp_path_factory.mktemp("failed") / "kept"
            shutil.copytree(folder, kept, symlinks=True, ignore=lambda root, names: _no_files(Path(root), names))
            print(f"what it left: {kept}")


def _no_files(root: Path, names: list[str]) -> list[str]:
    """Sockets and pipes, which cannot be copied."""
    return [name for name in names if not (root / name).is_file() and not (root / name).is_dir()]


@pytest.fixture(autouse=True)
def ctrl_c() -> None:
    """If a shell starts the tests in its background, they ignore SIGINT, and so do their children. A Spark session leaves a
    handler of its own for the tests that follow."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
