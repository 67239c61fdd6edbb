"""Goal: an export ends well whatever happens to it: killed, interrupted, and run again. Method: processes of their own
(export_commands.py). With Spark: tests/spark/test_export_processes.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tables.export_commands import interrupted, killed_at_random
from tests.tables.exporting import add, days_of_messages
from tests.tables.stored_topics import StoredTopics


@pytest.fixture
def stored(tmp_path: Path) -> StoredTopics:
    return days_of_messages(tmp_path / "store")


def test_killed_at_random(tmp_path: Path, stored: StoredTopics) -> None:
    killed_at_random(tmp_path, stored, 12)


def test_ctrl_c_ends_it_cleanly(tmp_path: Path, stored: StoredTopics) -> None:
    """Tasks that take a while, because every message is for a folder of its own."""
    for _ in range(5):  # it may be done before it is interrupted
        add(stored, 3000)
        if interrupted(tmp_path, stored, "*/part-*", "--by", "hour,partition") == 130:
            return
    pytest.fail("it was done each time before it was interrupted")
