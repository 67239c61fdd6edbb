"""OrbitMQ and RocketMQ make the same ConsumeQueues and the same IndexFile of one CommitLog, byte for byte.

Goal: neither broker can tell which one indexed a store. Method: both have written messages of every kind into one log; queues
and index are removed, and each broker makes them anew in a copy of its own.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
from pathlib import Path

import pytest

from tests.interop.judge import Files, Judge
from tests.interop.letters import Letter, random_letters, send_specials, send_to_orbitmq, send_to_rocketmq
from tests.interop.ours import broker_on
from tests.waiting import until

pytestmark = pytest.mark.timeout(900)  # the first test of all waits for the jars

UNIT = 20


@pytest.mark.parametrize("ours_lost", [True, False])
def test_queues_and_index_of_one_log(judge: Judge, tmp_path: Path, ours_lost: bool) -> None:
    """With one large IndexFile, and with small ones.

    ours_lost: what OrbitMQ keeps for itself was removed as well.
    """
    rng = random.Random(8)
    files = Files(queue_file_units=64) if ours_lost else Files(queue_file_units=64, index_slots=500, index_entries=1500)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    sent: list[Letter] = []
    judge.start(theirs, files)
    judge.ask("create", topic="orders", queues=4)
    send_to_rocketmq(rng, judge, random_letters(rng, "orders", 500, 4, empty=False, prefix="java"), sent)
    send_specials(judge, rng, len(sent))
    judge.stop()
    with broker_on(theirs, files) as broker:
        broker.create_topic("a-b_c|d", queues=2)
        for topic in ("orders", "a-b_c|d"):
            send_to_orbitmq(rng, broker, random_letters(rng, topic, 500, 2, empty=True, prefix="ours"), sent)
    for folder in ("consumequeue", "index", *(["orbitmq"] if ours_lost else [])):
        shutil.rmtree(theirs / folder)
    shutil.copytree(theirs, ours)

    judge.start(theirs, files)
    assert sum(end for _, end in judge.bounds("orders").values()) > 1000
    judge.stop()
    with broker_on(ours, files) as broker:
        until(lambda: broker.status().positions.reput == broker.status().positions.wrote, "the queues")

    assert _log(ours) == _log(theirs), "somebody has changed the log itself"
    made, expected = _queue_files(ours), _queue_files(theirs)
    assert made.keys() == expected.keys()
    assert any(name.startswith("SCHEDULE_TOPIC_XXXX/") for name in made)
    for name, content in expected.items():
        units = [(made[name][at : at + UNIT].hex(), content[at : at + UNIT].hex()) for at in range(0, len(content), UNIT)]
        wrong = [(number, *unit) for number, unit in enumerate(units) if unit[0] != unit[1]]
        assert not wrong, f"{name}: unit, ours, theirs: {wrong[:3]}"
    made_index, expected_index = (sorted((store / "index").iterdir()) for store in (ours, theirs))
    if ours_lost:
        assert _pages(*made_index) == _pages(*expected_index)
    else:
        # All keys of a record go into one file of OrbitMQ's, so files end elsewhere; their content is the same.
        assert len(made_index) > 1 and len(expected_index) > 1
        assert _entries(made_index, files) == _entries(expected_index, files)


def _log(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((store / "commitlog").iterdir())).rstrip(b"\0")


def _queue_files(store: Path) -> dict[str, bytes]:
    root = store / "consumequeue"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _entries(index: list[Path], files: Files) -> list[tuple[int, int]]:
    """Hash and physical offset of every entry of these IndexFiles, in order."""
    found = []
    for path in index:
        content = path.read_bytes()
        (following,) = struct.unpack_from(">I", content, 36)
        entries = 40 + 4 * files.index_slots
        found += [struct.unpack_from(">IQ", content, entries + 20 * number) for number in range(1, following)]
    return found


def _pages(path: Path) -> dict[int, bytes]:
    """A file's length, and by their places its pages that are not zero; an IndexFile is mostly a hole."""
    pages: dict[int, bytes] = {path.stat().st_size: b""}
    with path.open("rb", buffering=0) as file:
        at = 0
        while True:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:  # no data is left
                return pages
            at -= at % 4096
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            for place in range(at, end, 4096):
                page = os.pread(file.fileno(), 4096, place)
                if page.strip(b"\0"):
                    pages[place] = page
            at = end
