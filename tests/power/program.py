"""The program that cuts the power (machine.py, later.py), and its options."""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partialmethod
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import RULE_MARKER, run_state_machine_as_test

from orbitmq.native._core import lib
from tests.memory import folder_in_memory
from tests.power.later import LaterCuts
from tests.power.machine import COUNTS, FAILURES, LIES, RETENTION, SHIM, PowerCuts
from tests.power.old_code import OLD


def only(machine: type[PowerCuts], names: list[str]) -> type[PowerCuts]:
    """The machine with these of its rules alone. They may do what the others do."""
    rules = {name for name, each in inspect.getmembers(machine) if hasattr(each, RULE_MARKER)}
    assert rules.issuperset(names), f"its rules are {sorted(rules)}"
    return type(machine.__name__, (machine,), {name: partialmethod(getattr(machine, name)) for name in rules.difference(names)})


def run(machine: type[PowerCuts], lives: int, steps: int, number: int, lies: list[str], old: str, *, shrink: bool) -> None:
    """lives: how many times a store begins empty. Raises: AssertionError, or what the store raised."""
    LIES[:] = lies
    if old:
        OLD[old]()
    chosen = settings(
        max_examples=lives,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.normal,
        print_blob=False,
    )
    run_state_machine_as_test(seed(number)(machine), settings=chosen)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--lives", type=int, default=100, help="stores that begin from nothing")
    options.add_argument("--steps", type=int, default=20, help="of each")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--shrink", action="store_true", help="look for a shorter way to what was found")
    options.add_argument("--lie", action="append", default=[], help="pattern of paths whose syncs do nothing: must be found")
    options.add_argument("--old", default="", choices=OLD, help="code as it was once: must be found")
    options.add_argument("--only", action="append", default=[], help="one of the machine's rules: the others rest")
    options.add_argument("--no-failures", action="store_true", help="no sync fails")
    options.add_argument(
        "--no-retention", action="store_true", help="nothing is removed: more of everything else in the same time"
    )
    options.add_argument("--no-later", action="store_true", help="no transactions and no delayed messages: likewise")
    options.add_argument("--on-disk", action="store_true", help="images are on a disk, not in memory: slower")
    chosen = options.parse_args()
    RETENTION[0], FAILURES[0] = not chosen.no_retention, not chosen.no_failures
    assert lib.crash_points_built() is False
    began = time.monotonic()
    folders = ExitStack()
    try:
        # What a sync does the simulated disk decides; the real one has only to wait for.
        if not chosen.on_disk:
            tempfile.tempdir = str(folders.enter_context(folder_in_memory(lambda: Path(tempfile.gettempdir()))))
        machine: type[PowerCuts] = PowerCuts if chosen.no_later else LaterCuts
        if chosen.only:
            machine = only(machine, chosen.only)
        run(machine, chosen.lives, chosen.steps, chosen.seed, chosen.lie, chosen.old, shrink=chosen.shrink)
    finally:
        folders.close()
        syncs = f"{SHIM.syncs} syncs, {SHIM.failed} failed"
        print(f"seed {chosen.seed}: {COUNTS}, {syncs}, {time.monotonic() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
