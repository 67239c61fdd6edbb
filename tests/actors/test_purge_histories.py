"""Goal: in every history of sends, purges, deletions, deaths and starts, readers get what was sent and not purged, numbers go
on, and the store is whole. Method: a real tree, moved at random as the seed says, beside a model that keeps a list and a floor
for each queue."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import orbitmq
from orbitmq.store.layout import StoreLayout
from orbitmq.store.verify.verify import verify
from tests.actors.test_group_changes import kill_tree
from tests.trees import SMALL, everything, kill
from tests.waiting import until

QUEUES = 3
STEPS = 25
KINDS = ("send", "send", "purge", "purge", "purge", "coordinator", "stop", "kill", "kill", "queues", "delete", "delete")


class History:
    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.sent: list[list[bytes]] = [[] for _ in range(QUEUES)]
        self.floors = [0] * QUEUES
        self.broker = orbitmq.Broker(folder, **SMALL)
        self.broker.create_topic("t", QUEUES)

    def step(self, kind: str) -> None:
        if kind == "send":
            with self.broker.producer() as producer:
                for queue, sent in enumerate(self.sent):
                    bodies = [b"%d.%d" % (queue, len(sent) + n) for n in range(self.rng.randrange(40))]
                    if bodies:
                        assert producer.send_batch("t", bodies, queue=queue)[0].offset == len(sent), "numbers go on"
                    sent.extend(bodies)
        elif kind == "purge":
            queue = self.rng.choice((None, *range(QUEUES)))
            chosen = range(QUEUES) if queue is None else (queue,)
            self.readable()
            to = self.rng.randrange(min(len(self.sent[each]) for each in chosen) + 1)
            told = self.broker.purge_topic("t", to, queue=queue)
            for each in chosen:
                self.floors[each] = max(self.floors[each], to)
            assert [each.after for each in told] == [self.floors[each] for each in chosen]
        elif kind == "delete":
            self.broker.delete_topic("t")
            death = self.rng.choice(("none", "coordinator", "stop", "kill", "queues"))
            print(f"  {death}", flush=True)
            if death != "none":
                self.step(death)
            assert self.broker.topics() == []
            self.broker.create_topic("t", QUEUES)
            self.floors = [len(sent) for sent in self.sent]
        elif kind == "coordinator":
            kill(self.broker, "coordinator")
            self.broker.groups()
        else:
            self.broker.close() if kind == "stop" else kill_tree(self.broker)
            if kind == "queues":
                shutil.rmtree(self.folder / "consumequeue")
            self.broker = orbitmq.Broker(self.folder, **SMALL)

    def readable(self) -> None:
        ends = [len(sent) for sent in self.sent]
        until(lambda: [queue.max_offset for queue in self.broker.topic("t").queues] == ends, "reput")

    def check(self) -> None:
        self.readable()
        assert [topic.name for topic in self.broker.topics()] == ["t"]
        expected = sorted(body for sent, floor in zip(self.sent, self.floors, strict=True) for body in sent[floor:])
        assert sorted(body for body, *_ in everything(self.broker, "t")) == expected
        assert [queue.min_offset for queue in self.broker.topic("t").queues] == self.floors


@pytest.mark.parametrize("seed", [1, 2])
def test_histories(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    history = History(tmp_path / "store", seed)
    try:
        for _ in range(STEPS):
            kind = history.rng.choice(KINDS)
            print(kind, flush=True)
            history.step(kind)
            history.check()
    finally:
        history.broker.close()
    found: list[str] = []
    layout = StoreLayout.at(tmp_path / "store")
    verify(layout, layout.settings(), lambda finding: found.append(str(finding)))
    assert found == []


def test_a_history_without_the_file_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the model sees a start that forgets. Method: the file is removed between two lives."""
    history = History(tmp_path / "store", 0)
    try:
        for kind in ("send", "purge", "stop"):
            history.step(kind)
        history.broker.purge_topic("t", queue=0)
        history.floors[0] = len(history.sent[0])
        history.broker.close()
        (tmp_path / "store" / "orbitmq" / "purged").unlink()
        history.broker = orbitmq.Broker(history.folder, **SMALL)
        with pytest.raises(AssertionError):
            history.check()
    finally:
        history.broker.close()
