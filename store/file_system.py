"""The file system that holds the files: the mount of a path, its free space, and whether a store may be there."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple

from orbitmq.errors import StoreFailed, StoreFull, StoreUnsupported
from orbitmq.errors.remedy import Hint, all_of, hint
from orbitmq.shm.disk_fault import said, shortage, way_out

# Over a network, neither the lock nor a shared mapping means what it means on one machine: each of two hosts would believe
# itself alone, and a server's restart can take back pages that were already read.
NETWORK_KINDS = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs",
    "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs", "virtiofs",
})  # fmt: skip


class Mount(NamedTuple):
    """A mounted file system: its mount point, and its kind as /proc/self/mountinfo calls it."""

    point: str
    kind: str


def _unescape(field: str) -> str:
    """mountinfo writes space, tab, newline and backslash as \\040, \\011, \\012 and \\134."""
    for code in ("040", "011", "012"):
        field = field.replace("\\" + code, chr(int(code, 8)))
    return field.replace("\\134", "\\")


def mount_of(path: Path, mountinfo: str | None = None) -> Mount:
    """The mount that holds `path`, which need not exist yet. `mountinfo`: the table to read instead of this process's.

    Device numbers are not compared, because btrfs and overlayfs report other numbers for their files than for their mounts. The
    result is the longest mount point that leads to the path; if there are several, the last one, which covers the others.
    """
    if mountinfo is None:
        mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    parts = Path(os.path.realpath(path)).parts
    best, best_length = Mount("/", "unknown"), 0
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        point = _unescape(before.split(" ")[4])
        point_parts = Path(point).parts
        length = len(point_parts)
        if length >= best_length and parts[:length] == point_parts:
            best, best_length = Mount(point, after.split(" ")[0]), length
    return best


def refuse_network(path: Path, mountinfo: str | None = None) -> None:
    """Raises: StoreUnsupported: `path` is on a network file system; has .path, .mount and .kind."""
    mount = mount_of(path, mountinfo)
    if mount.kind in NETWORK_KINDS:
        raise StoreUnsupported(
            f"cannot hold a store in {path}: {mount.point} is a network file system ({mount.kind})",
            hint="choose a folder on a disk of this machine",
            path=str(path),
            mount=mount.point,
            kind=mount.kind,
        )


def free_bytes(path: Path) -> int:
    """Bytes that this user may still write on the file system that holds `path`."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


LOG_KNOB = hint("use smaller files in a new store: lower {log_file_size of broker}")


def disk_error(error: OSError, path: Path, need: int, what: str, knob: Hint | None = None) -> StoreFull | StoreFailed:
    """The error for a write of `need` bytes to the file system of `path` that failed; knob as in store_full."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return store_full(path, need, what, knob)
    text = f"could not write {what}: {said(error)}"
    return StoreFailed(text, hint=all_of(way_out(error, path), knob), path=str(path), errno=error.errno or 0)


def store_full(path: Path, need: int, what: str, knob: Hint | None = None) -> StoreFull:
    """The error for `need` bytes of `what` for which the file system of `path` has no room. knob: what would need less."""
    mount = mount_of(path).point
    free = free_bytes(path)
    return StoreFull(
        f"could not reserve room for {what}: the disk of {mount} is full ({shortage(free, need)})",
        hint=all_of(f"make room on {mount}", knob),
        path=str(path),
        mount=mount,
        need=need,
        free=free,
    )
