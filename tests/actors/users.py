"""Other users of the machine for tests: forks of this process that change to another user."""

from __future__ import annotations

import grp
import os
import pickle
from collections.abc import Callable, Iterable
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
    [told] = outcomes([work], uid, gid, *groups)
    return told


def outcomes(works: Iterable[Callable[[], Any]], uid: int, gid: int = STRANGER, *groups: int) -> list[Any]:
    """The same of several, one after the other in one process: a fork of the tests costs more than most works."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            become(uid, gid, *groups)
            with os.fdopen(writer, "wb") as answer:
                pickle.dump([_told(work) for work in works], answer)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        content = told.read()
    os.waitpid(child, 0)
    assert content, "the fork could not even say what went wrong"
    found: list[Any] = pickle.loads(content)
    return found


def _told(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
