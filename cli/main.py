"""The `orbitmq` command: combines the groups of commands, and turns errors of OrbitMQ's into one readable line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from orbitmq import __version__
from orbitmq.cli import console, spelling
from orbitmq.cli.exit_codes import DONE, FAILED, code_of
from orbitmq.cli.quick_end import end_quickly
from orbitmq.errors import OrbitError
from orbitmq.shm.disk_fault import said, way_out

# \b keeps the lines of a paragraph as they are.
HELP = """
A durable message broker for one machine.

\b
[bold]A first look, in two terminals:[/]
    orbitmq up --store ./data             # a broker, until Ctrl-C
    orbitmq topic create orders           # in the other terminal
    orbitmq send orders "hello" --tag paid --key o-1
    orbitmq tail orders --from earliest
    orbitmq status --watch
    orbitmq down

Commands find the broker by its name: --name, else $ORBITMQ_BROKER, else "default"; or by the folder of its store: --store.
"""

# Every command, in the order of the help: its module in this folder, and there its function, or the app of a group of commands.
PLACES = {
    "up": ("tree", "up"),
    "down": ("tree", "down"),
    "status": ("status", "status"),
    "top": ("top.command", "top"),
    "health": ("health", "health"),
    "doctor": ("doctor.command", "doctor"),
    "metrics": ("metrics", "metrics"),
    "console": ("web.command", "console"),
    "clock": ("clock", "clock"),
    "topic": ("topic", "app"),
    "group": ("group", "app"),
    "delay": ("delay", "app"),
    "dlq": ("dlq", "app"),
    "transactions": ("transactions", "app"),
    "clients": ("clients", "clients"),
    "config": ("config", "app"),
    "send": ("sending", "send"),
    "request": ("request", "request"),
    "tail": ("reading", "tail"),
    "work": ("work", "work"),
    "find": ("reading", "find"),
    "show": ("reading", "show"),
    "export": ("export", "export"),
    "backup": ("backup", "backup"),
    "verify": ("verify", "verify"),
    "repair": ("repair", "repair"),
}


def _version(wanted: bool) -> None:
    if wanted:
        console.out.print(f"orbitmq {__version__}")
        raise typer.Exit()


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def named_by(words: Sequence[str]) -> typer.Typer:
    """The app with only that command or group which the first word names; with all of them if it names none. To import all of
    them, and to have typer make commands of their functions, takes longer than most commands."""
    app = typer.Typer(
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"max_content_width": 100},
    )
    app.callback()(_root)
    for name in words[:1] if words and words[0] in PLACES else PLACES:
        module, attribute = PLACES[name]
        found = getattr(import_module(f"orbitmq.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def main() -> None:
    """The command, in this process. exit_codes.py has its exit codes."""
    asked = named_by(sys.argv[1:])
    spelling.runs(lambda: spelling.named_by(sys.argv[1:], typer.main.get_command(asked)))
    try:
        asked()
    except OrbitError as error:
        console.show_error(error)
        sys.exit(code_of(error))
    except BrokenPipeError:
        # The reader of the output has closed it (`orbitmq tail ... | head`); the interpreter must not complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(DONE)
    except OSError as error:
        # A file of the user's, such as a log that cannot be written or a disk that is full of the output.
        console.show_error(OrbitError(f"could not go on: {said(error)}", hint=way_out(error)))
        sys.exit(FAILED)


def main_process() -> None:
    """Entry point: the command as all that this process does."""
    try:
        main()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            end_quickly(end.code or 0)
        raise
    end_quickly(0)


if __name__ == "__main__":
    main_process()
