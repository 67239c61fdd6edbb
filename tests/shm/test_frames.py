"""Goal: every descriptor comes with the frame that it was sent with, however frames are cut up or joined on their way. Method:
a socket pair, with a reader's buffer that the test controls."""

from __future__ import annotations

import os
import random
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orbitmq import errors
from orbitmq.shm import frames


def opened() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def inode(descriptor: int) -> int:
    return os.fstat(descriptor).st_ino


@pytest.mark.parametrize("seed", range(5))
def test_descriptors_stay_with_their_frames(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of all sizes, some with descriptors, written in bursts and read in pieces of every size."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    ours, theirs = socket.socketpair()
    with ours, theirs, closing(frames.Unpacker()) as unpacker:
        for sock in (ours, theirs):
            sock.setblocking(False)
        files = [os.memfd_create(f"file-{number}") for number in range(6)]
        sent: list[tuple[int, list[int]]] = []
        got: list[tuple[int, list[int]]] = []
        while len(got) < 300:
            for _ in range(rng.randrange(4)):
                beside = tuple(rng.sample(files, rng.choice([0, 0, 1, 1, 2, 4])))
                message: dict[str, Any] = {"number": len(sent), "filling": b"x" * rng.choice([0, 1, 7, 300])}
                frames.send(ours, message, beside)
                sent.append((len(sent), [inode(each) for each in beside]))
            size = rng.choice([1, 3, 64, 1 << 16])
            found = _received(theirs, unpacker, size)
            for frame in found:
                got.append((frame.message["number"], [inode(each) for each in frame.descriptors]))
                for descriptor in frame.descriptors:
                    os.close(descriptor)
            if len(sent) - len(got) > 40:  # the buffer is not to fill up
                while sent[len(got) :]:
                    for frame in _received(theirs, unpacker, 1 << 16):
                        got.append((frame.message["number"], [inode(each) for each in frame.descriptors]))
                        for descriptor in frame.descriptors:
                            os.close(descriptor)
        for each in files:
            os.close(each)
        assert got == sent[: len(got)]


def _received(sock: socket.socket, unpacker: frames.Unpacker, size: int) -> list[frames.Frame]:
    """frames.receive with a buffer of that size."""

    class Narrow:
        def recvmsg(self, _: int, *rest: int) -> Any:
            return sock.recvmsg(size, *rest)

    try:
        return frames.receive(Narrow(), unpacker) or []  # type: ignore[arg-type]
    except BlockingIOError:
        return []


def test_a_frame_that_is_none_keeps_no_descriptors() -> None:
    """They are closed with the unpacker."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        unpacker = frames.Unpacker(limit=10)
        file = os.memfd_create("file")
        before = opened()
        frames.send(ours, {"long": b"x" * 100}, (file,))
        with pytest.raises(errors.ProtocolError):
            frames.receive(theirs, unpacker)
        unpacker.close()
        assert opened() <= before  # others may be collected meanwhile
        os.close(file)
