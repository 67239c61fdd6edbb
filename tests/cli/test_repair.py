"""Goal: `orbitmq repair` says what it will do before it does it, does nothing without permission, and its exit code tells the
state of the store.

Method: a store that a real broker wrote, while the broker runs, after its stop, and with damage that needs a choice and that
needs none.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq
from orbitmq.client.broker.broker import Broker
from orbitmq.errors import StoreUnsupported
from orbitmq.store import access
from orbitmq.store.layout import StoreLayout
from tests.cli.commands import COMMAND, environment, run
from tests.cli.conftest import MESSAGES


def content(store: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def spoil(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff\xff")


def test_from_a_running_broker_to_a_whole_store(flows: Broker, tmp_path: Path) -> None:
    store = tmp_path / "store"
    held = run("repair", "--store", str(store), "--yes")
    assert held.returncode == 2 and "'flows'" in held.stderr and "stop it" in held.stderr, held
    flows.close()
    done = run("repair", "--store", str(store), "--yes")
    assert done.returncode == 0 and "nothing to repair" in done.stdout, done

    # Not damage, only a missing end: the command does not claim to do what it does not do.
    (store / "abort").touch()
    said = run("repair", "--store", str(store))
    assert said.returncode == 0 and "did not end" in said.stdout and "only its last end is missing" in said.stdout, said
    assert "is done now" not in said.stdout and "nothing to repair" not in said.stdout and "--yes does it" in said.stderr, said
    done = run("repair", "--store", str(store), "--yes")
    assert done.returncode == 0 and "repaired" in done.stdout and not (store / "abort").exists(), done

    # Damage that needs no choice.
    units = sorted((store / "consumequeue/flows/1").iterdir())[0]
    spoil(units, 100)
    before = content(store)
    said = run("repair", "--store", str(store))
    assert said.returncode == 1 and "made anew from the log" in said.stdout and "--yes" in said.stderr, said
    assert content(store) == before
    done = run("repair", "--store", str(store), "--yes")
    assert done.returncode == 0 and "repaired" in done.stdout, done

    # And damage that needs one.
    log = store / "commitlog" / f"{0:020d}"
    spoil(log, log.read_bytes().index(b"1234"))
    before = content(store)
    said = run("repair", "--store", str(store), "--yes")
    assert said.returncode == 1 and "--skip  gives up 1 damaged message, " in said.stdout, said
    assert "--cut  gives up 1 damaged message, " in said.stdout and content(store) == before, said
    *findings, plan, verdict = map(json.loads, run("repair", "--store", str(store), "--json").stdout.splitlines())
    assert [finding["kind"] for finding in findings] == ["log-record", "message-lost"] and all(map(deed, findings))
    assert plan["undecided"] and plan["losses"]["skip"]["damaged_messages"] == 1 and not verdict["whole"]
    assert plan["losses"]["cut"]["good_records"] == sum(place > findings[0]["offset"] for place in places(store))
    both = run("repair", "--store", str(store), "--skip", "--cut")
    assert both.returncode == 2 and "--skip and --cut" in both.stderr
    *_, verdict = map(json.loads, run("repair", "--store", str(store), "--skip", "--yes", "--json").stdout.splitlines())
    assert verdict["whole"] and verdict["repaired"] and verdict["records"] == MESSAGES
    assert run("verify", "--store", str(store)).returncode == 0


def places(store: Path) -> Iterator[int]:
    """Where the queues say that messages are."""
    for path in (store / "consumequeue").rglob("0*"):
        if path.is_file():
            yield from (place for place, size, _ in struct.iter_unpack(">QIq", path.read_bytes()) if size)


def deed(finding: dict[str, object]) -> object:
    return finding["deed"]


def test_what_it_makes_is_its_users_alone(flows: Broker, tmp_path: Path) -> None:
    """Or the group's, if the store is open to a group, whatever the umask."""
    flows.close()
    layout = StoreLayout.at(tmp_path / "store")
    for umask, group, modes in ((0o022, None, {0o600, 0o700}), (0o077, os.getegid(), {0o640, 0o2750})):
        before = os.umask(access.PRIVATE_UMASK)
        access.let(layout, group)
        os.umask(before)
        shutil.rmtree(layout.consumequeue)
        shutil.rmtree(layout.index)
        spoil(layout.log_file(0), 200)
        command = [*COMMAND, "repair", "--store", str(layout.root), "--skip", "--yes"]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, umask=umask)
        assert done.returncode == 0, done
        assert stat.S_IMODE(layout.lock.lstat().st_mode) == 0o600, "nobody else opens the lock"
        assert {stat.S_IMODE(path.lstat().st_mode) for path in layout.root.rglob("*") if path != layout.lock} == modes


def test_somebody_elses_store(flows: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker of the store's owner could not open what root would make in it."""
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(StoreUnsupported, match=f"belongs to uid {owner}"):
        access.work_as_owner(StoreLayout.at(tmp_path / "store"))


def test_no_store(tmp_path: Path) -> None:
    nothing = run("repair", "--store", str(tmp_path / "nothing"))
    assert nothing.returncode == 2 and "nothing" in nothing.stderr and "Traceback" not in nothing.stderr
    assert not (tmp_path / "nothing").exists(), "it makes nothing"


def test_a_store_of_the_usual_sizes(on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of 1 GiB and messages of up to 4 MiB; the queues are made from nothing but the log."""
    (on_disk / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(on_disk / "run"))
    with orbitmq.Broker(on_disk / "store", name="usual", handlers=1) as broker:
        broker.create_topic("flows", 1)
        with broker.producer() as producer:
            producer.send_batch("flows", [b"x"] * 100)
    (on_disk / "store/consumequeue/flows/0" / f"{0:020d}").unlink()
    done = run("repair", "--store", str(on_disk / "store"), "--yes")
    assert done.returncode == 0 and "100 records; repaired" in done.stdout, done
