"""Goal: the placement decides which processes there are, and nothing that a client sees.

Method: real trees with handler, writer and reput together; tests/crash has the deaths under load."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import orbitmq
from orbitmq import errors
from orbitmq.store.settings.tree_settings import tree_settings
from tests.trees import actors, everything, kill, small_broker
from tests.waiting import until

STAGES = ("handler 0", "writer", "reput")


@pytest.mark.parametrize(
    ("placement", "processors", "together", "lanes"),
    [
        ("auto", 1, True, 1),
        ("auto", 2, True, 1),
        ("auto", 3, False, 4),
        ("spread", 1, False, 4),
        ("together", 64, True, 1),
    ],
)
def test_what_it_means_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placement: str, processors: int, together: bool, lanes: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(processors)))
    found = tree_settings(str(tmp_path), {"placement": placement, "handlers": 4})
    assert (found.together, found.lanes, found.handlers) == (together, lanes, 4)


def test_another_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.SettingError, match="cannot set placement to 'alone': it must be one of auto, spread, together"):
        orbitmq.Broker(tmp_path, placement="alone")  # type: ignore[arg-type]


def test_they_live_and_die_together(tmp_path: Path) -> None:
    """A successor takes over for all three; the others never stop; offsets go on."""
    with small_broker(tmp_path, placement="together") as broker:
        broker.create_topic("t", 1)
        producer = broker.producer()
        before = actors(broker)
        assert {before[name].pid for name in STAGES} == {before["writer"].pid} and "handler 1" not in before
        assert len({each.pid for each in before.values()}) == len(before) - 2
        assert b"stages" in Path(f"/proc/{before['writer'].pid}/cmdline").read_bytes()
        for life, name in enumerate(STAGES, 2):
            assert producer.send("t", b"%d" % life).offset == life - 2
            kill(broker, name)
            until(lambda life=life: {(actors(broker)[n].epoch, actors(broker)[n].state) for n in STAGES} == {(life, "running")})
        assert producer.send("t", b"last").offset == len(STAGES)
        after = actors(broker)
        assert {name: after[name].pid for name in after if name not in STAGES} == {
            name: before[name].pid for name in before if name not in STAGES
        }
        assert [body for body, *_ in everything(broker, "t")] == [b"2", b"3", b"4", b"last"]
    assert not (tmp_path / "abort").exists()


def test_a_stop_finishes_what_was_sent(tmp_path: Path) -> None:
    """Method: more than the lane holds is in the ring of a session when the stages, which were stopped until then, are asked to
    end."""
    with small_broker(tmp_path, placement="together") as broker:
        broker.create_topic("t", 1)
        producer = broker.producer()
        stages = actors(broker)["writer"].pid
        os.kill(stages, signal.SIGSTOP)
        for number in range(500):
            producer.send_oneway("t", b"%d" % number + bytes(1000))
        os.kill(stages, signal.SIGCONT)
    with small_broker(tmp_path, placement="spread") as broker:
        assert [body.rstrip(b"\0") for body, *_ in everything(broker, "t")] == [b"%d" % number for number in range(500)]
