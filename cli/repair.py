"""`orbitmq repair`: says what it would do about every fault of a store, and does it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from orbitmq.cli.console import counted, err, out, show_error
from orbitmq.cli.options import Json
from orbitmq.cli.verify import COULD_NOT, FAULTS_FOUND, reading_progress
from orbitmq.errors import OrbitError, StoreUnsupported
from orbitmq.shm.disk_fault import byte_count, said, way_out
from orbitmq.store import access
from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import StoreLock
from orbitmq.store.repair.choice import Choice, Loss
from orbitmq.store.repair.repair import Repair
from orbitmq.store.verify.findings import Finding, Verdict

WORDS = {"verify": "read", "log": "mend the log", "index": "make queues and index"}


def repair(
    store: Annotated[Path, typer.Option("--store", "-s", help="Folder of the store.")] = Path("data"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it. Otherwise ask on a terminal, or only report.")] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Give up damaged records, and keep all others.")] = False,
    cut: Annotated[bool, typer.Option("--cut", help="Give up the log from its first damaged record on.")] = False,
    as_json: Json = False,
) -> None:
    """Rebuild what can be rebuilt of a damaged store. No broker may run on it.

    Reads the store, says what it is going to do about each fault, and does it after --yes. Queues and index come from the log,
    config files from their .bak. Damage in the log itself needs a choice, because something is lost: --skip or --cut. What is
    overwritten is kept under orbitmq/cut in the store.

    Exit code: 0 the store is whole (now), 1 it has faults, 2 it could not be repaired.
    """
    if skip and cut:
        raise typer.BadParameter("--skip and --cut exclude each other: give one of them")
    choice = Choice.SKIP if skip else Choice.CUT if cut else Choice.NONE
    try:
        whole = _repair(store, choice, yes, as_json)
    except (OrbitError, OSError) as error:
        if not isinstance(error, OrbitError):
            error = OrbitError(f"could not repair {store}: {said(error)}", hint=way_out(error, store))
        show_error(error)
        raise typer.Exit(COULD_NOT) from error
    except KeyboardInterrupt:
        err.print("stopped; run the same command again to finish the repair, which is safe")
        raise typer.Exit(COULD_NOT) from None
    if not whole:
        raise typer.Exit(FAULTS_FOUND)


def _repair(store: Path, choice: Choice, yes: bool, as_json: bool) -> bool:
    """True if the store is whole in the end."""
    layout = StoreLayout.at(store)
    settings = layout.settings()
    if not layout.commitlog.is_dir():  # taking the lock would make a store of it
        raise StoreUnsupported(
            f"cannot repair {layout.root}: it is not a store, it has no folder commitlog",
            hint="give the folder that the broker was started with",
            path=str(layout.root),
        )
    access.work_as_owner(layout)
    lock = StoreLock.acquire(layout, "repair")
    try:
        job = Repair(layout, settings, choice)
        _with_bar(job, job.survey)
        verdict = job.verdict
        assert verdict is not None
        for finding in job.findings:
            _show(finding, job.deed(finding), as_json)
        if not job.needed:
            _show_verdict(verdict, as_json, "nothing to repair")
            return True
        _show_choice(job, as_json)
        if job.undecided or not (yes or _agreed(as_json)):
            _show_verdict(verdict, as_json, "only its last end is missing", done=False)
            return verdict.whole
        _with_bar(job, job.carry_out)
        assert job.verdict is not None
        _show_verdict(job.verdict, as_json, "repaired", done=True)
        return job.verdict.whole
    finally:
        lock.release()


def _with_bar(job: Repair, work: Callable[[], object]) -> None:
    """Does one part of the work, with a bar for each step that takes long."""
    with reading_progress("[bold]{task.description}[/]") as bar:
        shown: dict[str, int] = {}

        def show(what: str, done: int, whole: int) -> None:
            if what not in shown:
                for other in shown.values():
                    bar.update(other, visible=False)  # type: ignore[arg-type]
                shown[what] = bar.add_task(WORDS[what], total=None)
            bar.update(shown[what], completed=done, total=whole)  # type: ignore[arg-type]

        job.progress = show
        work()


def _agreed(as_json: bool) -> bool:
    if as_json or not (sys.stdin.isatty() and out.is_terminal):
        if not as_json:
            err.print("nothing was changed; --yes does it")
        return False
    return typer.confirm("Do this?", default=False)


def _show(finding: Finding, deed: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"type": "finding", **finding.as_record(), "deed": deed}), flush=True)
        return
    mark = "[bold red]fault[/]" if finding.damage else "[yellow]note[/] "
    out.print(f"{mark}  {finding.kind:<15} [dim]{escape(finding.path)}[/]\n       {escape(finding.text)}")
    out.print(f"       [green]->[/] {escape(deed)}")


def _show_choice(job: Repair, as_json: bool) -> None:
    """What --skip and --cut would lose, if one of them is needed."""
    losses = {choice: job.loss(choice) for choice in (Choice.SKIP, Choice.CUT)}
    if as_json:
        plain = {str(choice): _plain(loss) for choice, loss in losses.items() if loss is not None}
        record = {"choice": job.choice, "undecided": job.undecided, "unfinished": job.unfinished, "losses": plain}
        print(json.dumps({"type": "plan", **record}), flush=True)
        return
    if job.unfinished:
        out.print("[yellow]the last broker, or an earlier repair, did not end[/]: what its next start would do is part of this")
    if not any(losses.values()):
        return
    for choice, loss in losses.items():
        mark = "[bold]*[/]" if job.choice is choice else " "
        out.print(f"{mark} --{choice}  {_told(choice, loss, job.obstacle)}")
    if job.undecided:
        out.print("[yellow]nothing is changed[/] without one of them")


def _told(choice: Choice, loss: Loss | None, obstacle: str | None) -> str:
    if loss is None:
        return escape(f"cannot be done here: {obstacle}")
    damaged = counted(loss.messages, "damaged message")
    if choice is Choice.SKIP:
        return f"gives up {damaged}, in {byte_count(loss.size)} of the log; everything else stays"
    good = "all good records" if loss.records is None else counted(loss.records, "good record")
    return f"gives up {damaged}, and {good} behind the first: {byte_count(loss.size)} of the log"


def _plain(loss: Loss) -> dict[str, int | None]:
    records = loss.records
    return {"damaged_messages": loss.messages, "good_records": records, "bytes": loss.size}


def _show_verdict(verdict: Verdict, as_json: bool, whole: str, *, done: bool = False) -> None:
    """whole: what to say about a store without a fault."""
    if as_json:
        fields = {"whole": verdict.whole, "repaired": done, "records": verdict.records, "end": verdict.end}
        print(json.dumps({"type": "verdict", **fields, "faults": verdict.faults}), flush=True)
        return
    total = sum(verdict.faults.values())
    if verdict.whole:
        out.print(f"[bold green]whole[/]  {counted(verdict.records, 'record')}; {whole}")
    elif done:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(verdict.faults.items()))
        out.print(f"[bold red]{counted(total, 'fault')} left[/]  ({kinds})")
