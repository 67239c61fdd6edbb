"""The `orbitmq` command: combines the groups of commands, and turns errors of OrbitMQ's into one readable line."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from orbitmq import __version__
from orbitmq.cli import (
    backup,
    clients,
    clock,
    config,
    console,
    delay,
    dlq,
    export,
    group,
    health,
    metrics,
    reading,
    repair,
    request,
    sending,
    spelling,
    status,
    topic,
    transactions,
    tree,
    verify,
    work,
)
from orbitmq.cli.doctor import command as doctoring
from orbitmq.cli.exit_codes import DONE, FAILED, code_of
from orbitmq.cli.quick_end import end_quickly
from orbitmq.cli.top import command as live
from orbitmq.cli.web import command as web
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

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"max_content_width": 100},
)
app.command("up")(tree.up)
app.command("down")(tree.down)
app.command("status")(status.status)
app.command("top")(live.top)
app.command("health")(health.health)
app.command("doctor")(doctoring.doctor)
app.command("metrics")(metrics.metrics)
app.command("console")(web.console)
app.command("clock")(clock.clock)
app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.add_typer(delay.app, name="delay")
app.add_typer(dlq.app, name="dlq")
app.add_typer(transactions.app, name="transactions")
app.command("clients")(clients.clients)
app.add_typer(config.app, name="config")
app.command("send")(sending.send)
app.command("request")(request.request)
app.command("tail")(reading.tail)
app.command("work")(work.work)
app.command("find")(reading.find)
app.command("show")(reading.show)
app.command("export")(export.export)
app.command("backup")(backup.backup)
app.command("verify")(verify.verify)
app.command("repair")(repair.repair)


def _version(wanted: bool) -> None:
    if wanted:
        console.out.print(f"orbitmq {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def named_by(words: Sequence[str]) -> typer.Typer:
    """The app with only that command or group which the first word names; with all of them if it names none. Typer makes
    commands of every function that the app has, and to do so for all takes longer than most commands."""
    commands = [each for each in app.registered_commands if words and each.name == words[0]]
    groups = [each for each in app.registered_groups if words and each.name == words[0]]
    if not commands and not groups:
        return app
    part = copy.copy(app)
    part.registered_commands, part.registered_groups = commands, groups
    return part


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
