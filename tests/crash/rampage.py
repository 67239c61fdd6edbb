"""Kills at random, for as long as you like: producers, consumers, every actor, the supervisor, the whole tree, and the process
that passes a crash point first. Behind scripts/crash.

What is killed when follows from the seed alone: the schedule counts in bytes of log between two kills, not in seconds. After
every round of kills the load ends, every message is accounted for, and the next round begins with an empty store.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.crash import crash_build
from tests.crash.ledger import Account
from tests.crash.load import ENDED, LOOK_MS, Load
from tests.crash.load import ROLES as USUAL
from tests.crash.retained import PARTS
from tests.waiting import Stuck, dead, until
from tests.warm import warm_starts

ROUND = 60  # kills
PASS_S = 0.5  # how long a process may take to pass an armed point before the rampage continues without
BESIDE = ("feed", "chain", "chain", "remote", "remote", "remote")  # the usual load
PLACEMENTS = ("spread", "together")  # in turns, a round each
GATEWAYS = ("gateway", "gateway 1", "gateway 2")
ACTORS = ("writer", "reput", "flush", "allocator", "notifier", "coordinator", "handler 0", "handler 1", *GATEWAYS)
# Kind of kill, and how often it is chosen.
KINDS = {
    **dict.fromkeys(ACTORS, 3),
    "producer": 4,
    "consumer in a group": 2,
    "consumer with results": 2,
    "stage of a chain": 2,
    "client of the gateway": 2,
    "other client": 1,
    "supervisor": 2,
    "whole tree": 2,
    "crash point": 20,
    "clean stop": 1,
}
ROLES = {"producer": "produce", "consumer in a group": "share", "consumer with results": "keep", "stage of a chain": "chain",
         "client of the gateway": "remote", "other client": "stir"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kill:
    """One entry of the schedule. after: bytes of log that come first; point, passage: of kind "crash point"."""

    kind: str
    after: int
    point: str
    passage: int


def schedule(seed: int) -> Iterator[Kill]:
    """For ever."""
    rng = random.Random(seed)
    elsewhere = PARTS | crash_build.OF_REPAIR | crash_build.OF_SINK | crash_build.OF_EXPORT
    points = [point for point, part in crash_build.points().items() if part not in elsewhere]
    kinds, weights = list(KINDS), list(KINDS.values())
    while True:
        yield Kill(rng.choices(kinds, weights)[0], rng.randrange(100_000), rng.choice(points), rng.choice((1, 1, 2, 5, 50)))


@dataclass
class Tally:
    """The result. Times in seconds."""

    recoveries: dict[str, list[float]] = field(default_factory=dict)
    missed: int = 0
    stall: float = 0.0
    acknowledged: int = 0
    stored: int = 0
    perhaps: int = 0
    refused: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, account: Account) -> None:
        for name in ("acknowledged", "stored", "perhaps", "refused", "lost", "duplicated", "wrong"):
            setattr(self, name, getattr(self, name) + getattr(account, name))

    @property
    def kills(self) -> int:
        return sum(map(len, self.recoveries.values()))

    @property
    def good(self) -> bool:
        return not (self.wrong or self.lost or self.duplicated)

    def show(self, console: Console) -> None:
        kills = Table("killed", "times", "recovery, median", "recovery, longest", title="Kills")
        for kind, times in sorted(self.recoveries.items(), key=lambda item: -len(item[1])):
            kills.add_row(kind, f"{len(times):,}", f"{statistics.median(times):.2f} s", f"{max(times):.2f} s")
        messages = Table("messages", "", title="Messages")
        for name in ("acknowledged", "stored", "perhaps", "refused", "lost", "duplicated"):
            messages.add_row("perhaps stored" if name == "perhaps" else name, f"{getattr(self, name):,}")
        messages.add_row("longest stall", f"{self.stall:.2f} s")
        messages.add_row("points that nobody passed in time", f"{self.missed:,}")
        for table in (kills, messages):
            for column in table.columns[1:]:
                column.justify = "right"
            console.print(table)


class Rampage:
    """One run. ended says whether it is time to stop, and is asked between two kills."""

    def __init__(self, seed: int, folder: Path, ended: Callable[[int], bool], show: Callable[[str], None]) -> None:
        self.tally = Tally()
        self._seed = seed
        self._folder = folder
        self._ended = ended
        self._show = show

    def run(self) -> None:
        """Raises: Stuck, AssertionError: a process waits for ever, or ended by itself; the round's folder stays."""
        kills = schedule(self._seed)
        for number in itertools.count():
            if self._ended(self.tally.kills):
                return
            folder = self._folder / f"round-{number}"
            folder.mkdir()
            placement, roles = PLACEMENTS[(self._seed + number) % 2], (*USUAL, *BESIDE)
            load = Load(folder, self._seed, roles=roles, placement=placement, more={"gateways": len(GATEWAYS)})
            try:
                for kill in itertools.islice(kills, ROUND):
                    if self._ended(self.tally.kills):
                        break
                    self._one(load, kill)
                self._show(f"round {number}: accounting for every message")
                account = load.finish()
            finally:
                load.close()
            self.tally.add(account)
            if account.wrong:
                return
            shutil.rmtree(folder)

    def _one(self, load: Load, kill: Kill) -> None:
        self._show(
            f"{self.tally.kills:,} kills, {self.tally.acknowledged:,} messages accounted for, "
            f"longest stall {self.tally.stall:.2f} s; next: {kill.point if kill.kind == 'crash point' else kill.kind}"
        )
        load.grow(kill.after)
        began = time.monotonic()
        done = self._point(load, kill) if kill.kind == "crash point" else self._strike(load, kill.kind)
        if not done:
            self.tally.missed += 1
            return
        load.repair()
        self.tally.recoveries.setdefault(kill.kind, []).append(time.monotonic() - began)
        load.grow()
        self.tally.stall = max(self.tally.stall, time.monotonic() - began)

    def _strike(self, load: Load, kind: str) -> bool:
        if kind in ROLES:
            load.kill_worker(ROLES[kind])
        elif kind == "supervisor":
            load.kill_tree()
        elif kind == "clean stop":
            load.stop()
        elif kind == "whole tree":
            pids = [actor.pid for actor in load.actors().values() if actor.pid > 0]
            for pid in [*pids, *(worker.process.pid for worker in load.workers)]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            load.kill_tree()
        else:
            # Together, there is one handler.
            name = "handler 0" if kind == "handler 1" and load.placement == "together" else kind
            until(lambda: load.kill_actor(name), f"{name} to live")
        return True

    def _point(self, load: Load, kill: Kill) -> bool:
        load.plan.arm(kill.point, passage=kill.passage)
        deadline = time.monotonic() + PASS_S

        def is_over() -> bool:
            with suppress(*ENDED):
                load.repaired()
            return bool(load.plan.victim(kill.point)) or time.monotonic() >= deadline

        until(is_over, f"somebody to pass {kill.point}, or the time for it to be over", look_ms=LOOK_MS)
        load.plan.disarm()
        victim = load.plan.victim(kill.point)
        if victim:
            until(lambda: dead(victim), f"the death at {kill.point}")
        return bool(victim)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/crash", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to go on killing; default 1")
    parser.add_argument("--kills", type=int, default=0, help="how many kills to stop after, instead of a time")
    parser.add_argument("--seed", type=int, default=None, help="of an earlier run, to have its schedule again")
    parser.add_argument("--folder", type=Path, default=None, help="for the stores; a temporary one by default")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    console = Console()
    console.print(f"seed {seed}")
    folder = options.folder or Path(tempfile.mkdtemp(prefix="orbitmq-crash-"))
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + options.minutes * 60
    crash_build.build()
    stuck = ""
    with console.status("starting") as status, warm_starts():
        rampage = Rampage(
            seed, folder, lambda kills: kills >= options.kills if options.kills else time.monotonic() >= end, status.update
        )
        try:
            rampage.run()
        except KeyboardInterrupt:
            stuck = "interrupted"
        except (Stuck, AssertionError, *ENDED) as error:
            stuck = f"{type(error).__name__}: {error}"
    rampage.tally.show(console)
    if rampage.tally.good and not stuck:
        shutil.rmtree(folder)
        console.print("every message is accounted for")
        return 0
    for line in [*rampage.tally.wrong[:20], *([stuck] if stuck else [])]:
        console.print(line, style="red", highlight=False)
    console.print(f"what is left of it: {folder}; again: scripts/crash --seed {seed}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
