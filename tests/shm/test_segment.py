"""Goal: a segment is reserved whole or refused with the numbers in the error; nobody attaches to another kind of segment;
nothing is left behind.

Method: real segments under generations of the tests' own; a /dev/shm of 1 MiB in a mount namespace if the kernel allows one,
and a size beyond any mount everywhere.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from orbitmq.errors import BrokerNotRunning, ProtocolError, StoreFull
from orbitmq.native._core import lib
from orbitmq.shm.segment import (
    MOUNT,
    SegmentKind,
    attach_segment,
    create_segment,
    remove_leftovers,
    remove_segment,
    segment_name,
    segment_prefix,
    shared_memory_free,
)
from tests.shm.children import children, die_quietly

SIZE = 1 << 16


@pytest.fixture
def generation() -> Iterator[int]:
    number = os.getpid() << 8 & 0xFFFFFFFF | 0x7E
    yield number
    remove_leftovers(segment_prefix(number))


def ours(generation: int) -> list[str]:
    return sorted(path.name for path in MOUNT.glob(segment_prefix(generation) + "*"))


def test_made_attached_and_removed(generation: int) -> None:
    name = segment_name(generation, "wak")
    made = create_segment(name, SIZE)
    assert bytes(made.memory) == bytes(SIZE)
    assert made.address % 64 == 0
    assert (MOUNT / name).stat().st_blocks * 512 >= SIZE, "every page is reserved"
    lib.segment_init(made.pointer, SegmentKind.WAKE, SIZE, generation)
    reader = attach_segment(name, SegmentKind.WAKE)
    writer = attach_segment(name, SegmentKind.WAKE, writable=True)
    assert reader.generation == writer.generation == generation
    writer.memory[4096:4101] = b"hello"
    assert reader.memory[4096:4101] == made.memory[4096:4101] == b"hello"
    with pytest.raises(TypeError):
        reader.memory[0:1] = b"x"
    made.unlink()
    made.unlink()
    assert ours(generation) == []
    assert reader.memory[4096:4101] == b"hello", "a mapping outlives its name"
    for segment in (made, reader, writer):
        segment.close()


def test_a_read_only_mapping_cannot_be_written_even_by_c(generation: int) -> None:
    name = segment_name(generation, "ctl")
    made = create_segment(name, SIZE)
    lib.segment_init(made.pointer, SegmentKind.CONTROL, SIZE, generation)
    reader = attach_segment(name, SegmentKind.CONTROL)

    def scribble() -> None:
        die_quietly()
        lib.segment_init(reader.pointer, SegmentKind.CONTROL, SIZE, 0)

    with children() as family:
        assert family.wait(family.start(scribble)) == -signal.SIGSEGV
    assert reader.generation == generation


def test_a_name_is_taken_once(generation: int) -> None:
    name = segment_name(generation, "top")
    create_segment(name, SIZE)
    with pytest.raises(FileExistsError):
        create_segment(name, SIZE)
    assert ours(generation) == [name]


def test_nobody_attaches_to_something_else(generation: int) -> None:
    name = segment_name(generation, "l00")
    with pytest.raises(BrokerNotRunning, match=name):
        attach_segment(name, SegmentKind.LANE)
    made = create_segment(name, SIZE)
    with pytest.raises(ProtocolError, match="does not begin"):
        attach_segment(name, SegmentKind.LANE)
    lib.segment_init(made.pointer, SegmentKind.LANE, SIZE, generation)
    attach_segment(name, SegmentKind.LANE)
    with pytest.raises(ProtocolError, match="another kind"):
        attach_segment(name, SegmentKind.WAKE)
    lib.segment_init(made.pointer, SegmentKind.LANE, SIZE + 1, generation)
    with pytest.raises(ProtocolError, match="shorter"):
        attach_segment(name, SegmentKind.LANE)
    lib.segment_init(made.pointer, SegmentKind.LANE, SIZE, generation)
    made.memory[8:12] = (lib.SEGMENT_LAYOUT + 1).to_bytes(4, "little")
    with pytest.raises(ProtocolError, match="another version"):
        attach_segment(name, SegmentKind.LANE)
    (MOUNT / name).write_bytes(b"short")
    with pytest.raises(ProtocolError, match="shorter"):
        attach_segment(name, SegmentKind.LANE)


def test_larger_than_the_mount(generation: int) -> None:
    status = os.statvfs(MOUNT)
    need = status.f_blocks * status.f_frsize + (1 << 20)
    with pytest.raises(StoreFull, match=f"{MOUNT} is full .* needed") as raised:
        create_segment(segment_name(generation, "ctl"), need)
    assert (raised.value.mount, raised.value.need) == (str(MOUNT), need)
    assert 0 < raised.value.free <= need
    assert raised.value.hint
    assert ours(generation) == []


TINY = """
import os, sys
from orbitmq.errors import StoreFull
from orbitmq.shm import segment
free = segment.shared_memory_free()
assert free <= 1 << 20, free
made = segment.create_segment("omq.00000001.ctl", 1 << 19)
made.memory[:] = b"x" * (1 << 19)
# Once refused by the look beforehand, once by the reservation, as if another process had taken the room in between.
for look in (segment.shared_memory_free, lambda: 1 << 40):
    segment.shared_memory_free, real = look, segment.shared_memory_free
    try:
        segment.create_segment("omq.00000001.l00", 1 << 20)
    except StoreFull as error:
        assert error.need == 1 << 20 and error.mount == "/dev/shm"
    else:
        raise AssertionError("made a segment without room")
    segment.shared_memory_free = real
    assert os.listdir("/dev/shm") == ["omq.00000001.ctl"]
    assert segment.shared_memory_free() == free - (1 << 19)
"""


def test_a_tiny_mount_is_an_error_and_not_a_sigbus() -> None:
    inside = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$0" -c "$1"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*command, "mount -t tmpfs tmpfs /dev/shm"], capture_output=True, check=False).returncode:
        pytest.skip("this kernel lets nobody mount a file system of their own")
    done = subprocess.run([*command, inside, sys.executable, TINY], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_leftovers_of_one_generation_only(generation: int) -> None:
    other = generation ^ 0x80
    names = [segment_name(generation, part) for part in ("ctl", "l00", "wak")]
    for name in [*names, segment_name(other, "ctl")]:
        create_segment(name, SIZE)
    assert remove_leftovers(segment_prefix(generation)) == names
    assert ours(generation) == []
    assert remove_segment(segment_name(other, "ctl"))
    assert not remove_segment(segment_name(other, "ctl"))
    with pytest.raises(ValueError, match="shorter"):
        remove_leftovers("omq.")


def test_no_tracker_process_unlinks_what_others_use(generation: int) -> None:
    """A process that makes a segment and ends leaves it, and starts no process of its own."""
    name = segment_name(generation, "wak")
    script = (
        "from multiprocessing import resource_tracker\n"
        "from orbitmq.shm.segment import create_segment\n"
        f"create_segment({name!r}, 4096)\n"
        "assert resource_tracker._resource_tracker._pid is None\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ours(generation) == [name]


def test_free_bytes_are_those_of_the_mount() -> None:
    assert 0 < shared_memory_free() <= os.statvfs(MOUNT).f_blocks * os.statvfs(MOUNT).f_frsize
