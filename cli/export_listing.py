"""What an export has written, as tables or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from orbitmq.cli.console import counted, err, out, plain_table, rate
from orbitmq.shm.disk_fault import byte_count

if TYPE_CHECKING:
    from orbitmq.tables.export.compact import CompactReport
    from orbitmq.tables.export.manifest import ExportFile, Gap, Range
    from orbitmq.tables.export.topics import ExportReport

RANGES_MOST = 4  # of one file


def show_export(folder: Path, as_json: bool) -> None:
    """Which offsets of which queues are in which files. Raises: SettingError: no export is there; ExportDamaged."""
    from orbitmq.errors import SettingError
    from orbitmq.tables.export.folder import ExportFolder
    from orbitmq.tables.export.manifest import COMPLETE, plain_file

    state = ExportFolder(folder).state()
    newest = state.run
    if newest is None:
        raise SettingError(
            f"cannot list {folder}: no export has written there",
            hint="give the OUT of an export",
            name="show",
            value=str(folder),
        )
    if as_json:
        for file in state.files:
            print(json.dumps({"type": "file", **plain_file(file)}), flush=True)
        _print_gaps(state.gaps)
        return
    table = plain_table()
    for name, side in (("file", "left"), ("queue: offsets", "left"), ("messages", "right"), ("size", "right")):
        table.add_column(name, justify=side, overflow="fold")  # type: ignore[arg-type]
    for file in state.files:
        table.add_row(escape(file.path), _ranges(file.offsets), f"{file.rows:,}", byte_count(file.size))
    if state.files:
        out.print(table)
    _warn_gaps(state.gaps)
    rows, size = sum(file.rows for file in state.files), sum(file.size for file in state.files)
    total = f"{counted(rows, 'message')} of {counted(len(state.ends), 'topic')} in {counted(len(state.files), 'file')}"
    out.print(f"[bold]{total}[/], {byte_count(size)}; by {','.join(newest.by)}; run {newest.number} of {newest.began[:19]} UTC")
    out.print(f"[dim]out of[/] {escape(newest.store)}")
    if newest.state != COMPLETE:
        err.print("[yellow]the last run was killed while it put its files in place; the next one goes on with that[/]")


def show_report(report: ExportReport, as_json: bool) -> None:
    """What one run did."""
    if as_json:
        from orbitmq.tables.export.manifest import plain_file

        for file in report.files:
            print(json.dumps({"type": "file", **plain_file(file)}))
        _print_gaps(report.gaps)
        fields = {"run": report.run, "rows": report.rows, "bytes": report.size, "files": len(report.files)}
        more = {"settled": report.settled, "seconds": round(report.seconds, 3), "out": str(report.path)}
        print(json.dumps({"type": "run", **fields, **more}), flush=True)
        return
    if report.settled:
        out.print(f"{counted(report.settled, 'message')} of a run that was killed before its end are in place now")
    topics: dict[str, list[ExportFile]] = {}
    for file in report.files:
        topics.setdefault(file.topic, []).append(file)
    for topic, files in sorted(topics.items()):
        rows, size = sum(file.rows for file in files), sum(file.size for file in files)
        out.print(f"{escape(topic)}: {counted(rows, 'message')}, {byte_count(size)} in {counted(len(files), 'file')}")
    _warn_gaps(report.gaps)
    if report.run is None:
        out.print(f"nothing new for {escape(str(report.path))}")
        return
    speed = f", {rate(report.rows / report.seconds)} rows/s" if report.rows else ""
    whole = f"{counted(report.rows, 'message')}, {byte_count(report.size)}, {report.seconds:.1f} s{speed}"
    out.print(f"[bold green]run {report.run}[/]  {whole}: {escape(str(report.path))}")


def show_compacted(report: CompactReport, as_json: bool) -> None:
    """What became of small files."""
    sizes = [sum(file.size for file in files) for files in (report.before, report.after)]
    if as_json:
        fields = {"runs": list(report.runs), "rows": sum(file.rows for file in report.after)}
        files = {"files_before": len(report.before), "files": len(report.after), "bytes_before": sizes[0], "bytes": sizes[1]}
        more = {"seconds": round(report.seconds, 3), "out": str(report.path)}
        print(json.dumps({"type": "compact", **fields, **files, **more}), flush=True)
        return
    if not report.after:
        out.print(f"no small files to merge in {escape(str(report.path))}")
        return
    before = f"{counted(len(report.before), 'file')}, {byte_count(sizes[0])}"
    after = f"{counted(len(report.after), 'file')}, {byte_count(sizes[1])}"
    out.print(f"[bold green]merged[/]  {before}, into {after}; {report.seconds:.1f} s: {escape(str(report.path))}")


def _ranges(offsets: Sequence[Range]) -> str:
    """Queue, first and last offset; with the count if some between are missing."""
    parts = []
    for part in offsets[:RANGES_MOST]:
        some = "" if part.rows == part.end - part.begin else f" ({part.rows:,} of them)"
        parts.append(f"{part.queue}: {part.begin:,} to {part.end - 1:,}{some}")
    if len(offsets) > RANGES_MOST:
        parts.append(f"and {counted(len(offsets) - RANGES_MOST, 'queue')} more")
    return "; ".join(parts)


def _print_gaps(gaps: Iterable[Gap]) -> None:
    for gap in gaps:
        print(json.dumps({"type": "gap", **asdict(gap)}), flush=True)


def _warn_gaps(gaps: Iterable[Gap]) -> None:
    for gap in gaps:
        place = f"{escape(gap.topic)}, queue {gap.queue}, offsets {gap.begin:,} to {gap.end - 1:,}"
        err.print(
            f"[yellow]missing[/]  {place}: retention removed {counted(gap.messages, 'message')} before they were exported"
        )
