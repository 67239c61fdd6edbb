"""Goal: whoever meets a write that failed is told what would help, and how much room there is. Method: errors of the system, as
the kernel raises them and made here, through every place that tells of them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from orbitmq import errors
from orbitmq.errors.remedy import library
from orbitmq.shm.disk_fault import byte_count, said, shortage, way_out
from orbitmq.shm.frames import error_map, error_raised
from orbitmq.store.file_system import disk_error
from tests.cli.commands import run

WRITES = [
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EFBIG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ESTALE,
]


@pytest.mark.parametrize("number", WRITES, ids=errno.errorcode.__getitem__)
def test_every_failed_write_has_a_hint(number: int) -> None:
    error = OSError(number, os.strerror(number), "/data/{orders}")
    remedy = way_out(error)
    assert remedy is not None and said(error) == f"{os.strerror(number)}: '/data/{{orders}}'"
    assert "{}" not in str(remedy.spelled(library))
    # A sync names no file.
    assert way_out(OSError(number, os.strerror(number))) is not None


@pytest.mark.parametrize("number", WRITES, ids=errno.errorcode.__getitem__)
def test_the_store_says_it(tmp_path: Path, number: int) -> None:
    """Goal: the error of a write or a sync in the store has the hint."""
    error = disk_error(OSError(number, os.strerror(number)), tmp_path, 4096, "the checkpoint")
    kind = errors.StoreFull if number in (errno.ENOSPC, errno.EDQUOT) else errors.StoreFailed
    assert type(error) is kind and error.hint and error.message.startswith("could not ")


@pytest.mark.parametrize("number", WRITES, ids=errno.errorcode.__getitem__)
def test_the_broker_says_it(number: int) -> None:
    """Goal: what the coordinator did not expect reaches the client with a hint too, and without Python's words."""
    told = error_raised(error_map(OSError(number, os.strerror(number), "/data/topics.json")))
    assert type(told) is errors.BrokerError and told.hint and "Errno" not in str(told) and "OSError" not in str(told)


def test_a_bug_asks_to_be_reported() -> None:
    told = error_raised(error_map(KeyError("colour")))
    assert "KeyError: 'colour'" in told.message and "report it" in str(told.hint)


def test_no_hint_without_a_number() -> None:
    assert way_out(OSError("strange")) is None and said(OSError("strange")) == "strange"


def test_the_command_says_it(tmp_path: Path) -> None:
    """Goal: an OSError of a file ends in one line and a hint. Method: a store whose folder is a file."""
    (tmp_path / "file").write_text("")
    for words in (("verify", "--store"), ("repair", "--yes", "--store")):
        done = run(*words, str(tmp_path / "file"))
        assert done.returncode and "error:" in done.stderr and "hint:" in done.stderr and "[Errno" not in done.stderr, (
            done.stderr
        )


def test_sizes() -> None:
    assert [byte_count(size) for size in (0, 1536, 64 << 20)] == ["0 bytes", "1.5 KiB", "64.0 MiB"]
    assert shortage(12 << 20, 64 << 20) == "12 MiB free, 64 MiB needed"
    assert shortage((23 << 30) - 1, 23 << 30) == "24,696,061,951 bytes free, 24,696,061,952 needed"
