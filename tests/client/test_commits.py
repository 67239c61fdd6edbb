"""Goal: a group continues at a commit that has returned, whichever process has died or stopped since.

Method: a group of one in this process commits one message after another, while a tree around it is stopped, killed and started
again on the same store."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import orbitmq
from orbitmq.cli.main import named_by
from orbitmq.client.broker.launch import start_tree
from orbitmq.errors import BrokerError, BrokerStopped
from orbitmq.shm import runtime
from orbitmq.store import config
from orbitmq.store.layout import StoreLayout
from tests.trees import SMALL, actors, indexed, kill
from tests.waiting import dead, until

MESSAGES = 1000
NEVER_S = 3600.0  # an interval in which nothing is written that is not needed


class World:
    """One store under one name, whose trees come and go."""

    def __init__(self, store: Path, **settings: Any) -> None:
        self.layout = StoreLayout.at(store)
        self.settings = {"name": f"commits-{os.getpid()}-{store.name}", "owner": os.getpid(), **SMALL, **settings}
        self.up()
        self.client = orbitmq.connect(self.settings["name"], timeout=240)
        self.client.create_topic("t", 1)
        with self.client.producer() as producer:
            producer.send_batch("t", [b"%d" % n for n in range(MESSAGES)], durability="flushed")
        indexed(self.client)  # tests take messages and do not wait for them

    def up(self) -> None:
        self.process = start_tree(str(self.layout.root), self.settings).process

    def down(self) -> int:
        self.process.terminate()
        return self.process.wait()

    def die(self) -> None:
        """Kills the supervisor, and with it the whole tree."""
        pids = [actor.pid for actor in actors(self.client).values()]
        self.process.kill()
        self.process.wait()
        until(lambda: all(dead(pid) for pid in pids if pid > 0), "the tree's end")

    def close(self) -> None:
        if self.process.poll() is None:
            self.down()
        self.client.close()

    def member(self) -> orbitmq.Consumer:
        return self.client.consumer("g", ["t"], batch=1)

    def position(self) -> int:
        """The offset at which the group continues."""
        with self.member() as member:
            return member.position()["t", 0]

    def written(self) -> int:
        """What a power cut would leave."""
        return config.load_offsets(self.layout).get(("t", "g"), {}).get(0, 0)

    def left_over(self) -> list[str]:
        return sorted(path.name for path in self.layout.commits.iterdir())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "store", offsets_interval_s=NEVER_S, stop_grace_s=600)
    yield made
    made.close()


def step(member: orbitmq.Consumer, count: int) -> int:
    """Takes so many messages, commits after each, and returns the group's offset then."""
    for _ in range(count):
        assert member.poll(30) is not None
        member.commit()
    return member.position()["t", 0]


def test_commits_while_an_orderly_stop_drains(world: World) -> None:
    """The flush service hangs while the tree stops: a commit in that time counts, or raises that it does not."""
    member = world.member()
    assert step(member, 100) == 100
    flush, coordinator = (actors(world.client)[name].pid for name in ("flush", "coordinator"))
    os.kill(flush, signal.SIGSTOP)
    world.process.terminate()
    until(lambda: dead(coordinator), "the coordinator's end")
    reader = member._reader
    tried = done = 100
    while tried < 500:
        assert reader.message(1) is not None
        tried += 1
        member.commit()
        done = tried
    os.kill(flush, signal.SIGCONT)
    # From here on the commits race with the stop, until one is refused.
    with suppress(BrokerStopped):
        while tried < MESSAGES:
            assert reader.message(1) is not None
            tried += 1
            member.commit()
            done = tried
    assert world.process.wait() == 0
    if done == tried:
        with pytest.raises(BrokerStopped):
            member.commit()
    assert done <= world.written() <= tried
    assert world.left_over() == []
    world.up()
    assert done <= world.position() <= tried


def test_a_stop_takes_the_last_commit(world: World) -> None:
    member = world.member()
    assert step(member, 7) == 7
    assert world.down() == 0
    assert world.written() == 7
    assert world.left_over() == []
    with pytest.raises(BrokerStopped, match="could not commit for the group 'g'"):
        member.commit()


def test_the_tree_dies_again_and_again(world: World) -> None:
    """No life lasts as long as the interval; the group advances in each."""
    at = 0
    for life in range(4):
        with world.member() as member:
            assert member.position()["t", 0] == at
            at = step(member, 50)
            world.die()
        world.up()
        # What a start takes in, it makes durable: a power cut from here on loses nothing of it.
        assert world.written() == at == 50 * (life + 1)
    assert world.position() == at


def test_the_coordinator_and_then_the_tree(world: World) -> None:
    member = world.member()
    for life in range(1, 6):
        step(member, 10)
        before = kill(world.client, "coordinator")
        until(lambda: actors(world.client)["coordinator"].epoch > before.epoch, "its successor")
        until(lambda: actors(world.client)["coordinator"].state == "running", "its successor")
        # Each life begins by writing, so its death does not delay what the interval promises.
        until(lambda: world.written() >= 10 * (life - 1), "the offsets to be written")
    at = step(member, 5)
    world.die()
    world.up()
    assert world.position() == at == 55


def test_a_member_that_left_before_the_tree_died(world: World) -> None:
    with world.member() as member:
        at = step(member, 30)
    until(lambda: all(not group.members for group in world.client.status().groups), "the member to be gone")
    world.die()
    world.up()
    assert world.position() == at == 30


def test_the_member_dies_with_the_tree(world: World) -> None:
    """Goal: no process has to live for it. Method: the member commits in a process of its own, which dies first."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            client = orbitmq.connect(world.settings["name"], timeout=240)
            os.write(writer, b"%d" % step(client.consumer("g", ["t"], batch=1), 77))
            signal.pause()
        os._exit(1)
    assert os.read(reader, 10) == b"77"
    world.process.send_signal(signal.SIGSTOP)  # so that nobody can notice its end
    coordinator = actors(world.client)["coordinator"].pid
    os.kill(coordinator, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    world.die()
    world.up()
    assert world.position() == 77


def test_a_commit_after_the_tree_died(world: World) -> None:
    """Until the next start has taken the commits they count. After that they are refused, and never lost silently."""
    member = world.member()
    step(member, 10)
    reader = member._reader
    world.die()
    assert reader.message(1) is not None
    assert member._hold.commit(reader.positions())
    world.up()
    assert world.written() == 11
    assert reader.message(1) is not None
    assert not member._hold.commit(reader.positions())
    assert member._hold.closed()
    assert world.written() == 11


def test_killed_while_a_start_takes_the_commits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut off after each of its steps: the next start gets the same result."""
    from orbitmq.store import commits

    class Cut(BaseException):
        pass

    with world.member() as member:
        at = step(member, 20)
        world.die()
    before = world.layout.root.with_name("before")
    shutil.copytree(world.layout.root, before)
    passages = 0
    while True:
        shutil.rmtree(world.layout.root)
        shutil.copytree(before, world.layout.root)
        left = passages

        def cut(name: str) -> None:
            nonlocal left
            if left == 0:
                raise Cut(name)
            left -= 1

        with monkeypatch.context() as patched:
            for module in ("commits", "config", "group_memory", "atomic_file"):
                patched.setattr(f"orbitmq.store.{module}.crash_point", cut)
            try:
                commits.settle(world.layout)
                whole = True
            except Cut:
                whole = False
        settled = commits.settle(world.layout)
        assert settled.notes == (), passages
        assert (world.written(), world.left_over()) == (at, [])
        if whole:
            break
        passages += 1
    assert passages >= 8, "every step was cut off"
    world.up()
    assert world.position() == at


def test_another_boot_does_not_count(world: World) -> None:
    """After a power cut consumerOffset.json alone says where groups are, and the start says so."""
    from orbitmq.store import commits, positions
    from orbitmq.store.group_memory import GroupMemory

    with world.member() as member:
        step(member, 20)
        world.die()
    memory = GroupMemory(world.layout)
    found = memory.load()
    assert found is not None and found.boot == positions.boot_id()
    memory.write(type(found)(found.generation, bytes(16), found.vouched, found.groups))
    settled = commits.settle(world.layout)
    assert "the machine has been started since" in settled.notes[0].text and not settled.notes[0].lost
    assert (world.written(), world.left_over()) == (0, [])


def test_what_somebody_else_has_set_since_stays(world: World) -> None:
    """After the tree died, RocketMQ had the store, or a person has set the offsets: theirs count."""
    with world.member() as member:
        step(member, 20)
        world.die()
    config.store_offsets(world.layout, {("t", "g"): {0: 5}})
    world.up()
    assert world.position() == 5


def test_a_file_cut_short_costs_its_member_only(world: World) -> None:
    """A member that truncates its file, or makes it longer, kills nobody, and takes nothing from others."""
    world.client.create_topic("u", 1)
    with world.client.producer() as producer:
        producer.send_batch("u", [b"x"] * 10)
    other = world.client.consumer("other", ["u"])
    assert other.poll(30) is not None
    other.commit()
    member = world.member()
    step(member, 5)
    assert member.committed() == {("t", 0): 5}
    before = actors(world.client)["coordinator"]
    for size in (0, 32, 1 << 20):
        os.truncate(world.layout.commits / f"{member._handle.slot}.{member._handle.epoch}", size)  # type: ignore[union-attr]
        assert member.committed() == {("t", 0): 5}, "what was known stays"
        # It is out of the group, and comes back with a file that is whole.
        member.commit()
    assert other.committed() == {("u", 0): 1}
    assert actors(world.client)["coordinator"].epoch == before.epoch
    world.die()
    world.up()
    assert world.position() == 5
    with world.client.consumer("other", ["u"]) as again:
        assert again.position()["u", 0] == 1


def test_the_same_name_again(world: World) -> None:
    """A session's number comes again in each life; what the earlier session left does not belong to the later one."""
    first = world.member()
    step(first, 3)
    world.die()
    world.up()
    second = world.member()
    assert second.position()["t", 0] == 3
    with suppress(BrokerError):
        first.close()
    assert step(second, 1) == 4
    assert runtime.read_description(world.settings["name"]) is not None
    assert world.down() == 0
    assert world.written() == 4


def test_stops_and_members_in_threads(world: World) -> None:
    """Commits of four members race with the stop: each queue continues at the last commit that returned, or at the one that was
    refused."""
    world.client.create_topic("many", 4)
    with world.client.producer() as producer:
        for queue in range(4):
            producer.send_batch("many", [b"x"] * 2000, queue=queue)
    indexed(world.client)
    members = [world.client.consumer("many", ["many"], batch=1) for _ in range(4)]
    for member in members:
        member.settle()
    done: dict[int, tuple[int, int]] = {}

    def work(member: orbitmq.Consumer) -> None:
        (_, queue), *_ = member.assignment
        tried = last = 0
        with suppress(BrokerStopped):
            while tried < 2000:
                assert member._reader.message(1) is not None
                tried += 1
                member.commit()
                last = tried
                done[queue] = last, tried
        done[queue] = last, tried

    threads = [threading.Thread(target=work, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    until(lambda: len(done) == 4 and all(last > 20 for last, _ in done.values()), "some commits of each")
    assert world.down() == 0
    for thread in threads:
        thread.join()
    found = config.load_offsets(world.layout)["many", "many"]
    for queue, (last, tried) in done.items():
        assert last <= found[queue] <= tried


def test_a_member_without_queues_is_looked_at_too(world: World) -> None:
    """Goal: the broker frees what a member made its file longer by. Method: two members, one queue, a file kept open."""
    with world.member() as first, world.member() as second:
        step(first, 3)
        idle = second if first.assignment else first  # the queue stays where it was
        assert not idle.assignment
        path = world.layout.commits / f"{idle._handle.slot}.{idle._handle.epoch}"  # type: ignore[union-attr]
        with path.open("r+b") as kept:
            os.posix_fallocate(kept.fileno(), 0, 8 << 20)
            assert first.committed() == {("t", 0): 3}
            assert not path.exists(), "it is put out"
            assert os.fstat(kept.fileno()).st_size < 1 << 20, "and what it took of the disk is free"


@pytest.mark.parametrize("damage", [None, "groups", "words"])
def test_a_repair_of_a_dead_store_takes_the_commits(world: World, damage: str | None) -> None:
    with world.member() as member:
        step(member, 20)
        world.die()
    if damage == "groups":
        for path in world.layout.commits.glob("groups-*"):
            path.write_bytes(b"rubbish" * 1000)
    elif damage == "words":
        next(path for path in world.layout.commits.iterdir() if not path.name.startswith("groups")).write_bytes(b"rubbish")

    def ran(*words: str) -> int:
        return CliRunner().invoke(named_by(words), [*words, "--store", str(world.layout.root)]).exit_code

    assert ran("verify") == (0 if damage is None else 1)
    assert ran("repair", "--yes") == 0
    assert ran("verify") == 0
    assert (world.written(), world.left_over()) == (20 if damage is None else 0, [])
    world.up()
    assert world.position() == (20 if damage is None else 0)
