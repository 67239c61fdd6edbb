"""Goal: memory that is passed to another process keeps its size for ever, and all of its pages."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from orbitmq.shm.memfd import create_memfd, memfd_sealed

SIZE = 1 << 16


def test_memfd_is_reserved_and_sealed() -> None:
    descriptor = create_memfd("orbitmq-test", SIZE)
    try:
        assert memfd_sealed(descriptor, SIZE)
        assert not memfd_sealed(descriptor, SIZE + 1)
        assert os.fstat(descriptor).st_blocks * 512 >= SIZE
        for size in (0, SIZE - 1, SIZE + 1):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, size)
        with mmap.mmap(descriptor, SIZE) as memory:
            memory[:5] = b"hello"
    finally:
        os.close(descriptor)


def test_an_unsealed_descriptor_is_told_from_a_sealed_one(tmp_path: Path) -> None:
    plain = os.memfd_create("orbitmq-test", os.MFD_ALLOW_SEALING)
    os.ftruncate(plain, SIZE)
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, SIZE)
    try:
        assert not memfd_sealed(plain, SIZE)
        assert not memfd_sealed(file, SIZE)
    finally:
        os.close(plain)
        os.close(file)
