"""Goal: what tests/actors/known_exchanges.json says of RocketMQ is true: its classes write these requests, and its broker and
name server give these answers.

Method: they are asked again.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.actors.known_exchanges import ANSWERS
from tests.interop.judge import Judge
from tests.interop.record_exchanges import record


def test_they_are_rocketmq_s(judge: Judge, tmp_path: Path) -> None:
    known = json.loads(ANSWERS.read_text())
    found = record(judge, tmp_path / "theirs")
    assert found.keys() == known.keys()
    wrong = [(name, known[name], found[name]) for name in known if known[name] != found[name]]
    assert not wrong, "\n".join(map(str, wrong))
