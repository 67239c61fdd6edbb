"""Goal: a copy has the bytes, times and mode of its file, and room on the disk.

Method: sparse files, and a file system that has reflinks, which is simulated.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbitmq.store.backup import file_copy

CONTENTS = {
    "empty": b"",
    "zeros": bytes(3 << 20),
    "a hole": b"a" + bytes(2 << 20) + b"b",
    "the middle": bytes(1 << 20) + b"c" * 5000 + bytes(100),
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
@pytest.mark.parametrize("reserve", [False, True])
def test_copies(tmp_path: Path, content: bytes, reserve: bool) -> None:
    source, target, grown = tmp_path / "source", tmp_path / "target", []
    source.write_bytes(content)
    source.chmod(0o640)
    os.utime(source, ns=(5, 7))
    assert file_copy.copy(source, target, grown.append, reserve=reserve) == any(content)
    status = target.stat()
    assert target.read_bytes() == content and sum(grown) == len(content)
    assert (status.st_mode & 0o7777, status.st_mtime_ns) == (0o640, 7)
    assert not reserve or status.st_blocks * 512 >= len(content)


def test_gone_or_there(tmp_path: Path) -> None:
    """Nothing is made if the source is gone, and nothing is overwritten."""
    with pytest.raises(FileNotFoundError):
        file_copy.copy(tmp_path / "source", tmp_path / "target", lambda size: None, reserve=False)
    assert not list(tmp_path.iterdir())
    (tmp_path / "source").write_bytes(b"new")
    (tmp_path / "target").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        file_copy.copy(tmp_path / "source", tmp_path / "target", lambda size: None, reserve=False)


def test_reflinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are asked for closed files only: a file that will be written needs room of its own."""
    asked = []

    def ioctl(target: int, request: int, source: int) -> None:
        asked.append(request)
        os.pwrite(target, os.pread(source, 100, 0), 0)

    monkeypatch.setattr(file_copy.fcntl, "ioctl", ioctl)
    (tmp_path / "source").write_bytes(b"shared")
    assert file_copy.copy(tmp_path / "source", tmp_path / "one", lambda size: None, reserve=False)
    assert asked == [0x40049409] and (tmp_path / "one").read_bytes() == b"shared"
    assert file_copy.copy(tmp_path / "source", tmp_path / "two", lambda size: None, reserve=True)
    assert len(asked) == 1 and (tmp_path / "two").read_bytes() == b"shared"

    def broken(target: int, request: int, source: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(file_copy.fcntl, "ioctl", broken)
    with pytest.raises(OSError, match="Input/output"):
        file_copy.copy(tmp_path / "source", tmp_path / "three", lambda size: None, reserve=False)


def test_same(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.write_bytes(bytes(9000))
        os.utime(path, ns=(1, 1))
    assert file_copy.same(one, other)
    for at in (0, 8999):
        content = bytearray(9000)
        content[at] = 1
        other.write_bytes(content)
        os.utime(other, ns=(1, 1))
        assert not file_copy.same(one, other)
    other.write_bytes(bytes(9000))
    os.utime(other, ns=(1, 2))
    assert not file_copy.same(one, other)
    other.write_bytes(bytes(8999))
    os.utime(other, ns=(1, 1))
    assert not file_copy.same(one, other) and not file_copy.same(tmp_path / "none", one)
