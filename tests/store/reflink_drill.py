"""A store, its backup, and what happens to them, in a folder that this program is given:

    python -m tests.store.reflink_drill FOLDER

Run on a file system with reflinks, in a mount of its own (test_reflinks.py). Prints `whole` if all is well.
"""

from __future__ import annotations

import fcntl
import struct
import sys
from pathlib import Path

import orbitmq
from orbitmq.store.backup.backup import back_up
from orbitmq.store.layout import StoreLayout
from orbitmq.store.repair.choice import Choice
from orbitmq.store.verify.verify import verify
from tests.store.repair_rig import repair
from tests.store.stored_by_broker import SETTINGS, store_by_broker

FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQQQIIII")
_SYNC, _SHARED, EXTENTS_MAX = 1, 0x2000, 64


def shares(path: Path) -> set[bool]:
    """For the extents of a file: does another file have it, too?"""
    asked = bytearray(_HEAD.pack(0, 1 << 62, _SYNC, 0, EXTENTS_MAX, 0).ljust(_HEAD.size + EXTENTS_MAX * _EXTENT.size, b"\0"))
    with path.open("rb") as file:
        fcntl.ioctl(file.fileno(), FIEMAP, asked)
    count = _HEAD.unpack_from(asked)[3]
    assert 0 < count < EXTENTS_MAX, path
    return {bool(_EXTENT.unpack_from(asked, _HEAD.size + at * _EXTENT.size)[5] & _SHARED) for at in range(count)}


def contents(root: Path) -> dict[Path, bytes]:
    return {path.relative_to(root): path.read_bytes() for path in (root / "commitlog").iterdir()}


def main(folder: Path) -> None:
    stored = store_by_broker(folder / "store", "reflinks")
    layout, backup = stored.layout, StoreLayout.at(folder / "backup")
    back_up(layout, backup.root)
    *closed, newest = sorted(backup.commitlog.iterdir())
    assert len(closed) > 1
    assert [shares(path) for path in closed] == [{True}] * len(closed), "they are no reflinks"
    assert shares(newest) == {False}, "the newest is written by a broker on the backup"
    before = contents(backup.root)

    # A repair writes into a closed file of the store in place, and the backup does not change.
    damaged = layout.commitlog / closed[0].name
    stored.spoil(damaged, 4, b"\0\0\0\1")
    assert repair(stored, Choice.SKIP)[1].whole
    assert damaged.read_bytes() != before[Path("commitlog", damaged.name)] and contents(backup.root) == before
    assert verify(backup, SETTINGS, print).whole

    # A broker on the backup does not change the store.
    kept = contents(layout.root)
    with orbitmq.Broker(backup.root, name="of-the-backup") as broker, broker.producer() as producer:
        for number in range(300):
            producer.send("flows", bytes(500) + b"%d" % number)
    assert contents(layout.root) == kept and len(contents(backup.root)) > len(before)
    print("whole")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
