"""A broker under load, both of the crash build, that outlive every death: a process that was killed is started again, and in
the end every message is accounted for."""

from __future__ import annotations

import grp
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orbitmq
from orbitmq.client.admin.status import read_actors, read_positions
from orbitmq.errors import BrokerBroken, BrokerError, TimedOut
from orbitmq.shm import runtime
from tests.crash import crash_build
from tests.crash.chain_account import settle_chain
from tests.crash.crash_plan import CrashPlan
from tests.crash.delay_account import settle_delayed
from tests.crash.ledger import BODY, Account, settle
from tests.crash.remote_account import settings_for_remote, settle_remote
from tests.crash.transaction_account import CHECKS_MAX, settle_transactions
from tests.crash.work_account import chosen, failures, wrongs
from tests.crash.worker import (
    CHAIN,
    FAIL_GROUP,
    GROUP,
    LATER,
    REMOTE,
    SEALED,
    SETTLED,
    SIDE,
    TOPIC,
    WORK_GROUP,
    WORK_WANTED,
    chain_topic,
)
from tests.trees import everything
from tests.waiting import WATCHDOG_S, dead, until

# Small, so that files end all the time: a CommitLog file holds about a thousand messages.
SMALL: dict[str, Any] = {
    "handlers": 2,
    "log_file_size": 256 << 10,
    "message_max": 16 << 10,
    "lane_capacity": 64 << 10,
    "index_slots": 500,
    "index_entries": 2000,
    "queue_file_units": 500,
    "flush_interval_ms": 20,
    "offsets_interval_s": 0.1,
    "restarts": 1_000_000,
    "transaction_timeout_s": 0.05,
    "transaction_check_interval_s": 0.1,
    "transaction_check_max": CHECKS_MAX,
}
# Between two looks at all processes, each of which costs a part of a millisecond.
LOOK_MS = 10
ROLES = ("produce", "produce", "share", "share", "keep", "stir")
ENDED = (BrokerError, TimedOut)


class Worker:
    """One role of the load, and the process that fills it now. Each life of a producer is another producer."""

    def __init__(self, load: Load, role: str, place: int) -> None:
        self.role = role
        self._load = load
        self._place = place
        self.ended = False
        self.begin()

    def begin(self) -> None:
        load = self._load
        load.lives += 1
        # Results stay where the dead left them; notes and ledgers belong to each life.
        number = self._place if self.role == "keep" else load.lives
        path = load.folder / f"{self.role}-{number}"
        command = [sys.executable, str(Path(__file__).with_name("worker.py")), self.role, load.name, str(path), str(number)]
        self.process = subprocess.Popen(
            [*command, str(load.seed * 1000 + load.lives)],
            env={**os.environ, **crash_build.environment(load.plan.path)},
            stdin=subprocess.PIPE,
            stderr=load.errors,
        )

    def look(self) -> None:
        """Starts it again if it was killed. Raises: AssertionError: it ended by itself."""
        code = self.process.poll()
        if code is not None and not self.ended:
            assert code == -signal.SIGKILL, f"a process that is to {self.role} ended with {code}: {self._load.last_words()}"
            self.close()
            self.begin()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> None:
        self.close()
        self.ended = True


class Load:
    """The tree and its clients. name: of the broker, the same in all of its lives. more: settings besides."""

    def __init__(
        self, folder: Path, seed: int, roles: tuple[str, ...] = ROLES, placement: str = "spread",
        more: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.seed = seed
        self.rng = random.Random(seed)
        self.placement = placement
        self.settings = {**SMALL, **(settings_for_remote(folder) if "remote" in roles else {}), **(more or {})}
        self.name = f"crash-{os.getpid()}-{seed}-{folder.name}"[:60]
        self.lives = 0
        self.starts = 0
        self.plan = CrashPlan(folder / "plan")
        self.errors = (folder / "errors").open("w")
        self.broker: subprocess.Popen[bytes] | None = None
        self.workers: list[Worker] = []
        self.start()
        self.client = orbitmq.connect(self.name, timeout=WATCHDOG_S)
        for topic in (TOPIC, SIDE, LATER, SETTLED, REMOTE, *map(chain_topic, (0, *CHAIN))):
            self.client.create_topic(topic, queues=4)
        self.client.connection.ask("create_topic", name=SEALED, queues=4, perm=4)
        self.workers = [Worker(self, role, place) for place, role in enumerate(roles)]

    # ---- the tree

    def try_start(self) -> bool:
        """One start; False if it was killed on its way."""
        from orbitmq.client.broker.launch import start_tree

        before = {name: os.environ.get(name) for name in crash_build.environment(self.plan.path)}
        os.environ.update(crash_build.environment(self.plan.path))
        try:
            # Open to a group, and to none, in turns: each start has modes to change, and something to remember.
            self.starts += 1
            group = grp.getgrgid(os.getegid()).gr_name if self.starts % 2 else ""
            told = {"group": group, "retention_hours": 72 + self.starts % 2}
            options = {"name": self.name, "owner": os.getpid(), **told, **self.settings, "placement": self.placement}
            self.broker = start_tree(str(self.folder / "store"), options, errors_to=self.errors).process
        except BrokerBroken:
            return False
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        return True

    def start(self) -> None:
        until(self.try_start, "the broker to start")

    def stop(self) -> None:
        """A clean stop, or what an armed point leaves of it."""
        assert self.broker is not None
        with suppress(ProcessLookupError):
            self.broker.terminate()
        self.broker.wait(WATCHDOG_S)
        self.broker = None

    def kill_tree(self) -> None:
        assert self.broker is not None
        self.broker.kill()
        self.broker.wait(WATCHDOG_S)
        self.broker = None

    def actors(self) -> dict[str, Any]:
        """By name, read from shared memory alone; empty while no tree runs."""
        if self.broker is None or self.broker.poll() is not None:
            return {}
        try:
            return {actor.name: actor for actor in read_actors(self.client.connection.attachment)}
        except ENDED:
            return {}

    def clear_names(self) -> None:
        """As a program does that cleans temporary folders."""
        for path in (runtime.socket_path(self.name), runtime.description_path(self.name)):
            path.unlink(missing_ok=True)

    def kill_actor(self, name: str) -> int:
        """Returns its pid; 0: it is between two lives, in which its page has pid 0, which to kill(2) means every process of our
        group."""
        victim = self.actors().get(name)
        if victim is None or victim.pid <= 0:
            return 0
        with suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)
        until(lambda: dead(victim.pid), f"the death of {name}")
        return int(victim.pid)

    def last_words(self) -> str:
        """The end of what all processes wrote to the error output."""
        return Path(self.errors.name).read_text(errors="replace")[-3000:]

    def kill_worker(self, role: str) -> None:
        victim = self.rng.choice([worker for worker in self.workers if worker.role == role]).process
        victim.kill()
        victim.wait()

    # ---- repair

    def repaired(self) -> bool:
        """Makes all dead processes live again; starts those that nobody else starts: the tree, and its clients."""
        if self.broker is None or self.broker.poll() is not None:
            self.broker = None
            if not self.try_start():
                return False
        for worker in self.workers:
            worker.look()
        actors = self.actors()
        # A page shows its actor's death only when the supervisor has noticed it.
        alive = (actor.pid > 0 and actor.state == "running" and not dead(actor.pid) for actor in actors.values())
        return bool(actors) and all(alive)

    def repair(self) -> None:
        until(self.repaired, "everybody to live", look_ms=LOOK_MS)

    def grow(self, size: int = 1) -> None:
        """Waits until the coordinator answers, and messages pass through the whole pipeline again, at least so many bytes of
        them."""
        wanted = int(until(self._wrote, "a broker that has stored something")) + size

        def grown() -> bool:
            self.repaired()
            with suppress(*ENDED):
                positions = read_positions(self.client.connection.attachment)
                return bool(positions.reput >= wanted and positions.flushed >= wanted)
            return False

        until(grown, "the log to grow", look_ms=LOOK_MS)

    def _wrote(self) -> int:
        self.repaired()
        with suppress(*ENDED):
            return int(self.client.status().positions.wrote)
        return 0

    # ---- the end

    def finish(self) -> Account:
        """Ends the load, waits until everything is consumed, and compares."""
        self.plan.disarm()
        self.repair()
        for role in ("produce", "delay", "transact", "feed", "stir", "remote"):
            self._end(role)
        if any(worker.role == "check" for worker in self.workers):
            until(self._all_ended, "every transaction to end")
            self._end("check")
        until(self._drained, "the group to have everything")
        for role in ("share", "keep", "toil", "fail", "chain"):
            self._end(role)
        stored = everything(self.client, TOPIC)
        account = settle_all(self.folder, stored)
        if any(worker.role == "toil" for worker in self.workers):
            wanted = chosen(self.client, TOPIC, WORK_WANTED)
            assert 0 < len(wanted) < len(stored)
            account.wrong += wrongs(self.folder, wanted)
        if any(worker.role == "fail" for worker in self.workers):
            account.wrong += failures(self.client, self.folder, FAIL_GROUP)
        if any(worker.role == "delay" for worker in self.workers):
            settle_delayed(self.client, self.folder, account)
        if any(worker.role == "transact" for worker in self.workers):
            settle_transactions(self.client, self.folder, account)
        if any(worker.role == "chain" for worker in self.workers):
            settle_chain(self.client, account)
        if any(worker.role == "remote" for worker in self.workers):
            settle_remote(self.client, self.folder, account)
        self.close()
        return account

    def _all_ended(self) -> bool:
        self.repaired()
        return not self.client.open_transactions()

    def _count(self, name: str) -> int:
        topics = {topic.name: topic for topic in self.client.status().topics}
        return sum(queue.max_offset for queue in topics[name].queues) if name in topics else 0

    def _drained(self) -> bool:
        for worker in self.workers:
            worker.look()
        # Twice, with nothing written in between: what a stage of the chain has written is in the lag of the next one.
        seen = [self.client.status() for _ in range(2)]
        if any(status.positions.reput < seen[1].positions.wrote for status in seen):
            return False
        roles = {worker.role for worker in self.workers}
        wanted = {GROUP} | ({WORK_GROUP} if "toil" in roles else set())
        wanted |= {*map(chain_topic, CHAIN)} if "chain" in roles else set()
        for status in seen:
            lags = {group.name: group.lag_messages for group in status.groups if group.name in wanted}
            if lags.keys() != wanted or any(lags.values()):
                return False
        return True

    def _end(self, role: str) -> None:
        for worker in self.workers:
            if worker.role == role:
                worker.end()
        for worker in self.workers:
            if worker.role == role:
                code = worker.process.wait(WATCHDOG_S)
                assert code == 0, f"a process that was to {role} ended with {code}: {self.last_words()}"

    def close(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()
        if self.broker is not None:
            self.stop()
        self.client.close()
        self.errors.close()


def settle_all(folder: Path, stored: list[tuple[bytes, int, int, int]]) -> Account:
    """Ledgers against the log, and the log against what each kind of consumer has."""
    ledgers = {int(path.name.partition("-")[2]): path for path in folder.glob("produce-*")}
    account = settle(ledgers, stored)
    log = {(queue, offset): BODY.unpack_from(body) for body, queue, offset, _ in stored}
    there = set(log.values())
    for path in folder.glob("atomic-*"):
        who = int(path.name.partition("-")[2])
        for first, count in (map(int, line.split()) for line in path.read_text().split("\n")[:-1]):
            found = sum((who, first + n) in there for n in range(count))
            if found not in (0, count):
                account.wrong.append(f"of an atomic batch of {count} messages of producer {who} there are {found}")
    shared: set[tuple[int, ...]] = set()
    for path in folder.glob("share-*"):
        lines = path.read_text().split("\n")[:-1]  # a line without an end was cut off, before its commit
        shared |= {tuple(map(int, line.split())) for line in lines}
    kept: list[tuple[int, ...]] = []
    for path in folder.glob("keep-*"):
        if "-" not in path.name.removeprefix("keep-"):
            with sqlite3.connect(path) as results:
                kept += results.execute("SELECT queue, offset, who, number FROM result").fetchall()
    wanted = {(*place, *message) for place, message in log.items()}
    account.compare("the group", shared, wanted)
    account.compare("the consumer that keeps results", set(kept), wanted)
    if len(kept) != len(set(kept)):
        account.wrong.append("the consumer that keeps results has some twice")
    return account
