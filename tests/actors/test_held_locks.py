"""Goal: no other user can keep a broker from starting. Method: a member of the broker's group locks whatever it can open, in a
runtime folder like systemd's, while the broker is started again."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

import orbitmq
from tests.actors.users import GROUP, GROUP_NAME, SOMEBODY, STRANGER, become, only_root, outcome
from tests.trees import small_broker

pytestmark = only_root


def state() -> str:
    with orbitmq.connect("let") as client:
        return client.status().state


def lock_all(paths: list[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)


def test_a_member_keeps_no_broker_from_starting(folder: Path) -> None:
    (folder / "run").mkdir()
    (folder / "run").chmod(0o755)
    with small_broker(folder / "store", group=GROUP_NAME, name="let"):
        assert outcome(state, STRANGER, STRANGER, GROUP) == "running"
        assert outcome(state, SOMEBODY, SOMEBODY).startswith("NoPermission")
        paths = [folder / "run", folder / "store", *folder.rglob("run/*"), *folder.rglob("store/**/*")]
    held, hold = os.pipe()
    wait, go = os.pipe()
    member = os.fork()
    if member == 0:
        try:
            os.close(go)
            become(STRANGER, STRANGER, GROUP)
            lock_all(paths)
            os.write(hold, b"x")
            os.read(wait, 1)
        finally:
            os._exit(0)
    assert os.read(held, 1) == b"x"
    for _ in range(2):
        with small_broker(folder / "store", group=GROUP_NAME, name="let"):
            assert state() == "running"
    assert stat.S_IMODE((folder / "run").stat().st_mode) == 0o755
    for descriptor in (held, hold, wait, go):
        os.close(descriptor)
    os.waitpid(member, 0)
