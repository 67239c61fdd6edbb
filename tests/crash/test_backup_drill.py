"""Goal: a backup that is made under load is a store that lacks nothing and has nothing by halves.

Method: producers, atomic batches, delayed messages, transactions, groups that commit, and a chain of topics with group offsets
in atomic batches. In the middle backups into the same folder, until one keeps files of the last; then everybody is killed. The
backup becomes the store of a second load, which consumes the rest. What the ledgers said before the backup began must all be
there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.store.backup.backup import Backed
from orbitmq.store.layout import StoreLayout
from orbitmq.store.verify.findings import Finding, Verdict
from orbitmq.store.verify.verify import verify
from tests.crash import crash_build
from tests.crash.ledger import BODY
from tests.crash.load import LOOK_MS, ROLES, Load
from tests.crash.worker import LATER, SETTLED, TOPIC
from tests.trees import everything
from tests.waiting import until

BESIDE = ("delay", "transact", "check", "feed", "chain", "chain")
Message = tuple[int, ...]


@pytest.fixture(scope="module", autouse=True)
def build() -> None:
    crash_build.build()


@pytest.mark.parametrize("placement", ["spread", "together"])
def test_a_backup_under_load(tmp_path: Path, placement: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    load = Load(first, seed=1, roles=(*ROLES, *BESIDE), placement=placement)
    try:
        load.grow(400_000)
        until(lambda: enough(first), "delayed messages and ended transactions", look_ms=LOOK_MS)
        until(lambda: backed(load, second).kept, "log files to be closed for certain", look_ms=LOOK_MS)
        load.grow(600_000)
        before = noted(first, "produce", "delay", "transact")
        again = backed(load, second)
        assert again.kept > 0
        load.grow(200_000)
        load.kill_tree()
    finally:
        load.close()
    verdict = whole(second / "store")
    assert not (second / "store.partial").exists()

    for name, lines in before.items():
        if name.startswith("produce"):
            (second / name).write_text("".join(lines))
    for path in first.glob("atomic-*"):
        (second / path.name).write_text("".join(whole_lines(path)))
    for path in first.glob("share-*"):  # what was got after the backup is not in it
        lines = [line for line in whole_lines(path) if int(line.split()[1]) < verdict.queues[TOPIC, int(line.split()[0])].next]
        (second / path.name.replace("share-", "share-9")).write_text("".join(lines))
    load = Load(second, seed=2, roles=("share", "share", "keep", "chain", "chain"), placement=placement)
    try:
        due = set(acknowledged(before, "delay")) - set(cancelled(first))
        until(lambda: due <= came(load, LATER).keys(), "the delayed messages to come")
        assert due and set(came(load, LATER).values()) == {1}
        ended = transactions(before)
        settled = came(load, SETTLED)
        assert set(settled.values()) == {1}
        assert ended["committed"] and ended["committed"] <= settled.keys()
        assert ended["rolled"] and not ended["rolled"] & settled.keys()
        with load.client.producer() as sender:
            assert sender.send(LATER, BODY.pack(2**32 - 1, 0)).physical_offset >= verdict.end
        account = load.finish()
    finally:
        load.close()
    assert account.wrong == []
    assert account.acknowledged > 0
    whole(second / "store")


def enough(folder: Path) -> bool:
    """Whether transactions have ended in both ways, and more delayed messages wait than one more call may cancel."""
    so_far = noted(folder, "delay", "transact")
    return all(transactions(so_far).values()) and len(set(acknowledged(so_far, "delay")) - set(cancelled(folder))) > 50


def backed(load: Load, folder: Path) -> Backed:
    return load.client.backup(folder / "store")


def whole(store: Path) -> Verdict:
    layout = StoreLayout.at(store)
    found: list[Finding] = []
    verdict = verify(layout, layout.settings(), found.append)
    assert verdict.whole and not found, found
    return verdict


def noted(folder: Path, *roles: str) -> dict[str, list[str]]:
    return {path.name: whole_lines(path) for role in roles for path in folder.glob(f"{role}-*")}


def whole_lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def acknowledged(ledgers: dict[str, list[str]], role: str) -> Iterator[Message]:
    for name, lines in ledgers.items():
        kind, _, who = name.partition("-")
        if kind == role:
            yield from ((int(who), int(number)) for number, place in map(str.split, lines) if place.isdigit())


def cancelled(folder: Path) -> Iterator[Message]:
    """Those that somebody has tried to cancel, before the backup or after it."""
    for path in folder.glob("cancelled-*"):
        who = int(path.name.partition("-")[2])
        yield from ((who, int(line.split()[0])) for line in whole_lines(path))


def transactions(ledgers: dict[str, list[str]]) -> dict[str, set[Message]]:
    ended: dict[str, set[Message]] = {"committed": set(), "rolled": set()}
    for name, lines in ledgers.items():
        kind, _, who = name.partition("-")
        for line in lines if kind == "transact" else ():
            number, told = line.split()[:2]
            if told in ended:
                ended[told].add((int(who), int(number)))
    return ended


def came(load: Load, topic: str) -> Counter[Message]:
    return Counter(BODY.unpack_from(body) for body, *_ in everything(load.client, topic))
