"""Goal: where a group of workers goes on after a start is never behind what a worker was told is done, nor ahead of what is
done.

Method: headers of state files are written as the dispatcher and the coordinator leave them, beside every offset that
consumerOffset.json may have.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orbitmq.native._core import ffi, lib
from orbitmq.store import config, positions
from orbitmq.store.layout import StoreLayout
from orbitmq.store.work import files as work_files
from orbitmq.store.work import plan as work_plan
from orbitmq.store.work.plan import PlannedGroup, PlannedWorker

QUEUE = ("orders", 0)


def layout(folder: Path) -> StoreLayout:
    made = StoreLayout.at(folder / "store")
    made.make_folders()
    return made


def write(made: StoreLayout, *, floor: int, told: int, frontier: int = 0, boot: bytes | None = None) -> Path:
    """A state file of the group "billing"."""
    work_files.make(made, "billing", [QUEUE])
    path = work_files.path_of(made, "billing", QUEUE)
    head = ffi.new("struct work_file *", {"magic": lib.WORK_MAGIC, "told": told})
    ffi.memmove(head.boot, positions.boot_id() if boot is None else boot, 16)
    lib.work_file_set(head, floor, max(floor, frontier))
    with path.open("r+b") as file:
        file.write(bytes(ffi.buffer(head)))
    return path


@pytest.mark.parametrize(
    ("told", "offset", "floor", "result"),
    [
        (0, None, 5, 5),  # it was never written
        (3, None, 5, None),  # somebody has removed the group
        (3, 3, 5, 5),
        (3, 4, 5, 5),  # it was written, and the coordinator died before it said so
        (5, 5, 5, 5),
        (3, 2, 5, 2),  # somebody has set the group back
        (3, 6, 5, 6),  # somebody else has consumed
    ],
)
def test_where_a_group_goes_on(tmp_path: Path, told: int, offset: int | None, floor: int, result: int | None) -> None:
    made = layout(tmp_path)
    path = write(made, floor=floor, told=told)
    if offset is not None:
        config.store_offsets(made, {("orders", "billing"): {0: offset}})
    for _ in range(2):  # a start that was killed in between does it again
        assert work_files.settle(made) == int(result not in (offset, None) and offset != result and result == floor)
        assert config.load_offsets(made).get(("orders", "billing"), {}).get(0) == result
        offset = result
    found = work_files.read(path)
    assert found is not None and found.told == (floor if result == floor else told)


def test_another_boot(tmp_path: Path) -> None:
    """Goal: a file that may be older than it was, or newer than the log, does not count."""
    made = layout(tmp_path)
    write(made, floor=9, told=3, boot=bytes(16))
    config.store_offsets(made, {("orders", "billing"): {0: 3}})
    assert work_files.settle(made) == 0
    assert config.load_offsets(made)["orders", "billing"] == {0: 3}


def test_a_cut_log(tmp_path: Path) -> None:
    """Goal: offsets that new messages get after a recovery are not done already."""
    made = layout(tmp_path)
    path = write(made, floor=5, told=5, frontier=8)
    work_files.trim(made, {QUEUE: 8})
    assert path.exists()
    work_files.trim(made, {QUEUE: 7})
    assert not path.exists()


FREE, HELD, WAITING, DONE, PARTING = range(5)


@pytest.mark.parametrize(
    ("states", "floor", "unsettled"),
    [
        ([], 70_000, False),
        ([DONE], 70_001, False),
        ([DONE, DONE, FREE, DONE], 70_002, False),
        ([WAITING, DONE], 70_000, False),
        ([DONE, PARTING, DONE], 70_001, True),
        ([DONE, DONE, FREE, HELD], 70_002, True),
    ],
)
def test_what_the_last_worker_leaves(tmp_path: Path, states: list[int], floor: int, unsettled: bool) -> None:
    """Goal: all that is done counts, whether the dispatcher has raised the floor yet or not, and nothing else does. Method: the
    words behind the window's end stand at its beginning, among words that say something else."""
    made = layout(tmp_path)
    for begin in (70_000, 2 * lib.WORK_WINDOW - 2):
        path = write(made, floor=begin, told=0, frontier=begin + len(states))
        words = [PARTING] * lib.WORK_WINDOW
        for at, state in enumerate(states):
            words[(begin + at) % lib.WORK_WINDOW] = state
        data = path.read_bytes()
        at = lib.WORK_FILE_SIZE - 8 * lib.WORK_WINDOW
        path.write_bytes(data[:at] + b"".join(word.to_bytes(8, sys.byteorder) for word in words))
        assert work_files.left(path) == (begin + floor - 70_000, unsettled)
    path.unlink()
    assert work_files.left(path) is None


def test_a_file_that_changes_at_each_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: words below a floor that has risen meanwhile are not taken for free ones."""
    made, read = layout(tmp_path), work_files.read
    path = write(made, floor=3, told=0, frontier=9)

    def rising(path: Path) -> work_files.Floor | None:
        found = read(path)
        assert found is not None
        write(made, floor=found.floor + 1, told=0, frontier=9)
        return found

    monkeypatch.setattr(work_files, "read", rising)
    found = work_files.left(path)
    assert found is not None and found.unsettled


def test_tell_only_rises_to_the_floor(tmp_path: Path) -> None:
    made = layout(tmp_path)
    path = write(made, floor=5, told=2)
    for offset, told in ((1, 2), (4, 4), (9, 4), (5, 5)):
        work_files.tell_all(made, {("orders", "billing"): {0: offset}, ("orders", "other"): {0: offset}}, {"billing"})
        found = work_files.read(path)
        assert found is not None and found.told == told


def test_a_fresh_file_says_nothing(tmp_path: Path) -> None:
    made = layout(tmp_path)
    work_files.make(made, "billing", [QUEUE])
    path = work_files.path_of(made, "billing", QUEUE)
    assert path.stat().st_size == path.stat().st_blocks * 512 == lib.WORK_FILE_SIZE
    assert work_files.read(path) is None
    assert work_files.floors(made, "billing", {QUEUE: 3}) == {}
    work_files.remove(made, "billing")
    assert work_files.groups(made) == []


def test_the_plan_comes_back(tmp_path: Path) -> None:
    """Goal: a dispatcher reads what a coordinator wrote, and nothing of another tree, or of a damaged file."""
    made = layout(tmp_path)
    worker = PlannedWorker(slot=3, epoch=7, topics=1, in_hand=10, visibility_ms=30000, pid=5)
    plan = {"billing": PlannedGroup(11, False, 5, ["orders"], [("orders", 0, 4, 11, 17)], [worker])}
    assert work_plan.load(made, 1) == {}
    work_plan.store(made, 1, plan)
    assert work_plan.load(made, 1) == plan
    assert work_plan.load(made, 2) == {}
    made.work_plan.write_bytes(made.work_plan.read_bytes()[:-3])
    assert work_plan.load(made, 1) == {}
