"""Goal: scripts/crash kills as its seed says, and finds nothing wrong. Method: a short run, and its parts."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

from tests.crash import rampage
from tests.crash.ledger import Account


def test_a_short_rampage(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(Path(rampage.__file__)),
        "--kills",
        "15",
        "--seed",
        "4",
        "--folder",
        str(tmp_path / "stores"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seed 4" in done.stdout and "every message is accounted for" in done.stdout
    assert not (tmp_path / "stores").exists()


def test_a_seed_replays_its_schedule() -> None:
    once, again = (list(itertools.islice(rampage.schedule(4), 100)) for _ in range(2))
    assert once == again
    assert {kill.kind for kill in itertools.islice(rampage.schedule(4), 1000)} == set(rampage.KINDS)
    assert once != list(itertools.islice(rampage.schedule(5), 100))


def test_what_went_wrong_is_told() -> None:
    """Method: an account in which a message is lost."""
    tally = rampage.Tally()
    tally.add(Account(acknowledged=2, stored=1, lost=1, wrong=["message (0, 1) is lost"]))
    assert not tally.good
    tally = rampage.Tally()
    tally.add(Account(acknowledged=2, stored=2))
    assert tally.good
