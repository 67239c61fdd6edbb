"""Goal: in every history of sends, purges, deletions, growth, permissions, deaths and starts, readers get what was sent and not
purged, numbers go on, and the store is whole. Method: a real tree, moved at random as the seed says, beside a model that keeps
a list and a floor for each queue. ORBITMQ_TOPIC_HISTORIES is the number of seeds."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import NoPermission
from orbitmq.store.layout import StoreLayout
from orbitmq.store.verify.verify import verify
from tests.actors.test_group_changes import kill_tree
from tests.trees import SMALL, everything, kill
from tests.waiting import until

QUEUES = 3
STEPS = 25
QUEUES_MAX = 8
SEEDS = int(os.environ.get("ORBITMQ_TOPIC_HISTORIES", "2"))
KINDS = (
    "send", "send", "send", "purge", "purge", "purge", "coordinator", "reput", "stop", "kill", "kill", "queues", "delete",
    "delete", "grow", "permit",
)  # fmt: skip


class History:
    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.sent: list[list[bytes]] = [[] for _ in range(QUEUES)]
        self.floors = [0] * QUEUES
        self.broker = orbitmq.Broker(folder, **SMALL)
        self.broker.create_topic("t", QUEUES)

    def step(self, kind: str) -> None:
        getattr(self, f"do_{kind}")()

    def do_send(self) -> None:
        with self.broker.producer() as producer:
            for queue, sent in enumerate(self.sent):
                bodies = [b"%d.%d" % (queue, len(sent) + n) for n in range(self.rng.randrange(40))]
                if bodies:
                    assert producer.send_batch("t", bodies, queue=queue)[0].offset == len(sent), "numbers go on"
                sent.extend(bodies)

    def do_purge(self) -> None:
        queue = self.rng.choice((None, *range(len(self.sent))))
        chosen = range(len(self.sent)) if queue is None else (queue,)
        self.readable()
        to = self.rng.randrange(min(len(self.sent[each]) for each in chosen) + 1)
        told = self.broker.purge_topic("t", to, queue=queue)
        for each in chosen:
            self.floors[each] = max(self.floors[each], to)
        assert [each.after for each in told] == [self.floors[each] for each in chosen]

    def do_delete(self) -> None:
        self.broker.delete_topic("t")
        death = self.rng.choice(("none", "coordinator", "reput", "stop", "kill", "queues", "files"))
        print(f"  {death}", flush=True)
        if death != "none":
            self.step(death)
        assert self.broker.topics() == []
        self.broker.create_topic("t", len(self.sent))
        self.floors = [len(sent) for sent in self.sent]

    def do_grow(self) -> None:
        if len(self.sent) < QUEUES_MAX:
            self.sent.append([])
            self.floors.append(0)
            assert self.broker.grow_topic("t", len(self.sent)).queues == len(self.sent)

    def do_permit(self) -> None:
        self.broker.set_permissions("t", read=True, write=False)
        self.step(self.rng.choice(("coordinator", "reput", "kill", "stop")))
        with self.broker.producer() as producer, pytest.raises(NoPermission):
            producer.send("t", b"refused")
        self.broker.set_permissions("t", read=True, write=True)

    def do_files(self) -> None:
        until(lambda: not (self.folder / "consumequeue" / "t").exists(), "reput to remove the files")

    def do_coordinator(self) -> None:
        kill(self.broker, "coordinator")
        self.broker.groups()

    def do_reput(self) -> None:
        kill(self.broker, "reput")

    def do_stop(self) -> None:
        self.broker.close()
        self.broker = orbitmq.Broker(self.folder, **SMALL)

    def do_kill(self) -> None:
        kill_tree(self.broker)
        self.broker = orbitmq.Broker(self.folder, **SMALL)

    def do_queues(self) -> None:
        kill_tree(self.broker)
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


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
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
