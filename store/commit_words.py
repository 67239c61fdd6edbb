"""The files in which members commit: orbitmq/commits/<slot>.<epoch> of a session (native/shared/commit_words.h draws one). The
coordinator makes them, the member maps its own, and the broker reads them by system call, because a member may truncate its
file at any time."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orbitmq.native._core import ffi, lib
from orbitmq.store.layout import StoreLayout

NAME = re.compile(r"\d+\.\d+")
_HEAD_SIZE = 64
_SIZE_MAX = _HEAD_SIZE + 8 * lib.SESSION_QUEUES_MAX
# A lease that a member holds on its file must not make the broker wait.
_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def make(path: Path, capacity: int) -> bool:
    """Makes the file of a member with room for so many queues. False: it exists already. Raises: OSError: there is none."""
    try:
        descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    try:
        error = lib.commit_words_make(descriptor, capacity)
        if error:
            raise OSError(error, os.strerror(error), str(path))
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(descriptor)
    return True


def descriptor_of(path: Path) -> int:
    """A descriptor for the member. The caller closes it. Raises: OSError."""
    return os.open(path, _FLAGS)


def close(path: Path) -> None:
    """Closes the words: a commit that finds them closed does not return success. The file is cut to its length, in case its
    member has made it longer and keeps it open. Raises: OSError: but not if the file is gone, or its member has a lease on it,
    which harms only the member."""
    with suppress(FileNotFoundError, BlockingIOError), _opened(path) as descriptor:
        error = lib.commit_words_close(descriptor)
        if os.fstat(descriptor).st_size > _SIZE_MAX:
            os.ftruncate(descriptor, _SIZE_MAX)
        if error:
            raise OSError(error, os.strerror(error), str(path))


def read(path: Path, count: int, capacity: int | None = None) -> list[tuple[int, int]]:
    """(low 16 bits of the epoch, queue offset) of the first `count` words. capacity: for how many words it was made; None: as
    many as fit its length.

    Raises: ValueError: the file is gone or changed, which only its member can have done. OSError.
    """
    try:
        with _opened(path) as descriptor:
            if capacity is None:
                capacity = max(0, os.fstat(descriptor).st_size - _HEAD_SIZE) // 8
            if capacity < count:
                raise ValueError(f"has room for {capacity:,} queues instead of {count:,}")
            words = ffi.new("uint64_t[]", max(1, count))
            error = lib.commit_words_read(descriptor, capacity, words, count)
    except (FileNotFoundError, IsADirectoryError) as caught:
        raise ValueError(str(caught.strerror)) from caught
    except BlockingIOError as caught:
        raise ValueError("is kept by a lease") from caught
    if error == errno.EILSEQ:
        raise ValueError("is not as it was made")
    if error:
        raise OSError(error, os.strerror(error), str(path))
    mask = (1 << lib.OFFSET_BITS) - 1
    return [(int(word) >> lib.OFFSET_BITS, int(word) & mask) for word in ffi.unpack(words, count)] if count else []


def files(layout: StoreLayout) -> list[Path]:
    """All files of commits."""
    if not layout.commits.is_dir():
        return []
    return sorted(path for path in layout.commits.iterdir() if NAME.fullmatch(path.name))


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, _FLAGS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
