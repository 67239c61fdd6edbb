"""Of actors/check_backs.py.

Goal: each half that is due is given to one process at a time, as often as the settings say, then to be given up; over deaths of
the coordinator, and whatever the clock does. Method: random questions against a plain model, with clocks of the test's; and
questions that no client asks."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orbitmq.actors import check_backs
from orbitmq.actors.check_backs import AT_ONCE, Asked, CheckBacks
from orbitmq.errors import ProtocolError
from orbitmq.store.check_notes import ENTRY_SIZE, CheckNotes
from orbitmq.store.settings.tree_settings import TreeSettings, tree_settings
from tests.trees import small_broker

TIMEOUT_MS, INTERVAL_MS, MOST = 6_000, 60_000, 3


class World:
    """What the coordinator sees: two clocks, and which halves are open."""

    def __init__(self, store: Path, **settings: Any) -> None:
        (store / "orbitmq").mkdir(parents=True, exist_ok=True)
        self.settings: TreeSettings = replace(tree_settings(str(store), {}), transaction_check_max=MOST, **settings)
        self.wall_ms, self.clock_ms = 1_000_000_000, 0
        self.open: set[int] = set()
        self.begin()

    def begin(self) -> None:
        """A coordinator, which knows what the files say."""
        self.backs = CheckBacks(self.settings, self.open.__contains__, lambda: self.wall_ms, lambda: self.clock_ms)

    def pass_by(self, ms: int) -> None:
        self.wall_ms += ms
        self.clock_ms += ms

    def half(self, offset: int, immune_ms: int = -1, checks: int = 0) -> Asked:
        self.open.add(offset)
        return Asked(offset, 1000 * offset, self.wall_ms, immune_ms, checks)


@pytest.mark.parametrize("seed", range(4))
def test_as_a_plain_model_says(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    world = World(tmp_path)
    halves: list[Asked] = []
    due: dict[int, int] = {}
    given: dict[int, int] = {}
    told = set[str]()
    for _ in range(1500):
        step = rng.random()
        if step < 0.1:
            immune_ms, checks = rng.choice((-1, -1, 0, 20_000)), rng.choice((0, 0, 2, 7))
            half = world.half(len(halves), immune_ms, checks)
            halves.append(half)
            due[half.offset] = world.clock_ms + (TIMEOUT_MS if immune_ms < 0 else immune_ms)
            given[half.offset] = checks
        elif step < 0.15 and world.open:
            world.open.discard(rng.choice(sorted(world.open)))
        elif step < 0.5:
            world.pass_by(rng.choice((1, 999, TIMEOUT_MS, INTERVAL_MS // 3)))
        elif step < 0.55:
            world.begin()
        else:
            asked = rng.sample(halves, min(len(halves), rng.choice((1, 3, 30))))
            still = [half for half in asked if half.offset in world.open]
            counted = [(given[half.offset], max(due[half.offset] - world.clock_ms, 0)) for half in still]
            assert world.backs.noted(still) == counted
            for half, answer in zip(asked, world.backs.take(asked), strict=True):
                place = half.offset
                if place not in world.open:
                    wanted = (check_backs.CLOSED, 0)
                elif due[place] > world.clock_ms:
                    wanted = (check_backs.LATER, due[place] - world.clock_ms)
                else:
                    gives_up = given[place] >= MOST
                    given[place] += not gives_up
                    wanted = (check_backs.GIVE_UP if gives_up else check_backs.CHECK, given[place])
                    due[place] = world.clock_ms + INTERVAL_MS
                assert answer == wanted
                told.add(wanted[0])
    assert len(told) == 4


def test_a_clock_that_jumps(tmp_path: Path) -> None:
    """Nothing waits for longer than an interval because the clock was set back, and nothing comes sooner because it was set
    ahead between two checks of one coordinator."""
    world = World(tmp_path)
    half = world.half(1)
    world.pass_by(TIMEOUT_MS)
    assert world.backs.take([half]) == [(check_backs.CHECK, 1)]
    world.wall_ms += 365 * 86_400_000
    assert world.backs.take([half]) == [(check_backs.LATER, INTERVAL_MS)]
    world.wall_ms -= 364 * 86_400_000
    world.pass_by(INTERVAL_MS)
    assert world.backs.take([half]) == [(check_backs.CHECK, 2)]
    world.wall_ms -= 10_000
    world.begin()
    assert world.backs.take([half]) == [(check_backs.LATER, INTERVAL_MS)]
    world.pass_by(INTERVAL_MS)
    assert world.backs.take([half]) == [(check_backs.CHECK, 3)]
    world.wall_ms = half.begun_ms - 1  # the half seems to be of the future
    assert world.backs.take([world.half(2)._replace(begun_ms=half.begun_ms)]) == [(check_backs.CHECK, 1)]


def test_another_half_in_its_place(tmp_path: Path) -> None:
    """After a power cut: it begins anew."""
    world = World(tmp_path)
    half = world.half(1)
    world.pass_by(TIMEOUT_MS)
    assert world.backs.take([half]) == [(check_backs.CHECK, 1)]
    world.pass_by(1)
    world.begin()
    assert world.backs.take([half]) == [(check_backs.LATER, INTERVAL_MS - 1)]
    for other in (half._replace(begun_ms=world.wall_ms), half._replace(physical_offset=77)):
        world.begin()
        (answer,) = world.backs.take([other._replace(immune_ms=0)])
        assert answer == (check_backs.CHECK, 1)


def test_the_file_forgets_what_is_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_backs, "SETTLED_MAX", 8)
    world = World(tmp_path)
    for offset in range(40):
        half = world.half(offset)
        world.pass_by(TIMEOUT_MS)
        assert world.backs.take([half]) == [(check_backs.CHECK, 1)]
        if offset:
            world.open.discard(offset)
    assert world.settings.layout.transaction_checks.stat().st_size < 40 * ENTRY_SIZE
    assert 0 in CheckNotes(world.settings.layout).load()


def test_a_disk_that_takes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Checks go on, and it is said once; when the disk is well again, the file has everything."""
    world = World(tmp_path)
    path = world.settings.layout.transaction_checks
    path.mkdir()
    halves = [world.half(offset) for offset in range(3)]
    world.pass_by(TIMEOUT_MS)
    assert [world.backs.take([half])[0] for half in halves[:2]] == [(check_backs.CHECK, 1)] * 2
    assert caplog.text.count("cannot write down which transactions were checked") == 1
    path.rmdir()
    assert world.backs.take(halves[2:]) == [(check_backs.CHECK, 1)]
    assert set(CheckNotes(world.settings.layout).load()) == {0, 1, 2}


def test_a_broker_that_may_not_write(tmp_path: Path) -> None:
    world = World(tmp_path, read_only=True)
    half = world.half(1)
    world.pass_by(TIMEOUT_MS)
    assert world.backs.take([half]) == [(check_backs.LATER, INTERVAL_MS)]
    assert not world.settings.layout.transaction_checks.exists()


def test_questions_that_no_client_asks(tmp_path: Path) -> None:
    good = [0, 0, 0, -1, 0]
    with small_broker(tmp_path) as broker, broker.producer() as producer:
        broker.create_topic("t", 1)
        ask = broker.connection.ask
        wrong: list[Any] = [good, [good[:4]], [[*good[:4], "0"]], [[*good[:3], -2, 0]], [[1 << 63, *good[1:]]]]
        for halves in (*wrong, [good] * (AT_ONCE + 1)):
            with pytest.raises(ProtocolError):
                ask("check_transactions", halves=halves)
        producer.transaction("t", b"x").rollback()
        answers = ask("check_transactions", halves=[good, [1 << 62, *good[1:]]])["answers"]
        assert answers == [["closed", 0], ["closed", 0]]
        assert ask("check_transactions") == {"timeout_ms": 6000, "interval_ms": 60_000, "answers": []}
