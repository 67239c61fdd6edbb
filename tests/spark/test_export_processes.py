"""Goal: an export with Spark ends well whatever happens to it: killed, interrupted, and run again. Method: processes of their
own (tests/tables/export_commands.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tables.export_commands import interrupted, killed_at_random
from tests.tables.exporting import days_of_messages
from tests.tables.stored_topics import StoredTopics


@pytest.fixture
def stored(tmp_path: Path) -> StoredTopics:
    return days_of_messages(tmp_path / "store")


# What becomes of the folder does not depend on PySpark's version; how Ctrl-C arrives does.
@pytest.mark.usefixtures("java_home")
def test_killed_at_random(tmp_path: Path, stored: StoredTopics) -> None:
    killed_at_random(tmp_path, stored, 2, "--spark")


@pytest.mark.pyspark
@pytest.mark.parametrize("name", ["*", pytest.param("*/progress", marks=pytest.mark.oldest_pyspark("export"))])
def test_ctrl_c_ends_it_cleanly(tmp_path: Path, stored: StoredTopics, name: str) -> None:
    """Before Spark starts, and while its tasks run, which may just then end."""
    assert interrupted(tmp_path, stored, name, "--spark") == 130 or name != "*"
