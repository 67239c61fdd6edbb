"""Goal: only reput may have a topic of the log added. Method: reput's question, put to a real tree by another process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from orbitmq.actors.complaints import Complaints
from orbitmq.actors.reput import Reput
from orbitmq.errors import NoPermission
from tests.trees import small_broker


def asker(broker: str) -> Reput:
    """As much of a Reput as is needed to ask."""
    made = object.__new__(Reput)
    made.tree = SimpleNamespace(settings=SimpleNamespace(name=broker))
    made._missing = lambda: ("gone", 3)
    made._complaints = Complaints()
    return made


def test_a_stranger_is_refused(tmp_path: Path) -> None:
    with small_broker(tmp_path) as broker:
        with pytest.raises(NoPermission, match="only the broker's reput"):
            asker(broker.name).need()
        assert broker.topics() == []


def test_without_a_coordinator(caplog: pytest.LogCaptureFixture) -> None:
    """No reason to die: it says what it waits for, and its loop asks again."""
    asker("nobody-has-this-name").need()
    assert "cannot have the topic 'gone' of the log added yet" in caplog.text
