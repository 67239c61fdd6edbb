"""Goal: other users of the machine can neither read nor write unless the operator lets their group in; and then they write only
through the broker, and cannot stop it. Method: real trees of this user, and forks that change to another user."""

from __future__ import annotations

import grp
import os
import re
import socket
import stat
from functools import partial
from pathlib import Path

import pytest

import orbitmq
from orbitmq.actors.coordinator.peer import Peer
from orbitmq.errors import NoPermission, SettingError
from orbitmq.shm import runtime
from orbitmq.shm.segment import MOUNT, segment_name
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.tree_settings import tree_settings
from orbitmq.store.verify.verify import verify
from orbitmq.tables import extents
from tests.actors.users import GROUP, GROUP_NAME, SOMEBODY, STRANGER, become, only_root, outcome, outcomes
from tests.trees import SMALL, segments, small_broker
from tests.waiting import WATCHDOG_S, until

pytestmark = only_root


def everything(folder: Path, broker: orbitmq.Client) -> dict[Path, os.stat_result]:
    """Everything of the broker that has a name, and keeps it: files that replace others come and go."""
    ahead = 2 * SMALL["log_file_size"]  # until then there may be a file in orbitmq/allocating
    until(lambda: broker.status().positions.allocated == ahead, "the next file of the log")
    named = [MOUNT / name for name in segments(broker.connection.attachment.generation)]
    named += [folder / "run", folder / "store", *folder.rglob("run/*"), *folder.rglob("store/**/*")]
    return {path: path.lstat() for path in named if path.suffix != ".tmp"}


def use(name: str) -> list[bytes]:
    """Sends and reads, as any client does."""
    with orbitmq.connect(name) as client:
        producer = client.producer()
        producer.send("t", b"x", durability="flushed")
        with client.consumer(f"group-{os.getuid()}", topics=["t"], start="earliest") as consumer:
            bodies = [bytes(message) for message in consumer.poll_batch(1, timeout=240)]
            consumer.commit()
        client.status()
        return bodies


def faults(store: Path) -> list[str]:
    layout, found = StoreLayout.at(store), []
    verify(layout, layout.settings(), lambda finding: found.append(str(finding)))
    return found


def opened(path: Path, flags: int) -> str:
    os.close(os.open(path, flags))
    return "opened"


def stop(name: str) -> None:
    with orbitmq.connect(name) as client:
        client.connection.ask("stop")


def test_nobody_else(folder: Path) -> None:
    with small_broker(folder / "store") as broker:
        broker.create_topic("t", 1)
        assert use(broker.name) == [b"x"]
        tries = []
        for path, status in everything(folder, broker).items():
            assert status.st_mode & 0o077 == 0, path
            for flags in (os.O_RDONLY,) if stat.S_ISDIR(status.st_mode) else (os.O_RDONLY, os.O_RDWR):
                tries.append((path, flags))
        told_of = outcomes([partial(opened, *each) for each in tries], STRANGER, STRANGER, GROUP)
        for each, told in zip(tries, told_of, strict=True):
            assert told.startswith("PermissionError"), (each, told)
        told = outcome(lambda: use(broker.name), STRANGER)
        assert told.startswith("NoPermission: could not use the broker"), told
        assert "group" in told
        assert outcome(lambda: faults(folder / "store"), STRANGER).startswith(("StoreUnsupported", "PermissionError"))


def test_the_door_looks_for_itself(folder: Path) -> None:
    """Goal: loosened modes let nobody in."""
    with small_broker(folder / "store") as broker:
        broker.create_topic("t", 1)
        use(broker.name)
        (folder / "run").chmod(0o750)
        os.chown(folder / "run", -1, GROUP)
        for path in (runtime.socket_path(broker.name), runtime.description_path(broker.name)):
            path.chmod(0o666)
        for part in ("ctl", "top"):
            (MOUNT / segment_name(broker.connection.attachment.generation, part)).chmod(0o666)
        told = outcome(lambda: use(broker.name), STRANGER, STRANGER, GROUP)
        assert told.startswith(f"NoPermission: cannot serve uid {STRANGER}: this broker admits only root;"), told
        (folder / "run").chmod(0o755)
        told = outcome(lambda: use(broker.name), STRANGER)
        assert told.startswith(f"NoPermission: cannot serve uid {STRANGER}: this broker admits only root;"), told
        for mode in (0o770, 0o757):
            (folder / "run").chmod(mode)
            told = outcome(lambda: use(broker.name), STRANGER, STRANGER, GROUP)
            assert told.startswith("SettingError: cannot trust the runtime folder"), told
        (folder / "run").chmod(0o755)
        generation = broker.connection.attachment.generation
    assert not segments(generation)
    assert list((folder / "run").iterdir()) == []


@pytest.mark.parametrize(("gid", "groups"), [(STRANGER, (GROUP,)), (GROUP, ())], ids=["also", "first"])
def test_a_member_of_the_group(folder: Path, gid: int, groups: tuple[int, ...]) -> None:
    """It sends, receives, reads the files; but writes no file, makes no name, and stops nothing."""
    with small_broker(folder / "store", group=GROUP_NAME, timeout=WATCHDOG_S) as broker:
        broker.create_topic("t", 1)
        assert use(broker.name) == [b"x"]
        broker.work_session("w", ["t"]).close()
        assert (folder / "store" / "orbitmq" / "workers" / "w" / "t.0").exists()
        assert faults(folder / "store") == []
        assert len(extents.of(folder / "store").topics) == 1
        shut = {folder / "store" / "lock"}
        lanes = {MOUNT / name for name in segments(broker.connection.attachment.generation) if re.search(r"\.l\d\d$", name)}
        assert len(lanes) > 2
        shut |= lanes
        named = everything(folder, broker)
        for path, status in named.items():
            assert status.st_mode & 0o007 == 0, path
            assert path not in shut or status.st_mode & 0o077 == 0, path
        told_of = outcomes([partial(opened, path, os.O_RDONLY) for path in named], SOMEBODY, SOMEBODY)
        for path, told in zip(named, told_of, strict=True):
            assert told.startswith("PermissionError"), (path, told)
        files = [path for path, status in named.items() if stat.S_ISREG(status.st_mode)]
        told_of = outcomes([partial(opened, path, os.O_RDWR) for path in files], STRANGER, gid, *groups)
        for path, told in zip(files, told_of, strict=True):
            assert told.startswith("PermissionError"), (path, told)
        told_of = outcomes([partial(opened, path, os.O_RDONLY) for path in files], STRANGER, gid, *groups)
        for path, told in zip(files, told_of, strict=True):
            assert told.startswith("PermissionError" if path in shut else "opened"), (path, told)
        folders = [path for path, status in named.items() if stat.S_ISDIR(status.st_mode)]
        told_of = outcomes([(path / "new").touch for path in folders], STRANGER, gid, *groups)
        for path, told in zip(folders, told_of, strict=True):
            assert told.startswith("PermissionError"), (path, told)
        assert outcome(lambda: use(broker.name), STRANGER, gid, *groups) == [b"x"]
        assert outcome(lambda: faults(folder / "store"), STRANGER, gid, *groups) == []
        assert outcome(lambda: len(extents.of(folder / "store").topics), STRANGER, gid, *groups) == 1
        told = outcome(lambda: stop(broker.name), STRANGER, gid, *groups)
        assert told.startswith(f"NoPermission: cannot stop the broker {broker.name!r} for uid {STRANGER}"), told
        told = outcome(lambda: use(broker.name), SOMEBODY, SOMEBODY)
        assert told.startswith("NoPermission"), told
        assert broker.status().state == "running"
        broker.stop_broker()
    with small_broker(folder / "store", group="") as broker:
        assert outcome(lambda: faults(folder / "store"), STRANGER, gid, *groups).startswith(("StoreUnsup", "PermissionError"))
        assert outcome(lambda: use(broker.name), STRANGER, gid, *groups).startswith("NoPermission")


@pytest.mark.parametrize(
    ("uid", "groups", "group", "rules"),
    [
        (0, (0,), None, True),
        (STRANGER, (STRANGER,), None, True),
        (SOMEBODY, (SOMEBODY,), None, None),
        (SOMEBODY, (SOMEBODY, GROUP), None, None),
        (SOMEBODY, (SOMEBODY, GROUP), GROUP, False),
        (SOMEBODY, (GROUP,), GROUP, False),
        (SOMEBODY, (STRANGER, *range(2, 60)), GROUP, None),
        (SOMEBODY, (STRANGER, *range(60)), GROUP, False),
    ],
)
def test_who_is_served_by_a_broker_that_is_not_roots(
    folder: Path, uid: int, groups: tuple[int, ...], group: int | None, rules: bool | None
) -> None:
    """rules: whether this user may stop the broker; None: it is not served at all."""
    folder.chmod(0o777)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"{folder}/socket")
    (folder / "socket").chmod(0o666)
    listener.listen()
    client = os.fork()
    if client == 0:
        try:
            become(uid, *groups)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.connect(f"{folder}/socket")
                sock.recv(1)
        finally:
            os._exit(0)

    def serve() -> bool | None:
        sock, _ = listener.accept()
        try:
            return Peer(sock, group).caller.rules
        except NoPermission:
            return None

    assert outcome(serve, STRANGER) is rules
    listener.close()
    os.waitpid(client, 0)


def test_groups_that_cannot_be(folder: Path) -> None:
    def refused() -> str:
        tree_settings(str(folder), {"group": GROUP_NAME})
        return "taken"

    told = outcome(refused, STRANGER)
    assert told.startswith(f"SettingError: cannot set group to {GROUP_NAME!r}: uid {STRANGER} does not belong to it"), told
    assert outcome(refused, STRANGER, STRANGER, GROUP) == "taken"
    for name in ("no such group", 1, ["daemon"]):
        with pytest.raises(SettingError, match="this machine has no group of this name"):
            tree_settings(str(folder), {"group": name})


def test_one_runtime_folder_is_let_to_one_group(folder: Path) -> None:
    """Brokers that are open to no group may share it."""
    with small_broker(folder / "store", group=GROUP_NAME), small_broker(folder / "private") as private:
        use_of_it = outcome(lambda: use(private.name), STRANGER, STRANGER, GROUP)
        assert use_of_it.startswith("NoPermission"), use_of_it
        with pytest.raises(SettingError, match="it is let to the group 1 already"):
            orbitmq.Broker(folder / "other", group=grp.getgrgid(2).gr_name)
