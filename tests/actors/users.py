"""Other users of the machine for tests: forks of this process that change to another user."""

from __future__ import annotations

import grp
import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

STRANGER, SOMEBODY = 65534, 65533
GROUP = 1
GROUP_NAME = grp.getgrgid(GROUP).gr_name


def become(uid: int, gid: int, *groups: int) -> None:
    os.setgroups(groups)
    os.setgid(gid)
    os.setuid(uid)


def outcome(work: Callable[[], Any], uid: int, gid: int = STRANGER, *groups: int) -> Any:
    """What the work returns if this user does it, or the name of the error that it raises, with its text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            become(uid, gid, *groups)
            try:
                told = work()
            except Exception as error:
                told = f"{type(error).__name__}: {error}"
            os.write(writer, pickle.dumps(told))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        content = answer.read()
    os.waitpid(child, 0)
    assert content, "the fork could not even say what went wrong"
    return pickle.loads(content)
