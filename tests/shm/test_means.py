"""Goal: a missing resource is distinguished from all other failures, and named with its limit."""

from __future__ import annotations

import errno
import os
import resource

import pytest

from orbitmq import errors
from orbitmq.shm.means import lacking, means


@pytest.mark.parametrize(
    ("raised", "limit"),
    [
        (OSError(errno.EMFILE, "x"), "descriptors"),
        (OSError(errno.ENFILE, "x"), "descriptors of the machine"),
        (OSError(errno.ENOMEM, "x"), "memory"),
        (MemoryError(), "memory"),
        (ImportError("lib.so: failed to map segment from shared object"), "memory"),
        (ImportError(f"lib.so: cannot open shared object file: {os.strerror(errno.EMFILE)}"), "descriptors"),
        (RuntimeError("can't start new thread"), "threads"),
    ],
)
def test_what_is_short(raised: Exception, limit: str) -> None:
    found = lacking(raised, "connect")
    assert isinstance(found, errors.NoMeans) and found.limit == limit and found.message.startswith("could not connect: ")
    assert found.hint


@pytest.mark.parametrize(
    "raised",
    [OSError(errno.EACCES, "x"), ImportError("no module"), RuntimeError("x"), errors.TimedOut("x"), errors.NoMeans("x")],
)
def test_what_is_something_else(raised: Exception) -> None:
    assert lacking(raised, "connect") is raised
    with pytest.raises(type(raised)) as caught, means("connect"):
        raise raised
    assert caught.value is raised


def test_the_cause_stays_and_the_limit_is_in_the_text() -> None:
    cause = OSError(errno.EMFILE, "x")
    with pytest.raises(errors.NoMeans) as caught, means("open the log"):
        raise cause
    assert caught.value.__cause__ is cause and caught.value.errno == errno.EMFILE
    assert f"{resource.getrlimit(resource.RLIMIT_NOFILE)[0]:,}" in caught.value.message
    found = lacking(MemoryError(), "x")
    assert isinstance(found, errors.NoMeans) and "mappings" in found.message


def test_other_exceptions_pass() -> None:
    with pytest.raises(ValueError, match="x"), means("connect"):
        raise ValueError("x")
