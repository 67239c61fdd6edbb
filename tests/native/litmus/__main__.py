"""scripts/litmus: every test's verdict, and which of its orders are needed."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.native.litmus.model import allows
from tests.native.litmus.program import Program, load, weakened

FOLDER = Path(__file__).parents[3] / "native" / "litmus"


def herd_allows(program: Program) -> bool:
    """herd7's answer under its own rc11.cat, which has no load buffering."""
    with tempfile.NamedTemporaryFile("w", suffix=".litmus") as file:
        file.write(program.text)
        file.flush()
        said = subprocess.run(["herd7", "-model", "rc11.cat", file.name], capture_output=True, text=True, check=False)
    for line in said.stdout.splitlines():
        if line.startswith("Observation"):
            return "Never" not in line.split()
    raise RuntimeError(f"herd7 does not understand {program.name}: {said.stderr or said.stdout}")


def variants(program: Program) -> list[tuple[int, str, Program]]:
    """The program, and each with one order weaker: (line, what was done, program)."""
    found = [(0, "as it stands", program)]
    for line, text in enumerate(program.text.partition("*)")[2].splitlines(), program.text.partition("*)")[0].count("\n") + 1):
        if "memory_order_" in text:
            found += [(line, deed, weaker) for deed, weaker in weakened(program, line)]
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(prog="scripts/litmus", description="Tries the memory orders of the C core.")
    arguments.add_argument("names", nargs="*", help="litmus tests of native/litmus; all unless given")
    arguments.add_argument("--herd", action="store_true", help="compare with herd7")
    options = arguments.parse_args()
    paths = [FOLDER / f"{name}.litmus" for name in options.names] or sorted(FOLDER.glob("*.litmus"))
    for path in paths:
        if not path.exists():
            arguments.error(f"there is no test {path.stem!r} in {FOLDER.name}")
    if options.herd and shutil.which("herd7") is None:
        arguments.error("cannot compare with herd7: there is no program of this name on the PATH")
    console = Console()
    table = Table("test", "bad outcome", "needed orders", "of", *(["herd7"] if options.herd else []))
    bad = 0
    for path in track(paths, "trying", console=console, transient=True):
        program = load(path)
        found = variants(program)
        possible = allows(program)
        lines = {line for line, _, _ in found[1:]}
        needed = {line for line, _, weaker in found[1:] if allows(weaker)}
        good = not possible and sorted(needed) == program.needed
        row = [path.stem, "[red]POSSIBLE" if possible else "impossible", str(len(needed)), str(len(lines))]
        if options.herd:
            differ = sum(herd_allows(each) != allows(each, thin_air=False) for _, _, each in found)
            good = good and not differ
            row.append(f"agrees on {len(found)}" if not differ else f"[red]differs on {differ} of {len(found)}")
        bad += not good
        table.add_row(*row)
    console.print(table)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
