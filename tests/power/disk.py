"""A simulated disk under a real folder: which of its content certainly survives a power cut, and what else may.

The folder itself is what processes see, page cache included. Beside it the disk remembers, for every file and folder, what its
last sync has made certain, and every state that was seen since. A power cut leaves one of the many possible images, drawn at
random:

    file      each page of 4 KiB in any state since its last sync; a page may be torn into sectors of 512 bytes, each in any
              of those states; the length likewise. A file that was never synced may be empty.
    folder    each name as it was at the folder's last sync, or as it has been since: made or not, removed or still there.
              Syncing a file says nothing of its name.

That is harsher than most file systems, which keep an order among some of these. States are taken at every sync, just before it
counts, and at the end of every step of the test.

A sync of a file may fail (Failure). As with Linux, its pages then count as written: memory continues to show the newest state,
the disk has any of them, and a later sync, which succeeds, makes certain only what was written since. A page that is written
again is like new, even with the same bytes, which only the shim sees. So a store through a mapping that changes nothing does
not count here. Nobody writes names again, and their syncs do not fail (docs/recovery.md, "Syncs that failed").
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeVar

PAGE, SECTOR = 4096, 512
STATES_MAX = 6  # number of states kept for a page, besides the one that is certain

_T = TypeVar("_T")
_SyncHook = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_WriteHook = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int64, ctypes.c_size_t)


@dataclass(slots=True)
class Failure:
    """Which syncs fail: those of files whose path under the root matches `pattern`, `count` of them after the first `skip`."""

    pattern: str
    skip: int
    count: int

    def strikes(self, path: str) -> bool:
        if not self.count or not fnmatch(path, self.pattern):
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.count -= 1
        return True


@dataclass(slots=True)
class File:
    """states[page], sizes: the first is certain, the last is what processes see. taken_for_written: pages that a failed sync
    has left clean."""

    descriptor: int  # open, so that its inode's number is given to nobody else
    content: bytes = b""
    sizes: list[int] = field(default_factory=lambda: [0])
    states: list[list[bytes]] = field(default_factory=list)
    taken_for_written: set[int] = field(default_factory=set)

    def look(self) -> None:
        content = os.pread(self.descriptor, os.fstat(self.descriptor).st_size, 0)
        if content == self.content:
            return
        if len(content) != self.sizes[-1]:
            self.sizes.append(len(content))
        for page in range(-(-len(content) // PAGE)):
            if page == len(self.states):
                self.states.append([bytes(PAGE)])
            now = content[page * PAGE : (page + 1) * PAGE].ljust(PAGE, b"\0")
            states = self.states[page]
            if now != states[-1]:
                if len(states) > STATES_MAX:
                    del states[1]
                states.append(now)
                self.taken_for_written.discard(page)
        self.content = content

    def sync(self, begin: int = 0, end: int = 1 << 62) -> None:
        self.sizes = self.sizes[-1:]
        for page in self._pages(begin, end):
            if page not in self.taken_for_written:
                self.states[page] = self.states[page][-1:]

    def fail(self, begin: int = 0, end: int = 1 << 62) -> None:
        """A sync fails: it is not known what it has written, and nobody writes it again."""
        self.taken_for_written.update(page for page in self._pages(begin, end) if len(self.states[page]) > 1)

    def written(self, begin: int, end: int) -> None:
        self.taken_for_written.difference_update(range(begin // PAGE, -(-end // PAGE)))

    def _pages(self, begin: int, end: int) -> range:
        return range(begin // PAGE, min(len(self.states), -(-end // PAGE)))

    def left(self, rng: random.Random, loss: float) -> bytes:
        """A possible state after a power cut."""
        size = _pick(rng, self.sizes, loss)
        pages = bytearray()
        for states in self.states[: -(-size // PAGE)]:
            if len(states) > 1 and rng.random() < 0.3:
                for at in range(0, PAGE, SECTOR):
                    pages += _pick(rng, states, loss)[at : at + SECTOR]
            else:
                pages += _pick(rng, states, loss)
        return bytes(pages[:size])


@dataclass(slots=True)
class Folder:
    """names[name]: inodes to which it has led since the last sync, 0 for none; the first is certain, the last is now."""

    descriptor: int
    names: dict[str, list[int]] = field(default_factory=dict)

    def look(self, now: dict[str, int]) -> None:
        for name in self.names.keys() | now.keys():
            states = self.names.setdefault(name, [0])
            inode = now.get(name, 0)
            if states[-1] != inode:
                states.append(inode)

    def sync(self) -> None:
        self.names = {name: states[-1:] for name, states in self.names.items() if states[-1]}


def _pick(rng: random.Random, states: list[_T], loss: float) -> _T:
    if len(states) == 1 or rng.random() < loss:
        return states[0]
    return states[-1] if rng.random() < 0.5 else rng.choice(states)


class Disk:
    """The disk under `root`. Everything there counts as synced at first.

    before_sync: called when something is about to be synced, and has not been yet. lies: for a path, True if its syncs do
        nothing: a defect, for tests of the test. failure: the syncs that fail.

    Its paths are strings: a Path takes longer to make than a file to look at, and each is looked at thousands of times.
    """

    def __init__(self, root: Path, lies: Callable[[str], bool] = lambda path: False) -> None:
        self.root = root
        self.before_sync: Callable[[], None] = lambda: None
        self.failure = Failure("", 0, 0)
        self._lies = lies
        self._nodes: dict[int, File | Folder] = {}
        self._root = root.stat().st_ino
        self.look()
        for node in self._nodes.values():
            node.sync()

    def close(self) -> None:
        for node in self._nodes.values():
            os.close(node.descriptor)
        self._nodes.clear()

    def look(self) -> None:
        """Records what has changed."""
        self._look_at(str(self.root), self._root)

    def synced(self, descriptor: int, address: int | None, size: int) -> int:
        """A file or folder is synced, or a range of memory that is mapped from a file. Returns the errno that it fails with,
        or 0."""
        self.look()
        self.before_sync()
        if address is None:
            inode, begin, end = os.fstat(descriptor).st_ino, 0, 1 << 62
            path = os.readlink(f"/proc/self/fd/{descriptor}")
        else:
            inode, begin, path = _mapped(address)
            end = begin + size
        node = self._nodes.get(inode)
        if isinstance(node, Folder) and not self._lies(path):
            node.sync()
        elif isinstance(node, File):
            if self.failure.strikes(os.path.relpath(path, self.root)):
                node.fail(begin, end)
                return errno.EIO
            if not self._lies(path):
                node.sync(begin, end)
        return 0

    def written(self, descriptor: int, begin: int, size: int) -> None:
        """So many bytes of a file were written by system call, perhaps the same bytes as before."""
        node = self._nodes.get(os.fstat(descriptor).st_ino)
        if isinstance(node, File) and node.taken_for_written:
            node.written(begin, begin + size)

    def cut(self, rng: random.Random, target: Path) -> None:
        """Writes what a power cut now might leave into the folder `target`, which it makes."""
        self.look()
        # Everything unsynced is lost, or nothing, or some of it.
        loss = rng.choice((0.0, 0.1, 0.5, 0.5, 0.9, 1.0))
        self._write(self._root, rng, loss, str(target), {})

    def _write(self, inode: int, rng: random.Random, loss: float, target: str, left: dict[int, bytes]) -> None:
        node = self._nodes[inode]
        if isinstance(node, File):
            if inode not in left:
                left[inode] = node.left(rng, loss)
            with open(target, "wb", buffering=0) as file:
                file.write(left[inode])
            return
        os.mkdir(target)
        for name, states in sorted(node.names.items()):
            child = _pick(rng, states, loss)
            if child:
                self._write(child, rng, loss, f"{target}/{name}", left)

    def _look_at(self, folder: str, itself: int) -> None:
        """itself: its inode."""
        now: dict[str, int] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                inode = now[entry.name] = entry.inode()
                if entry.is_dir():
                    self._look_at(entry.path, inode)
                else:
                    if inode not in self._nodes:
                        self._nodes[inode] = File(os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC))
                    node = self._nodes[inode]
                    assert isinstance(node, File)
                    node.look()
        if itself not in self._nodes:
            self._nodes[itself] = Folder(os.open(folder, os.O_RDONLY | os.O_CLOEXEC))
        node = self._nodes[itself]
        assert isinstance(node, Folder)
        node.look(now)


def _mapped(address: int) -> tuple[int, int, str]:
    """Inode, offset and path of the file that is mapped at an address."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(number, 16) for number in line.partition(" ")[0].split("-"))
        if begin <= address < end:
            parts = line.split(maxsplit=5)
            return int(parts[4]), int(parts[2], 16) + address - begin, parts[5] if len(parts) > 5 else ""
    raise AssertionError(f"nothing is mapped at {address:#x}")


class Shim:
    """The preloaded shim.c: passes every sync, and every write by system call, to the disk in use, and holds the clock."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._hooks = _SyncHook(self._synced), _WriteHook(self._written)
        self._library.shim_set_hooks(*self._hooks)
        self.disk: Disk | None = None
        self._error: BaseException | None = None
        self.syncs = self.failed = 0

    def set_clock(self, ms: int) -> None:
        self._library.shim_set_clock(ctypes.c_int64(ms * 1_000_000))

    @contextmanager
    def held(self, monotonic_ms: int) -> Iterator[None]:
        """CLOCK_MONOTONIC stands still, at this time. Nobody may wait meanwhile."""
        self._library.shim_hold_monotonic(ctypes.c_int64(monotonic_ms * 1_000_000))
        try:
            yield
        finally:
            self._library.shim_hold_monotonic(ctypes.c_int64(0))

    def check(self) -> None:
        """Raises what was raised within a sync: it could not pass through C."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _synced(self, descriptor: int, address: int | None, size: int) -> int:
        disk = self.disk
        if disk is None or self._error is not None:
            return 0
        self.syncs += 1
        try:
            number = disk.synced(descriptor, address, size)
        except BaseException as error:
            self._error = error
            return 0
        self.failed += number != 0
        return number

    def _written(self, descriptor: int, begin: int, size: int) -> None:
        if self.disk is not None:
            self.disk.written(descriptor, begin, size)
