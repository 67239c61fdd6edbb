"""Goal: a process that shares too little with a broker is told so, and a dead broker counts as none. Method: descriptions of
brokers in other namespaces, beside a control socket that somebody serves or nobody does. tests/cli/test_containers.py has real
namespaces."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from orbitmq.client.connection.whereabouts import ByName
from orbitmq.errors import BrokerNotRunning, NoPermission, SettingError
from orbitmq.shm import runtime
from orbitmq.shm.apart import check_reach, lives_elsewhere


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "default.sock"


def described(**changes: int) -> runtime.Description:
    ticks = runtime.start_ticks(os.getpid())
    assert ticks is not None
    here = runtime.Description("default", os.getpid(), ticks, "store", 1, "0", runtime.boot_id(), "")
    return replace(here, namespace=runtime.pid_namespace(), memory=runtime.memory_device(), **changes)


def other_namespace() -> runtime.Description:
    return replace(described(), namespace=runtime.pid_namespace() + 1, pid=2**22)


def test_a_broker_of_another_namespace(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as served:
        served.bind(str(path))
        check_reach(other_namespace(), path)  # nobody listens: it is dead
        served.listen(0)
        for _ in range(3):  # the last ones find no room to wait in
            with pytest.raises(SettingError, match=r"another pid namespace.*--pid=container:BROKER.*shareProcessNamespace"):
                check_reach(other_namespace(), path)
        check_reach(described(), path)
        check_reach(replace(described(), namespace=0), path)  # an earlier version, which did not say
    assert not lives_elsewhere(other_namespace(), path), "nobody serves its socket any more"
    path.unlink()
    check_reach(other_namespace(), path)


def test_a_broker_with_other_memory(path: Path) -> None:
    with pytest.raises(SettingError, match=r"its shared memory is in another /dev/shm.*--ipc=container:BROKER.*emptyDir"):
        check_reach(replace(described(), memory=runtime.memory_device() + 1), path)
    check_reach(replace(described(), memory=0), path)
    check_reach(replace(described(), memory=runtime.memory_device() + 1, start_ticks=1), path)  # it is dead


def test_a_broker_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: who looks where no broker of theirs is learns where others' may be. Method: a folder named like that of another
    user, and folders that are not."""
    monkeypatch.setattr(runtime, "_PLACE", tmp_path)
    monkeypatch.delenv("ORBITMQ_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    mine = tmp_path / f"orbitmq-{os.getuid()}"
    mine.mkdir(mode=0o700)
    (tmp_path / "orbitmq-file").touch()
    assert runtime.folders_of_others() == []
    alone = str(ByName("default").absent(starting=False))
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    assert runtime.folders_of_others() == [mine]
    told = ByName("default").absent(starting=False)
    assert isinstance(told, BrokerNotRunning)
    assert f"ORBITMQ_RUNTIME_DIR={mine}" in str(told) and "ORBITMQ_RUNTIME_DIR" not in alone
    monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(mine))
    assert runtime.folders_of_others() == []


def test_a_description_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBITMQ_RUNTIME_DIR", str(tmp_path))

    def refused(path: Path) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", refused)
    with pytest.raises(NoPermission, match=r"may not read .*default.json, and the folder belongs to uid") as caught:
        runtime.read_description("default")
    assert caught.value.maker == os.getuid() and f"run this program as uid {os.getuid()}" in str(caught.value.hint)
