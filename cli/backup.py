"""`orbitmq backup`: makes a consistent copy of a store, while its broker runs or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from orbitmq.cli.console import err, out
from orbitmq.cli.exit_codes import FAILED
from orbitmq.cli.options import Json
from orbitmq.cli.verify import reading_progress
from orbitmq.shm.disk_fault import byte_count
from orbitmq.store.backup.backup import back_up
from orbitmq.store.layout import StoreLayout


def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the backup.")],
    store: Annotated[Path, typer.Option("--store", "-s", help="Folder of the store.")] = Path("data"),
    as_json: Json = False,
) -> None:
    """Make a consistent copy of a store. A broker may run on it meanwhile.

    DIR must not exist, or be empty, or be an earlier backup of this store, which the new one replaces when it is whole. The
    backup is itself a store: start a broker on it, or back it up into another folder.
    """
    try:
        with reading_progress(f"[bold]backup[/] {escape(str(store))}") as bar:
            task = bar.add_task("", total=None)
            backed = back_up(StoreLayout.at(store), folder, lambda done, whole: bar.update(task, completed=done, total=whole))
    except KeyboardInterrupt:
        err.print("stopped; there is no new backup, and an earlier one is as it was")
        raise typer.Exit(FAILED) from None
    note = backed.note
    if as_json:
        fields = {"folder": str(folder), "begin": note.begin, "end": note.end, "made_ms": note.made_ms}
        print(json.dumps({**fields, "copied": backed.copied, "kept": backed.kept, "seconds": round(backed.took_s, 3)}))
        return
    kept = f", {byte_count(backed.kept)} kept from the last backup" if backed.kept else ""
    size = f"{byte_count(note.end - note.begin)} of log; {byte_count(backed.copied)} of files copied{kept}"
    out.print(f"[bold green]backed up[/]  {escape(str(folder))}: {size}, in {backed.took_s:.2f} s")
