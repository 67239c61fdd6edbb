"""Goal: `scripts/quickstart --remote` does the whole job with RocketMQ's Java client, and says what is missing where it cannot.
Method: run it on a few flights, as tests/cli/test_quickstart.py does; it checks every count itself. And Javas and folders of
jars of all kinds. Of cli/quickstart/remote.py, java_program.py and jars.py."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from orbitmq.cli.quickstart import jars, java_program
from orbitmq.cli.quickstart.flights import Delays, flights
from orbitmq.cli.quickstart.java_program import Java, JavaProgram, Report
from orbitmq.cli.quickstart.remote import COUNTER, SENDER, Counted, lines
from orbitmq.errors import BrokerError, SettingError
from orbitmq.spark.session import require_java
from tests.spark.quick_java import quick_java
from tests.trees import small_broker

SOME = 3_000
PORTS: dict[str, Any] = {"gateway": True, "name_server_port": 0, "broker_port": 0}


@pytest.fixture(scope="module", autouse=True)
def java_is_quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(quick_java(tmp_path_factory.mktemp("java"))))
        yield


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the client's jars."""
    try:
        return jars.fetch(require_java(), tmp_path_factory.mktemp("client") / "jars")
    except SettingError as why:
        pytest.skip(str(why))


@pytest.mark.timeout(900)
def test_the_whole_of_it(tmp_path: Path, client: Path) -> None:
    """The jars are fetched anew, from where they are kept."""
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    command = [sys.executable, "-m", "orbitmq.cli.quickstart", "--folder", str(tmp_path / "quick"), "--flights", str(SOME)]
    done = subprocess.run(
        [*command, "--remote"],
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WRONG" not in done.stdout and done.stdout.count("right") == 9, done.stdout
    assert "Java's client" in done.stdout and "Frontier Airlines" in done.stdout
    assert not list((runtime / "orbitmq").glob("*.sock"))


def test_a_java_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.1"\' >&2\necho java.base@17.0.1\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SettingError, match="has no compiler") as caught:
        Java.find(tmp_path, tmp_path)
    assert "install a JDK" in (caught.value.hint or "")


def test_jars_that_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without the client, no way to Maven Central, no Spark."""
    with pytest.raises(SettingError, match="no rocketmq-client among them"):
        jars.class_path(tmp_path)
    (tmp_path / "rocketmq-client-4.9.7.jar").touch()
    assert jars.class_path(tmp_path) == str(tmp_path / "*")
    monkeypatch.setattr(jars, "MODULE", ("org.apache.rocketmq", "rocketmq-client", "no-such-version"))
    with pytest.raises(SettingError, match=r"cannot get .* client, .*:no-such-version, from Maven Central: ") as caught:
        jars.fetch(require_java(), tmp_path / "jars")
    assert "--jars" in (caught.value.hint or "")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SettingError, match="has no jar of Ivy"):
        jars.fetch(require_java(), tmp_path / "again")


def test_the_programs_in_java_count_each_flight_once(tmp_path: Path, client: Path) -> None:
    """What Java adds up is what the source has, although the consumers share a group while flights come."""
    wanted = Delays()
    for flight in flights(SOME):
        wanted.add(flight)
    java = Java.find(tmp_path, client)
    with small_broker(tmp_path / "store", **PORTS, log_file_size=4 << 20) as broker:
        broker.create_topic("flights", 4)
        names, counted = broker.status().listens, Counted()
        with closing(JavaProgram(java, SENDER, (names, "flights"), counted.reports)) as sender:
            sender.feed(lines(flights(SOME)))
            counted.until(lambda: SENDER in counted.ended, {SENDER: sender})
        assert counted.sent == SOME
        with closing(JavaProgram(java, COUNTER, (names, "flights", "g", 2, SOME), counted.reports)) as counter:
            counted.until(lambda: COUNTER in counted.ended, {COUNTER: counter})
        assert counted.sums == wanted.plain() and counted.seen == SOME


def test_a_program_that_fails(tmp_path: Path, client: Path) -> None:
    """Its first words are the reason; it is not waited for."""
    counted = Counted()
    java = Java.find(tmp_path, client)
    with closing(JavaProgram(java, SENDER, (), counted.reports)) as program:
        program.feed(lines(islice(flights(), 10)))
        with pytest.raises(BrokerError, match=f"{SENDER} ended with code 1: .*ArrayIndexOutOfBounds") as caught:
            counted.until(lambda: bool(counted.ended), {SENDER: program})
    assert str(tmp_path / f"{SENDER}.log") in (caught.value.hint or "")


def test_a_program_that_fails_at_work(tmp_path: Path, client: Path) -> None:
    """It ends, although RocketMQ's client has threads that go on. Method: a line without tabs; a count that is no number; a
    message that is no flight."""
    java = Java.find(tmp_path, client)
    with small_broker(tmp_path / "store", **PORTS) as broker:
        broker.create_topic("flights")
        names = broker.status().listens
        with broker.producer() as producer:
            producer.send("flights", b"no flight")
        for name, arguments in ((SENDER, ()), (COUNTER, ("g", 1, "all")), (COUNTER, ("h", 1, 5))):
            counted = Counted()
            with closing(JavaProgram(java, name, (names, "flights", *arguments), counted.reports)) as program:
                program.feed(["no flight\n"])
                with pytest.raises(BrokerError, match=f"{name} ended with code 1: "):
                    counted.until(lambda counted=counted: bool(counted.ended), {name: program})  # type: ignore[misc]
                assert counted.ready == {name}


def test_a_program_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far it is, and also if it does not heed it."""
    monkeypatch.setattr(java_program, "END_S", 0.2)
    reports: queue.Queue[Report] = queue.Queue()
    deaf = tmp_path / "java"
    deaf.write_text("#!/bin/sh\ntrap '' TERM\necho ready\nwhile :; do read line || exec sleep 1000; done\n")
    deaf.chmod(0o755)
    program = JavaProgram(Java(str(deaf), "", tmp_path), SENDER, (), reports)
    assert reports.get(timeout=60) == (SENDER, "ready", "")
    program.close()
    assert reports.get(timeout=60) == (SENDER, "ended", "-9")
