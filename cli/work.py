"""`orbitmq work`: runs a command for every message of a group."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from contextlib import suppress
from typing import Annotated

import typer
from rich.markup import escape

import orbitmq
from orbitmq.cli.console import counted, err
from orbitmq.cli.last_words import LastWords
from orbitmq.cli.options import Name, Store, Topic, Wait
from orbitmq.client.work.job import Job
from orbitmq.client.work.worker_settings import TRIES_MAX

SAID_MAX = 2000  # bytes at the end of what a failed command wrote to its standard error


def work(
    topic: Topic,
    group: Annotated[str, typer.Option("--group", "-g", help="The group that shares the messages, one command for each.")],
    command: Annotated[
        str, typer.Option("--exec", "-x", metavar="COMMAND", help="Gets the message on standard input. Exit code 0: done.")
    ],
    concurrency: Annotated[int, typer.Option("--concurrency", "-j", min=1, max=1024, help="Commands at the same time.")] = 1,
    count: Annotated[int | None, typer.Option(min=1, help="End after this many messages.")] = None,
    idle: Annotated[
        float | None, typer.Option(min=0, help="End when nothing has come for so many seconds.", show_default="never")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds after which a command is killed.", show_default="none")
    ] = None,
    key_ordered: Annotated[
        bool, typer.Option("--key-ordered", help="Messages of one key one after the other, in the order of the log.")
    ] = False,
    tag: Annotated[str | None, typer.Option("--tag", help="Only messages with this tag, or one of 'a || b'.")] = None,
    sql: Annotated[str | None, typer.Option("--sql", help="Only these, such as 'price > 100'; names are properties.")] = None,
    max_tries: Annotated[
        int | None,
        typer.Option(
            "--max-tries", min=1, max=TRIES_MAX, help="Tries of a message before it is a dead letter; kept for the group.",
            show_default="the group's, else 16",
        ),
    ] = None,
    wait: Wait = 0.0,
    name: Name = None,
    store: Store = None,
) -> None:
    """Run a command for every message, until Ctrl-C.

    The message comes on standard input; ORBITMQ_TOPIC, ORBITMQ_ID, ORBITMQ_KEYS, ORBITMQ_TAGS and ORBITMQ_DELIVERY describe it.

    Exit code 0 acknowledges it. After any other it comes again, later each time; after its last try it is a dead letter
    (orbitmq dlq). Ctrl-C lets running commands end first.
    """
    words = _words(command)
    client = orbitmq.connect(name, store=store, wait=wait)
    with (
        client as broker,
        broker.worker(
            group, [topic], tags=tag, sql=sql, concurrency=concurrency, idle=idle, max_tries=max_tries, key_ordered=key_ordered
        ) as worker,
    ):
        done = worker.run(lambda job: _handle(job, words, timeout), jobs=count)
    if err.is_terminal:
        err.print(f"[dim]{counted(done, 'message')}[/]")


def _words(command: str) -> list[str]:
    """Before a message is taken: one that no command gets would only come again. Raises: typer.BadParameter."""

    def refuse(why: str) -> typer.BadParameter:
        return typer.BadParameter(why, param_hint="--exec")

    try:
        words = shlex.split(command)
    except ValueError as error:
        raise refuse(f"{command!r} is not what a shell can read: {str(error).lower()}") from None
    if not words:
        raise refuse("it names no command")
    if shutil.which(words[0]) is None:
        raise refuse(f"there is no command {words[0]!r} that this user may run")
    return words


def _handle(job: Job, words: list[str], timeout: float | None) -> None:
    message = job.message
    about = {
        "ORBITMQ_TOPIC": job.topic,
        "ORBITMQ_ID": message.id,
        "ORBITMQ_KEYS": " ".join(message.keys),
        "ORBITMQ_TAGS": message.tags or "",
        "ORBITMQ_DELIVERY": str(job.delivery),
    }
    try:
        code, said = _ended(words, os.environ | about, job.body, timeout)
    except subprocess.TimeoutExpired:
        _failed(job, f"killed after {timeout:g} s", "")
        return
    except OSError as error:  # the program has gone since, or the system has no room for a process
        _failed(job, f"could not run {words[0]}: {error.strerror}", "")
        return
    if code:
        _failed(job, f"exit code {code}" if code > 0 else f"signal {-code}", said)


def _ended(command: list[str], environment: dict[str, str], body: bytes, timeout: float | None) -> tuple[int, str]:
    """The command's exit code, and the last of what it has written to its standard error.

    Whatever the command leaves in the background may have both for ever: nobody waits for their ends. Raises:
    subprocess.TimeoutExpired: it was late, and was killed."""
    with os.fdopen(os.memfd_create("body"), "w+b") as given:
        given.write(body)
        given.seek(0)
        words = LastWords(SAID_MAX)
        try:
            # A session of its own: Ctrl-C at the terminal stops this command, and lets the others end.
            process = subprocess.Popen(command, stdin=given, stderr=words.writer, env=environment, start_new_session=True)
        finally:
            os.close(words.writer)
        try:
            return process.wait(timeout), words.said()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise


def _failed(job: Job, how: str, said: str) -> None:
    """said: on its standard error."""
    message = job.message
    last = said.splitlines()[-1:]
    job.nack(reason=": ".join([how, *last]))
    place = f"{message.topic}/{message.queue}@{message.offset}"
    err.print(f"[red]failed[/]  {escape(place)}, delivery {job.delivery}: {how}")
    if said:
        err.print(escape(said))
