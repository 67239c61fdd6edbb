"""Goal: orbitmq.testing gives every test a broker and topics of its own, costs nothing in sessions that do not use it, and
leaves nothing. Method: sessions of pytest in processes of their own."""

from __future__ import annotations

import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.sources import ROOT

pytest_plugins = ["pytester"]
# What the first two import takes longer than all else in a session.
_WITHOUT = ("-p", "no:hypothesispytest", "-p", "no:anyio", "-p", "no:cacheprovider")
# A checkout that was installed before the plugin came has no entry point for it.
_BY_NAME = () if any(each.value == "orbitmq.testing" for each in entry_points(group="pytest11")) else ("-p", "orbitmq.testing")


def session(pytester: pytest.Pytester, text: str, *options: str, conftest: str = "") -> pytest.RunResult:
    pytester.makepyfile(test_it=text)
    if conftest:
        pytester.makeconftest(conftest)
    return pytester.runpytest_subprocess("-q", *_WITHOUT, *_BY_NAME, *options)


EXAMPLE = """
import os, subprocess, sys
import orbitmq

def use(broker, topic, group):
    with broker.producer() as producer:
        producer.send_batch(topic, [b"1", b"2", b"3"])
    with broker.consumer(group, [topic]) as consumer:
        got = []
        while len(got) < 3:
            got += consumer.poll_bodies(10, 30)
        assert got == [b"1", b"2", b"3"]
        consumer.commit()

def test_one(orbitmq_broker, orbitmq_topic, orbitmq_group):
    assert "test_one" in orbitmq_topic
    use(orbitmq_broker, orbitmq_topic, orbitmq_group)

def test_two(orbitmq_broker, orbitmq_topic, orbitmq_group):
    use(orbitmq_broker, orbitmq_topic, orbitmq_group)

def test_code_that_connects_by_itself(orbitmq_broker, orbitmq_topic, orbitmq_group):
    with orbitmq.connect() as client:
        assert client.name == orbitmq_broker.name
        use(client, orbitmq_topic, orbitmq_group)
    program = "import orbitmq; print(orbitmq.connect().name, end='')"
    assert subprocess.check_output([sys.executable, "-W", "ignore", "-c", program], text=True) == orbitmq_broker.name

def test_several(orbitmq_new_topic, orbitmq_broker):
    wide, plain = orbitmq_new_topic(queues=4, durability="flushed"), orbitmq_new_topic()
    queues = {each.name: each.queues for each in orbitmq_broker.topics()}
    assert queues[wide] == 4 and queues[plain] == 1
    with open(os.environ["PIDS"], "a") as file:
        file.write(f"{orbitmq_broker.pid} {orbitmq_broker.status().store}\\n")
"""


@pytest.mark.parametrize("options", [(), ("-n", "2", "--dist", "each", "--tx", "2*popen")])
def test_the_fixtures(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Alone, and with xdist, whose workers have a broker each."""
    monkeypatch.setenv("PIDS", str(tmp_path / "pids"))
    monkeypatch.setenv("ORBITMQ_BROKER", "that-of-the-developer")
    session(pytester, EXAMPLE, *options).assert_outcomes(passed=4 * (2 if options else 1))
    brokers = {line.split()[0]: Path(line.split()[1]) for line in (tmp_path / "pids").read_text().splitlines()}
    assert len(brokers) == (2 if options else 1)
    for pid, store in brokers.items():
        assert not Path("/proc", pid).exists() and not store.exists() and not store.parent.exists(), "nothing is left"


def test_settings(pytester: pytest.Pytester) -> None:
    conftest = """
import pytest

@pytest.fixture(scope="session")
def orbitmq_settings(orbitmq_settings):
    return {**orbitmq_settings, "flush": "batch"}
"""
    text = "def test_it(orbitmq_broker):\n    assert orbitmq_broker.status().flush == 'batch'\n"
    session(pytester, text, conftest=conftest).assert_outcomes(passed=1)


def test_unused_it_costs_nothing(pytester: pytest.Pytester) -> None:
    text = """
import sys

def test_it():
    ours = {name for name in sys.modules if name.startswith("orbitmq")}
    assert "orbitmq.testing" in ours
    assert not any(name.startswith(("orbitmq.native", "orbitmq.client")) for name in ours), ours
    assert not {"cffi", "msgpack", "posix_ipc"} & sys.modules.keys()
"""
    session(pytester, text).assert_outcomes(passed=1)


def test_pytest_finds_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"orbitmq": "orbitmq.testing"}
