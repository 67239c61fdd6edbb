"""Of store/halves.py and store/recovery/lone_commit.py.

Goal: the start never believes less than what is durable, nor more; and a message of a transaction whose operation message did
not reach the log is cut off, and nothing else is. Method: files that are whole, damaged and missing; composed logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.store import config, halves
from orbitmq.store.halves import GIVEN_UP_TOPIC, GROUP, HALF_TOPIC, OP_TOPIC, Halves
from orbitmq.store.layout import StoreLayout
from tests.store.log_builder import LogBuilder
from tests.store.recovery_rig import run


def test_a_file_is_read_back(tmp_path: Path) -> None:
    layout = StoreLayout(tmp_path)
    layout.make_folders()
    assert halves.load(layout) == Halves(0, 0)
    halves.store(layout, Halves(7, 5))
    assert halves.load(layout) == Halves(7, 5)
    config.store_offsets(layout, {(HALF_TOPIC, GROUP): {0: 9}, (OP_TOPIC, GROUP): {0: 4}})
    assert halves.load(layout) == Halves(9, 4), "RocketMQ has gone further"
    halves.store(layout, Halves(12, 11))
    assert halves.load(layout) == Halves(12, 11)


def test_damage_is_noticed(tmp_path: Path) -> None:
    layout = StoreLayout(tmp_path)
    layout.make_folders()
    halves.store(layout, Halves(7, 5))
    content = layout.transactions.read_bytes()
    for at in range(len(content)):
        layout.transactions.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert halves.load(layout) == Halves(0, 0)
    for size in range(len(content)):
        layout.transactions.write_bytes(content[:size])
        assert halves.load(layout) == Halves(0, 0)


@pytest.mark.parametrize(
    ("real", "prepared", "sealed", "after", "cut"),
    [
        ("t", "half", True, False, True),
        (GIVEN_UP_TOPIC, "half", True, False, True),
        ("t", "half", True, True, False),  # the operation message is there
        ("other", "half", True, False, False),  # a retry of it, for example
        ("t", "nothing", True, False, False),
        ("t", "half", False, False, False),  # RocketMQ's
    ],
)
def test_a_message_alone_at_the_end(
    tmp_path: Path, real: str, prepared: str, sealed: bool, after: bool, cut: bool
) -> None:
    layout = StoreLayout(tmp_path)
    layout.make_folders()
    log = LogBuilder(layout)
    names = {"TRAN_MSG": "true", "REAL_TOPIC": "t", "REAL_QID": "0"}
    log.append("t", body=b"before")
    half = log.append(HALF_TOPIC, properties=names)
    place = half.offset if prepared == "half" else 0
    message = log.append(real, sys_flag=8, sealed=sealed, properties=names, prepared_offset=place)
    if after:
        log.append(OP_TOPIC, body=b"0", properties={"TAGS": "d"})
    report = run(layout)
    assert report.end == (message.offset if cut else log.end)
    following = {queue.topic: queue.next_offset for queue in report.queues}
    assert following["t"] == (1 if cut or real != "t" else 2)
