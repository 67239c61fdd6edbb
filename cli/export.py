"""`orbitmq export`: exports topics to Parquet, a run at a time, merges small files, and shows what the runs have exported."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from orbitmq.cli.console import counted, err, rate
from orbitmq.cli.export_listing import show_compacted, show_export, show_report
from orbitmq.cli.options import Json

if TYPE_CHECKING:
    from orbitmq.tables.export.topics import ExportReport

INTERRUPTED = 130
LOOK_S = 0.2  # as long as tables/export/progress.py waits between two looks: the first rows have taken that long
TELL_S = 10.0  # if no bar can be drawn


def export(
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help="Folder of a store, or name of a running broker.")
    ] = None,
    folder: Annotated[str | None, typer.Argument(metavar="OUT", help="Folder for the Parquet files.")] = None,
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", help="None: all but the broker's own.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="What the folders are made of; topic,day by default.")] = None,
    columns: Annotated[str | None, typer.Option("--columns", help="Only these, separated by commas.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Begin again: remove the topics' earlier files.")] = False,
    allow_gaps: Annotated[bool, typer.Option("--allow-gaps", help="Continue over messages that retention removed.")] = False,
    group: Annotated[
        str | None, typer.Option("--group", help="Show how far it is as this group, in `orbitmq status`; it has no members.")
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Let Spark do it; needs Java, and the extra spark.")] = False,
    compact: Annotated[
        Path | None, typer.Option("--compact", metavar="OUT", help="Merge the small files in OUT, and export nothing.")
    ] = None,
    show: Annotated[Path | None, typer.Option("--show", metavar="OUT", help="List what is in OUT, and export nothing.")] = None,
    as_json: Json = False,
) -> None:
    """Add what topics got since the last time to Parquet files. Needs the extra arrow.

    The files are in OUT/topic=<topic>/day=<day it was stored, UTC>. Run it again, and it adds only new messages, each once,
    whatever was killed in the meantime. A broker may run on the store.

    \b
        orbitmq export ./data ./parquet
        orbitmq export default ./parquet orders --by topic,day,tags
        orbitmq export --compact ./parquet
        orbitmq export --show ./parquet
    """
    if compact is not None and show is not None:
        raise typer.BadParameter("--show and --compact cannot be used together")
    if show is not None:
        if store or folder or topics:
            raise typer.BadParameter("--show cannot be used with STORE, OUT or topics")
        show_export(show, as_json)
        return
    if compact is not None:
        if by or columns or full or allow_gaps or group or spark:
            raise typer.BadParameter("--compact takes names of topics, and no other option than --json")
        names = [name for name in (store, folder, *(topics or ())) if name is not None]
        _compact(compact, names, as_json)
        return
    if store is None or folder is None:
        raise typer.BadParameter("give STORE and OUT, or --show OUT, or --compact OUT")
    run = _runner(spark)
    with _log_without_py4j(), _ends_cleanly(), _progress("export") as progress:
        report = run(
            store,
            folder,
            topics or (),
            by=_names(by),
            columns=_names(columns),
            full=full,
            allow_gaps=allow_gaps,
            group=group,
            progress=progress,
        )
    show_report(report, as_json)


def _runner(spark: bool) -> Callable[..., ExportReport]:
    """Spark's if it is asked for, or if spark-submit has started this process; else that which needs pyarrow alone."""
    from orbitmq.spark.session import submitted

    if spark or submitted():
        from orbitmq.spark.export import export as with_spark

        return with_spark
    from orbitmq.tables.export.topics import export as here

    return here


def _compact(out: Path, topics: list[str], as_json: bool) -> None:
    from orbitmq.tables.export.compact import compact

    with _ends_cleanly(), _progress("compact") as progress:
        report = compact(out, topics, progress=progress)
    show_compacted(report, as_json)


@contextlib.contextmanager
def _ends_cleanly() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        err.print("stopped; run it again, it goes on from where it is")
        raise typer.Exit(INTERRUPTED) from None
    except ImportError as error:
        err.print(f"[bold red]error:[/] {escape(str(error))}")
        raise typer.Exit(1) from None


@contextlib.contextmanager
def _log_without_py4j() -> Iterator[None]:
    """Keeps warnings. But when Ctrl-C ends a call, py4j logs a stack trace through the root logger, which is left out."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: "py4j" not in record.pathname)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:  # a program that has called the command may close the stream, and log on
        logging.getLogger().removeHandler(handler)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


class _Speed(ProgressColumn):
    """Messages so far, and messages and megabytes a second since the first ones."""

    def render(self, task: Task) -> Text:
        done = int(task.completed)
        return Text(f"{counted(done, 'message')}{_pace(done, task.fields['size'], task.fields['since'])}", "progress.download")


def _pace(rows: int, size: int, since: float) -> str:
    seconds = time.monotonic() - since
    return f", {rate(rows / seconds)} rows/s, {size / seconds / 1e6:,.0f} MB/s" if rows and seconds > 0 else ""


@contextlib.contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int, int], None]]:
    """A bar on a terminal, otherwise a line from time to time. Yields a function to call with messages done, messages in all,
    and bytes."""
    if not err.is_terminal:
        yield _Lines(what).tell
        return
    columns = (TextColumn(f"[bold]{what}[/]"), BarColumn(), TaskProgressColumn(), _Speed(), TimeRemainingColumn())
    bar = Progress(*columns, console=err, transient=True)
    task = bar.add_task("", total=None, size=0, since=time.monotonic())

    def tell(done: int, total: int, size: int) -> None:
        bar.start()  # not before there is something to show, because Spark prints lines of its own while it starts
        if not bar.tasks[0].fields["size"]:
            bar.update(task, since=time.monotonic() - LOOK_S)
        bar.update(task, completed=done, total=total, size=size)

    err.print(f"{what}: looking for what is new", style="dim")
    try:
        yield tell
    finally:
        bar.stop()


class _Lines:
    """Progress as lines of text."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._since = self._told = time.monotonic()
        self._done = 0

    def tell(self, done: int, total: int, size: int) -> None:
        now = time.monotonic()
        if not self._done:
            self._since = now - LOOK_S
        if done != self._done and (now - self._told >= TELL_S or done == total):
            self._told, self._done = now, done
            err.print(f"{self._what}: {done:,} of {counted(total, 'message')}{_pace(done, size, self._since)}")
