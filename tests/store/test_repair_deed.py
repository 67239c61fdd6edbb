"""Goal: for everything that verify may find, a repair says in a sentence what it does about it. Method: every kind of finding,
under every choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orbitmq.store.repair.choice import Choice
from orbitmq.store.repair.config import ConfigDeed
from orbitmq.store.repair.deed import OF_LOG, Deeds
from orbitmq.store.verify.findings import Finding, Kind

SIZE = 1 << 16


def deeds(**changed: Any) -> Deeds:
    plan: dict[str, Any] = {
        "cut_folder": Path("orbitmq/cut"),
        "log_file_size": SIZE,
        "choice": Choice.NONE,
        "undecided": True,
        "cut_at": 4096,
        "filling": False,
        "markers": (),
        "renumbered": {},
        "explained": (),
        "config": (),
    }
    return Deeds(**{**plan, **changed})


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("choice", Choice)
@pytest.mark.parametrize("filling", [False, True])
@pytest.mark.parametrize("name", [f"{0:020d}", "letter"])
def test_every_finding_has_a_sentence(tmp_path: Path, kind: Kind, choice: Choice, filling: bool, name: str) -> None:
    for damage in (False, True):
        for topic in (None, "T"):
            for path in (tmp_path, tmp_path / name):
                finding = Finding(kind, str(path), "", offset=4096, topic=topic, queue=0, damage=damage)
                for undecided in (False, True):
                    said = deeds(choice=choice, undecided=undecided, filling=filling).of(finding)
                    assert said and said[0].islower() and not said.endswith("."), said
                    if choice is not Choice.NONE and not undecided:
                        assert "needs a choice" not in said


@pytest.mark.parametrize("kind", [*sorted(OF_LOG - {Kind.LOG_SHORT}), Kind.MESSAGE_LOST])
def test_damage_of_the_log_needs_a_choice(kind: Kind) -> None:
    finding = Finding(kind, "commitlog/0", "", offset=4096)
    assert deeds().of(finding) == "needs a choice: skip or cut"
    assert "needs" not in deeds(choice=Choice.SKIP, undecided=False).of(finding)
    cut = deeds(choice=Choice.CUT, undecided=False, cut_at=1_234_567).of(finding)
    assert cut == ("stays lost" if kind is Kind.MESSAGE_LOST else "the log ends at 1,234,567")


def test_what_is_lost_to_nobody_needs_none() -> None:
    marker = Finding(Kind.LOG_RECORD, "commitlog/0", "", offset=7)
    assert "nothing is lost" in deeds(markers={7}).of(marker)
    number = Finding(Kind.QUEUE_OFFSET, "consumequeue/T/0", "", offset=9, topic="T", queue=0)
    assert deeds(renumbered={9: 3}).of(number) == "the record gets the queue offset that is due"
    gap = Finding(Kind.QUEUE_GAP, "consumequeue/T/0", "", offset=9, topic="T", queue=0)
    assert deeds(explained=[gap]).of(gap) == "a record gets this queue offset"
    assert deeds(choice=Choice.SKIP, undecided=False).of(gap).startswith("only a cut helps")


def test_a_config_file_has_its_own_sentence() -> None:
    config = [ConfigDeed(Path("config/topics.json"), "is put back from its .bak", lambda: None)]
    finding = Finding(Kind.CONFIG, "config/topics.json", "")
    assert deeds(undecided=False, config=config).of(finding) == "is put back from its .bak"
    assert deeds(undecided=False).of(finding) == "is put right with the others"
    assert deeds(config=config).of(finding).endswith("not before the log is whole")
