"""What an operating system's refusal to read or write means for people: how to say it, and what would help."""

from __future__ import annotations

import errno
import os

from orbitmq.errors.remedy import Hint, as_hint

BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")

_WAYS = {
    errno.ENOSPC: "make room on the disk of {}",
    errno.EDQUOT: "make room on the disk of {}, or raise the quota of this user",
    errno.EROFS: "mount the file system of {} writable",
    errno.EACCES: "change owner or mode of {}, or do it as its owner",
    errno.EPERM: "change owner or mode of {}, or do it as its owner",
    errno.EIO: "look after the disk of {}: dmesg says what failed",
    errno.EFBIG: "let this process write larger files than {} is (ulimit -f)",
    errno.ENOENT: "make the folder of {}",
    errno.ENOTDIR: "choose another path than {}: a part of it is a file, where a folder belongs",
    errno.EISDIR: "choose another path than {}: it is a folder",
    errno.ENXIO: "start what reads {}, which is a named pipe, or choose a file",
    errno.EMFILE: "raise this process's limit of open files (ulimit -n), or close some",
    errno.ENFILE: "raise the machine's limit of open files (fs.file-max)",
    errno.ENOMEM: "let this process have more memory",
}


def byte_count(count: float, *, short: bool = False) -> str:
    """1536 -> "1.5 KiB", 64 << 20 -> "64.0 MiB"; short: "64 MiB"."""
    unit = 0
    while round(count, 1 if unit else 0) >= 1024 and unit < len(BYTE_UNITS) - 1:
        count /= 1024
        unit += 1
    text = f"{count:,.{1 if unit else 0}f}"
    return f"{text.removesuffix('.0') if short else text} {BYTE_UNITS[unit]}"


def shortage(free: int, need: int) -> str:
    """How much there is, and how much is needed; exact where the round numbers do not differ."""
    there, wanted = byte_count(free, short=True), byte_count(need, short=True)
    return f"{there} free, {wanted} needed" if there != wanted else f"{free:,} bytes free, {need:,} needed"


def said(error: OSError) -> str:
    """Without Python's number: "No space left on device: '/data/x'"."""
    if error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.strerror}: {os.fsdecode(error.filename)!r}"


def way_out(error: OSError, path: str | os.PathLike[str] | None = None) -> Hint | None:
    """What would help; None: nothing is known. path: what was written, where the error does not say."""
    where = error.filename if error.filename is not None else path
    text = _WAYS.get(error.errno or 0, "look after the disk: dmesg says what failed" if error.errno is not None else "")
    return as_hint(text.format("it" if where is None else os.fsdecode(where)))
