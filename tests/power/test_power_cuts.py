"""Goal: no power cut loses what was acknowledged as on disk, and none leaves a damaged store. None ends a transaction in part,
and none lets a delayed message come twice or not at all.

Method: the machine of machine.py, or of later.py, runs in a process of its own, in which every sync goes to the simulated disk,
and some fail.
To show that it can find anything, it also runs with disks that lie, each of which forgets the syncs of one kind of file, and
with code as it was when failed syncs were forgotten: all of these must be caught.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.power.old_code import LATER_DEEDS, OLD
from tests.power.run import PROGRAM, build, environment

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module", autouse=True)
def shim() -> None:
    build()


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *options]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


# Options of each run, and the least numbers of cuts, of files that retention removed, and of failed syncs. Images are kept in
# memory, which is faster. One step of recovery needs a disk, for it writes past the cache, so the last run has them there.
RUNS = {
    "one": (["--lives", "9", "--seed", "1", "--no-later"], 450, 5, 5),
    "with transactions and delayed messages": (["--lives", "6", "--seed", "1"], 400, 5, 3),
    "on a disk": (["--lives", "4", "--seed", "3", "--on-disk", "--no-later"], 200, 5, 3),
}
# Least numbers of the second run.
LATER = {"transactions": 30, "ended": 15, "delayed": 25, "cancelled": 8, "delivered": 15}


@pytest.mark.parametrize("name", RUNS)
def test_thousands_of_cuts(name: str) -> None:
    options, cuts, removed, failed = RUNS[name]
    done = run(*options)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    for each, least in LATER.items() if "--no-later" not in options else ():
        count = re.search(rf"\b{each}=(\d+)", done.stdout)
        assert count is not None and int(count[1]) >= least, each
    found = re.search(r"cuts=(\d+).*files_removed=(\d+)\), \d+ syncs, (\d+) failed", done.stdout)
    assert found is not None and int(found[1]) >= cuts and int(found[2]) >= removed and int(found[3]) >= failed


# A pattern of paths whose syncs do nothing, and the result.
LIES = {
    "commitlog/*": "the flushed position is ahead of the disk",
    "commitlog": "a log file is not there after it was announced",
    "consumequeue/*/*/*": "the checkpoint vouches for units that are not there",
    "consumequeue/*/*": "the checkpoint vouches for queue files that are not there",
    "index/*": "the checkpoint vouches for index files that are torn",
    "index": "the checkpoint vouches for index files that are not there",
    "orbitmq/reput": "a clean stop does not know how far the log is indexed",
}


# The rules that lead to the place where it shows. With the others too, which do not, that takes up to ten times as many lives.
OF_LIES = ("work", "cut_and_look", "stop_and_start")
OF_DEFECTS = {
    "log_not_written_again": ("fail_syncs", "cut_and_look"),
    "queues_synced_again": ("fail_syncs", "work", "cut_and_look"),
    "word_overlooked": ("fail_syncs", "work", "cut_and_look"),
    "noted_too_soon": ("note_what_is_not_on_disk",),
    "halves_noted_too_soon": ("note_what_may_be_taken_back",),
    "deliveries_noted_too_soon": ("note_what_may_be_taken_back", "wait_and_come"),
    "deliveries_not_looked_for": ("wait_and_come", "stop_and_start"),
    "lone_commit_kept": ("wait_and_come", "cut_and_look"),
}
# Seeds other than 1 that reach it in fewer lives.
SOONER = {"commitlog/*": 3, "commitlog": 3, "index": 4, "index/*": 4, "orbitmq/reput": 4}


def expect_caught(rules: tuple[str, ...], *options: str, first: int) -> None:
    chosen = [option for rule in rules for option in ("--only", rule)]
    said = ""
    for seed in (first, *(each for each in range(1, 9) if each != first)):  # not every run reaches it
        done = run("--lives", "30", "--seed", str(seed), *chosen, *options)
        said += done.stdout + done.stderr
        if done.returncode:
            break
    assert done.returncode == 1 and "Failing test case" in done.stderr, said
    # By the machine, or by the store: an error of another kind is one of the defect's own, and shows nothing.
    assert re.search(r"^(AssertionError\b|orbitmq\.errors\.)", done.stderr, re.MULTILINE), said


@pytest.mark.parametrize("lie", LIES)
def test_a_disk_that_lies_is_caught(lie: str) -> None:
    expect_caught(OF_LIES, "--no-later", "--no-failures", "--no-retention", "--lie", lie, first=SOONER.get(lie, 1))


@pytest.mark.parametrize("old", OLD)
def test_code_with_a_defect_is_caught(old: str) -> None:
    # A start ignores a note that says more than the log. That loses only what retention has removed from the log.
    others = ["--no-failures"] if old == "noted_too_soon" else ["--no-retention"]
    others += ["--no-failures"] if old in LATER_DEEDS else ["--no-later"]
    expect_caught(OF_DEFECTS[old], "--old", old, *others, first=SOONER.get(old, 1))
