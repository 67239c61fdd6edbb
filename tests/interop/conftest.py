"""The judge of this folder's tests: one JVM for all of them, because starting brokers takes longer than the tests. Those that
ask another client, which has a process of its own, are groups of their own, so that other workers run them meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import orbitmq
from tests.fast import warm
from tests.interop import toolchain
from tests.interop.client5 import Client5
from tests.interop.judge import Judge
from tests.interop.ours import visiting

__all__ = ["warm"]

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    """By what is started once: RocketMQ in the judge, RocketMQ 5's client, or what the module has."""
    used = getattr(item, "fixturenames", ())
    if "tools" in used:
        return "interop"
    return "client5" if "client5" in used else item.nodeid.partition("::")[0]


@pytest.fixture(scope="session")
def tools() -> toolchain.Toolchain:
    """Java and RocketMQ. If they cannot be had, the tests of this folder cannot run, and say why."""
    try:
        return toolchain.provide()
    except toolchain.MavenError as why:
        pytest.skip(f"RocketMQ cannot judge: {why}")


@pytest.fixture(scope="session")
def _judges(tools: toolchain.Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Judge]]:
    made: list[Judge] = []

    def current() -> Judge:
        if not made or made[-1].process.poll() is not None:
            made.append(Judge(tools, tmp_path_factory.mktemp("judge")))
        return made[-1]

    yield current
    for judge in made:
        judge.close()


@pytest.fixture
def judge(_judges: Callable[[], Judge]) -> Iterator[Judge]:
    """A judge without a broker; what a test leaves running is stopped."""
    judge = _judges()
    yield judge
    if judge.running:
        judge.stop()


@pytest.fixture
def victim(tools: toolchain.Toolchain, tmp_path: Path) -> Iterator[Judge]:
    """A judge that may be killed."""
    judge = Judge(tools, tmp_path / "victim")
    yield judge
    judge.close()


@pytest.fixture(scope="session")
def client5(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client5]:
    """RocketMQ 5's client, in one JVM for all tests that use it."""
    try:
        tools = toolchain.provide_client5()
    except toolchain.MavenError as why:
        pytest.skip(f"RocketMQ 5's client cannot be had: {why}")
    client = Client5(tools, tmp_path_factory.mktemp("client5"))
    yield client
    client.close()


@pytest.fixture
def visitor(judge: Judge, broker: orbitmq.Broker) -> Iterator[Judge]:
    """The judge as a client of the broker, which is a fixture of the test's module."""
    with visiting(judge, broker):
        yield judge
