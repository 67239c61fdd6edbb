"""Goal: `orbitmq doctor` finds what keeps a broker from working, says what to change, and finds nothing where nothing is.

Method: each noun (cli/doctor/) judges numbers that are given to it, at both sides of each border; the command looks at stores
that real brokers wrote and left, and at folders where none can be. Of cli/doctor/command.py, cli/doctor/ports.py and
cli/doctor/runtime.py.
"""

from __future__ import annotations

import json
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orbitmq.cli.doctor import clock, extras, limits, machine, shared_memory, store
from orbitmq.cli.doctor.finding import Finding, Level
from orbitmq.client.broker.broker import Broker
from orbitmq.shm.file_id import FileId
from orbitmq.shm.means import DESCRIPTORS_MIN
from orbitmq.shm.segment import MOUNT, create_segment, remove_segment
from orbitmq.shm.segment_owner import SegmentOwner, dead_segments
from orbitmq.store.checkpoint import Checkpoint
from orbitmq.store.file_system import Mount
from orbitmq.store.layout import StoreLayout
from tests.cli.commands import run
from tests.waiting import until

FINE, ADVICE, WRONG = Level.FINE, Level.ADVICE, Level.WRONG


def told(store: Path, code: range | int, **more: str) -> dict[str, dict[str, str]]:
    """Findings by their noun."""
    done = run("doctor", "--store", str(store), "--json", **more)
    assert done.returncode in (code if isinstance(code, range) else [code]), done
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    levels = [Level[each["level"].upper()] for each in findings]
    assert done.returncode == max(levels), findings
    assert all(bool(each["change"]) == (level != FINE) for each, level in zip(findings, levels, strict=True)), findings
    return {each["noun"]: each for each in findings}


def level(finding: Finding) -> Level:
    assert bool(finding.change) == (finding.level != FINE), "advice says what to change, and nothing else does"
    return finding.level


def test_limits() -> None:
    assert level(limits.of_files(resource.RLIM_INFINITY)) == level(limits.of_files(limits.FILES_GOOD)) == FINE
    assert level(limits.of_files(limits.FILES_GOOD - 1)) == level(limits.of_files(DESCRIPTORS_MIN)) == ADVICE
    assert level(limits.of_files(DESCRIPTORS_MIN - 1)) == WRONG
    assert level(limits.of_mappings(limits.MAPPINGS_GOOD)) == FINE
    assert level(limits.of_mappings(limits.MAPPINGS_GOOD - 1)) == ADVICE
    assert [level(machine.of_cores(count)) for count in (1, 2, 64)] == [ADVICE, FINE, FINE]


def test_room() -> None:
    need = shared_memory.need(2)
    assert level(shared_memory.of_room(need, need)) == FINE and level(shared_memory.of_room(need - 1, need)) == WRONG
    assert shared_memory.need(64) == shared_memory.need(4) > need
    assert [level(store.of_room(free, 100)) for free in (200, 199, 100, 99)] == [FINE, ADVICE, ADVICE, WRONG]


def test_kinds_of_file_systems() -> None:
    assert [level(store.of_kind(Mount("/x", kind))) for kind in ("ext4", "tmpfs", "nfs4")] == [FINE, ADVICE, WRONG]


def test_the_clock(tmp_path: Path) -> None:
    now = clock.EARLIEST_MS + 1_000_000
    assert level(clock.of_times(now, now + clock.TOLERATED_MS)) == FINE
    assert level(clock.of_times(now, now + clock.TOLERATED_MS + 1)) == ADVICE
    assert level(clock.of_times(clock.EARLIEST_MS - 1, 0)) == WRONG


def test_versions() -> None:
    required = ["cffi>=1.17", 'pyarrow>=18; extra == "arrow"', 'pyspark >=4.0 ; extra == "spark"']
    required.append('pandas<3,>=2.2; extra == "spark"')
    have = {"cffi": "1", "pyarrow": "17.0.1", "pyspark": "4.0.0", "pandas": "3.0"}
    found = {each.noun: level(each) for each in extras.of_packages(required, have.get)}
    assert found == {"pyarrow": ADVICE, "pyspark": FINE, "pandas": ADVICE}
    assert extras.of_packages(required, lambda name: None) == []
    assert extras.fits("18", ">=18") and extras.fits("18.1.0rc1", ">=18.1") and not extras.fits("2.1.9", ">=2.2,<3")


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.delenv("ORBITMQ_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


def test_a_store_from_nothing_to_a_death(tmp_path: Path, runtime: Path) -> None:
    folder = tmp_path / "store"
    small = {"log_file_size": 1 << 20, "handlers": 1}
    assert told(folder, range(3))["store"]["level"] == "fine" and not folder.exists(), "a look makes nothing"
    with Broker(folder, name="looked", **small) as broker:
        broker.create_topic("t", 1)
        with broker.producer() as producer:
            producer.send("t", b"x", durability="flushed")
        found = told(folder, range(3))
        assert "a broker runs on it" in found["store"]["found"]
    layout = StoreLayout.at(folder)
    found = told(folder, range(3))
    assert found["store"]["found"].endswith("stopped cleanly") and found["clock"]["level"] == "fine", found
    assert clock.newest_ms(layout) > clock.EARLIEST_MS, "the time of the message is seen"
    layout.abort.touch()
    found = told(folder, range(1, 3))
    assert found["store"]["level"] == "advice" and "recovers" in found["store"]["change"]
    layout.abort.unlink()
    later = 4_000_000_000_000
    Checkpoint(later, later, later).store(layout)
    assert told(folder, range(1, 3))["clock"]["level"] == "advice"
    layout.store_json.write_text('{"layout": 99}')
    assert told(folder, 2)["store"]["level"] == "wrong"


def test_ports(tmp_path: Path, runtime: Path) -> None:
    """Those that the store's settings name; whoever has them is named. What nobody has asked for is no advice."""
    folder = tmp_path / "store"
    free = {"gateway": True, "name_server_port": 0, "broker_port": 0}
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        who = f"process {os.getpid()} ("
        unasked = told(folder, range(3), ORBITMQ_BROKER_PORT=str(port))["ports"]
        assert unasked["level"] == "fine" and "--gateway" in unasked["found"] and who in unasked["found"]
        with Broker(folder, name="looked", log_file_size=1 << 20, handlers=1, **free) as broker:
            found = told(folder, range(3))["ports"]
            assert found["level"] == "fine" and "the broker that runs on the store has them" in found["found"], broker
        assert told(folder, range(3))["ports"] == {**found, "found": "127.0.0.1:0, 127.0.0.1:0, 127.0.0.1:0: free"}
        assert run("config", "set", f"vip_port={port}", "--store", str(folder)).returncode == 0
        found = told(folder, 2)["ports"]
        assert found["level"] == "wrong" and f"127.0.0.1:{port}, where vip_port wants it" in found["found"]
        assert who in found["found"] and "--set vip_port=... of orbitmq up" in found["change"]
        assert run("config", "set", "gateway=false", f"listen=127.0.0.1:{port}", "--store", str(folder)).returncode == 0
        found = told(folder, 2)["ports"]
        assert found["level"] == "wrong" and who in found["found"]
    assert told(folder, range(3))["ports"]["level"] == "fine"
    with (folder / "orbitmq" / "settings.toml").open("a") as file:
        file.write("no_such_setting = 1\n")
    found = told(folder, 2)
    assert "ports" not in found and "no_such_setting" in found["settings"]["found"]


def test_where_no_broker_can_be(tmp_path: Path, runtime: Path) -> None:
    (tmp_path / "file").write_text("")
    found = told(tmp_path / "file" / "store", 2)
    assert [noun for noun, each in found.items() if each["level"] == "wrong"] == ["folder"], "one cause is one finding"
    runtime.chmod(0o777)
    orbit = runtime / "orbitmq"
    orbit.mkdir()
    orbit.chmod(0o777)
    assert told(tmp_path / "store", 2)["runtime folder"]["level"] == "wrong"


def test_people_read_what_to_change(tmp_path: Path, runtime: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("doctor", "--store", str(tmp_path / "file" / "store"))
    assert done.returncode == 2 and "choose another folder" in done.stdout and "wrong, " in done.stdout.splitlines()[-1], done


@contextmanager
def left(name: str, owner: SegmentOwner) -> Iterator[None]:
    create_segment(name, 4096, sign=owner.sign).close()
    try:
        yield
    finally:
        remove_segment(name)


def test_leftovers(tmp_path: Path) -> None:
    """A segment whose maker is dead is told, and stays; one of a living maker is not."""
    lock = tmp_path / "lock"
    lock.touch()
    with lock.open() as file:
        own = SegmentOwner.here(FileId.of(file.fileno()))
    gone = SegmentOwner(own.pid, own.namespace, own.start_ticks - 1, own.lock)
    living, dead = (f"omq.{os.getpid():08x}.{part}" for part in ("living", "dead"))

    def told() -> bool:
        with left(dead, gone):
            found = dead_segments()
            said = next(each for each in shared_memory.look(runs=True) if each.noun == "leftovers")
            assert living not in found
            return dead in found and level(said) == ADVICE and (MOUNT / dead).exists()

    with left(living, own):
        until(told, "a look before a broker of another test starts, which removes what dead ones have left")
