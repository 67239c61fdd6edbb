"""Goal: what a repair writes in the place of damaged bytes is whole records that fill them to the byte."""

from __future__ import annotations

import random
import struct

import pytest

from orbitmq.store.commit_log.record import BLANK_MAGIC, Record, check
from orbitmq.store.stand_in import LEAST_FILLER, LostMessage, fill, room_for


def test_stand_ins_fill_to_the_byte() -> None:
    """Any number of messages in any room gives whole records, or is refused; nothing is left over."""
    rng = random.Random(7)
    for _ in range(500):
        messages = [LostMessage("T" * rng.randint(1, 60), rng.randrange(5), number) for number in range(rng.randrange(5))]
        to_file_end = rng.random() < 0.5
        least = room_for(messages, to_file_end=to_file_end)
        size = least + rng.choice((0, 1, 19, 20, 21, 91, 92, 93, 200, 5000, 3 << 20))
        if not messages and not to_file_end and size < LEAST_FILLER:
            with pytest.raises(ValueError, match="too few"):
                list(fill(messages, size, 4096, 5, to_file_end=to_file_end))
            continue
        content = b"".join(fill(messages, size, 4096, 5, to_file_end=to_file_end))
        assert to_file_end or len(content) == size
        at, found = 0, []
        while at < len(content):
            if to_file_end and at + 8 == len(content):
                assert content[at:] == struct.pack(">II", size - at, BLANK_MAGIC)
                break
            record = check(content, at, physical_offset=4096 + at)
            assert isinstance(record, Record), record
            if record.sys_flag == 0:
                found.append(LostMessage(record.topic, record.queue_id, record.queue_offset))
            at += record.size
        assert found == messages
