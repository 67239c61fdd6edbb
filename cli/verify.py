"""`orbitmq verify`: reads a whole store and names every fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from orbitmq.cli.console import err, out, show_error
from orbitmq.cli.options import Json
from orbitmq.errors import OrbitError
from orbitmq.shm.disk_fault import byte_count, said, way_out
from orbitmq.store.layout import StoreLayout
from orbitmq.store.verify.findings import Finding, Verdict
from orbitmq.store.verify.verify import verify as verify_store

FAULTS_FOUND = 1
COULD_NOT = 2


class RateColumn(ProgressColumn):
    """Bytes so far, and GB a second since the beginning."""

    def render(self, task: Task) -> Text:
        elapsed = task.elapsed or 0.0
        speed = f"  {task.completed / elapsed / 1e9:.2f} GB/s" if elapsed > 0 else ""
        return Text(f"{byte_count(task.completed)}{speed}", style="progress.download")


def reading_progress(description: str) -> Progress:
    """A bar for bytes, on standard error, gone when it is done."""
    columns = (TextColumn(description), BarColumn(), TaskProgressColumn(), RateColumn(), TimeRemainingColumn())
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def verify(
    store: Annotated[Path, typer.Option("--store", "-s", help="Folder of the store.")] = Path("data"),
    as_json: Json = False,
) -> None:
    """Read a whole store and report every fault.

    Changes nothing. A broker may run on the store meanwhile: then what it has flushed and indexed is read.

    Exit code: 0 the store is whole, 1 it has faults, 2 it could not be verified.
    """
    try:
        layout = StoreLayout.at(store)
        settings = layout.settings()
        with reading_progress(f"[bold]verify[/] {escape(str(store))}") as bar:
            task = bar.add_task("", total=None)
            verdict = verify_store(
                layout,
                settings,
                lambda finding: _show(finding, as_json),
                lambda done, whole: bar.update(task, completed=done, total=whole),
            )
    except (OrbitError, OSError) as error:
        if not isinstance(error, OrbitError):
            error = OrbitError(f"could not verify {store}: {said(error)}", hint=way_out(error, store))
        show_error(error)
        raise typer.Exit(COULD_NOT) from error
    except KeyboardInterrupt:
        err.print("stopped; the rest of the store was not read")
        raise typer.Exit(COULD_NOT) from None
    _show_verdict(verdict, as_json)
    if not verdict.whole:
        raise typer.Exit(FAULTS_FOUND)


def _show(finding: Finding, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"type": "finding", **finding.as_record()}), flush=True)
        return
    mark = "[bold red]fault[/]" if finding.damage else "[yellow]note[/] "
    out.print(f"{mark}  {finding.kind:<15} [dim]{escape(finding.path)}[/]\n       {escape(finding.text)}")


def _show_verdict(verdict: Verdict, as_json: bool) -> None:
    rate = (verdict.end - verdict.begin) / verdict.took_s
    if as_json:
        fields = {
            "whole": verdict.whole,
            "begin": verdict.begin,
            "end": verdict.end,
            "records": verdict.records,
            "running": verdict.running,
            "faults": verdict.faults,
            "notes": verdict.notes,
            "seconds": round(verdict.took_s, 3),
            "bytes_per_second": round(rate),
        }
        print(json.dumps({"type": "verdict", **fields}), flush=True)
        return
    size = byte_count(verdict.end - verdict.begin)
    read = f"{verdict.records:,} records, {size} of log in {verdict.took_s:.2f} s, {rate / 1e9:.2f} GB/s"
    until = "; a broker runs: read up to what it has flushed and indexed" if verdict.running else ""
    if verdict.whole:
        out.print(f"[bold green]whole[/]  {read}{until}")
    else:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(verdict.faults.items()))
        total = sum(verdict.faults.values())
        out.print(f"[bold red]{total:,} {'fault' if total == 1 else 'faults'}[/]  ({kinds}); {read}{until}")
