"""One Spark session for all tests of this folder, because starting a JVM takes longer than the tests.

Tests that touch PySpark have the mark `pyspark`. A test that uses the session gets the mark here. Modules whose tests call
PySpark, use classes that derive from PySpark's, or start programs that do, mark themselves. None is forgotten: a test without
the mark fails when it imports PySpark. Of these tests, scripts/test runs those with the mark `oldest_pyspark` again, with the
oldest PySpark that is supported (test_oldest_pyspark.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from orbitmq.errors import SettingError
from tests.crash import crash_build
from tests.fast import warm
from tests.refused_imports import refuse
from tests.spark.quick_java import quick_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["warm"]

HERE = Path(__file__).parent
READY = HERE / "ready"
# To compile a query takes Spark longer than to interpret it over the few rows of a test. Programs that tests start compile.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent != HERE:
            continue
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.pyspark)
            # Of several workers one has the JVM.
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.get_closest_marker("pyspark") is None:
            known = vars(getattr(item, "module", None) or ModuleType(""))
            touched = [name for name, value in known.items() if _is_pysparks(value)]
            if touched:
                raise pytest.UsageError(f"mark {item.nodeid} with pytest.mark.pyspark: {touched[0]} is PySpark's")


def _is_pysparks(value: Any) -> bool:
    """PySpark's own, or a class that derives from one of PySpark's."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] == "pyspark"
    kinds = value.__mro__ if isinstance(value, type) else (value,)
    return any(str(getattr(kind, "__module__", "")).partition(".")[0] == "pyspark" for kind in kinds)


@pytest.fixture(autouse=True)
def pyspark_is_declared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of PySpark during a test without the mark is a failure, even if it has been imported before."""
    if request.node.get_closest_marker("pyspark") is not None:
        return
    refuse(monkeypatch, ("pyspark",), "mark it with pytest.mark.pyspark")


@pytest.fixture(scope="session")
def java_home(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """A Java for short programs; None: there is none, which whoever starts Spark says."""
    try:
        return quick_java(tmp_path_factory.mktemp("java"))
    except SettingError:
        return None


@pytest.fixture(autouse=True)
def java_is_quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """And Python too, also for the programs that a test starts. A test without the mark has it by naming `java_home`."""
    if request.node.get_closest_marker("pyspark") is None and "java_home" not in request.fixturenames:
        return
    home = request.getfixturevalue("java_home")
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", str(home))
        make_ready(monkeypatch)


def make_ready(patch: pytest.MonkeyPatch) -> None:
    """Lets the processes of Python that Spark starts spend less on imports (ready/sitecustomize.py)."""
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != str(READY)]
    patch.setenv("PYTHONPATH", os.pathsep.join([str(READY), *paths]))


@pytest.fixture(scope="session")
def spark(java_home: Path | None) -> Iterator[SparkSession]:
    """A local session. Without Java its tests fail, and say what to install."""
    from orbitmq.spark.session import local_session

    try:
        with pytest.MonkeyPatch.context() as patch:
            if java_home is not None:
                patch.setenv("JAVA_HOME", str(java_home))
            make_ready(patch)
            session = local_session("orbitmq tests", cores=2, settings=INTERPRETED)
    except SettingError as error:
        pytest.fail(f"the tests of Spark need Java: {error}", pytrace=False)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def crash_points() -> None:
    """The core is built with crash points."""
    crash_build.build()
