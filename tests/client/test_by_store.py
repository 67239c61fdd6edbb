"""Goal: a client that knows a store finds the broker that runs on it, whatever happened to the runtime folder. Method: real
trees, and clients that look elsewhere. Of client/connection/whereabouts.py."""

from __future__ import annotations

import asyncio
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import orbitmq
from orbitmq import aio, errors
from orbitmq.shm import runtime
from tests.actors.users import SOMEBODY, STRANGER, only_root
from tests.client.pauses import waiting
from tests.client.restarts import Restarts
from tests.client.test_wait import PATIENT_S, killed
from tests.trees import small_broker, stopped
from tests.waiting import WATCHDOG_S, until


def test_another_runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_broker(tmp_path / "store") as broker:
        broker.create_topic("orders", 1)
        monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(tmp_path / "elsewhere"))
        with pytest.raises(errors.BrokerNotRunning):
            orbitmq.connect(broker.name)
        monkeypatch.chdir(tmp_path)
        with orbitmq.connect(store="store") as client, client.producer() as producer:
            assert client.name == broker.name
            assert producer.send("orders", b"found").offset == 0

        async def main() -> int:
            async with aio.connect(store=tmp_path / "store") as found:
                return len(await found.topics())

        assert asyncio.run(main()) == 1
        monkeypatch.undo()


def test_a_runtime_folder_that_was_cleared(tmp_path: Path) -> None:
    """Without the description; the broker makes the socket again, for a client that waits."""
    with small_broker(tmp_path / "store") as broker:
        runtime.description_path(broker.name).unlink()
        with orbitmq.connect(store=tmp_path / "store") as client:
            assert client.create_topic("orders").queues == 8
        runtime.socket_path(broker.name).unlink(missing_ok=True)
        with orbitmq.connect(store=tmp_path / "store", timeout=PATIENT_S) as client:
            assert client.create_topic("orders").queues == 8


def test_a_copy_of_a_store(tmp_path: Path) -> None:
    """It names the original's broker, and is not that broker's store."""
    with small_broker(tmp_path / "store"):
        shutil.copytree(tmp_path / "store", tmp_path / "copy")
        with pytest.raises(errors.BrokerNotRunning, match=r"copy.*none runs on it; start it: orbitmq up --store"):
            orbitmq.connect(store=tmp_path / "copy")
    with pytest.raises(errors.BrokerNotRunning):
        orbitmq.connect(store=tmp_path / "store")
    with pytest.raises(errors.BrokerNotRunning):
        orbitmq.connect(store=tmp_path / "none")
    with pytest.raises(errors.SettingError, match="either the name or the store, not both"):
        orbitmq.connect("name", store=tmp_path / "store")


def test_waiting_for_the_broker_of_a_store(tmp_path: Path) -> None:
    """From before such a folder exists, and under another name the next time."""
    with Restarts(tmp_path / "store") as tree, ThreadPoolExecutor(1) as other:
        connecting = other.submit(orbitmq.connect, store=tmp_path / "store", wait=PATIENT_S)
        until(waiting, "it to wait")
        tree.start()
        with connecting.result(WATCHDOG_S) as client, client.producer() as producer:
            client.create_topic("orders", 1)
            assert producer.send("orders", b"").offset == 0
            killed(tree, producer)
            sending = other.submit(producer.send, "orders", b"")
            until(waiting, "it to wait")
            tree.name = f"{tree.name}-again"
            tree.start()
            assert sending.result(WATCHDOG_S).offset == 1
            assert client.name == tree.name


@only_root
@pytest.mark.parametrize(("owner", "mode"), [(STRANGER, 0o700), (STRANGER, 0o755), (0, 0o777), (0, 0o770)])
def test_a_runtime_folder_that_somebody_else_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, mode: int
) -> None:
    """Goal: nobody can replace a broker whose runtime folder was removed. Method: the folder is moved, and another user's
    folder is in the place that the store names, with a socket in it."""
    folder = tmp_path / "runtime"
    monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(folder))
    with small_broker(tmp_path / "store") as broker:
        with stopped(broker, "supervisor"):  # it would make its own again, as long as it trusts the folder
            folder.rename(tmp_path / "moved")
            folder.mkdir()
            folder.chmod(mode)
            os.chown(folder, owner, owner)
            for path in (tmp_path / "moved").glob("*.sock"):
                (folder / path.name).hardlink_to(path)  # as good as that of an impostor who speaks the protocol
        monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(tmp_path / "moved"))
        with pytest.raises(errors.SettingError, match=f"cannot trust the runtime folder {folder}"):
            orbitmq.connect(store=tmp_path / "store")
        os.chown(folder, 0, 0)
        folder.chmod(0o755)
        orbitmq.connect(store=tmp_path / "store").close()
        # A store of somebody's, whose runtime folder is theirs.
        os.chown(folder, SOMEBODY, SOMEBODY)
        os.chown(tmp_path / "store/orbitmq", SOMEBODY, SOMEBODY)
        orbitmq.connect(store=tmp_path / "store").close()
