"""`orbitmq up` and `orbitmq down`: run a broker in the foreground or in the background, and stop it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.markup import escape
from rich.text import Text

import orbitmq
from orbitmq.cli.answers import allowed
from orbitmq.cli.console import err, out, retention
from orbitmq.cli.looks import Between, Look
from orbitmq.cli.options import AllowDeletion, Name, Store, size, usual
from orbitmq.cli.panels import summary_line
from orbitmq.cli.service_manager import ServiceManager
from orbitmq.client.admin.health import silent_of
from orbitmq.client.admin.status import Status, read_actors
from orbitmq.client.broker.launch import Started, how_ended, start_tree, why_ended
from orbitmq.client.client import Client
from orbitmq.errors import BrokerBroken, BrokerError, OrbitError
from orbitmq.shm.disk_fault import byte_count
from orbitmq.shm.runtime import broker_name, make_runtime_folder
from orbitmq.store import abort
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.setting_sources import SettingState

LOOK_S = 1.0  # between two status lines


def up(
    store: Annotated[Path, typer.Option("--store", "-s", help="Folder of the store; created if missing.")] = Path("data"),
    name: Name = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run in the background; return once it is ready.")] = False,
    flush: Annotated[
        str | None, typer.Option(help="[bold]timed[/], or [bold]batch[/]: every message is on disk before its receipt.")
    ] = None,
    flush_interval_ms: Annotated[
        int | None, typer.Option(help=usual("Longest time that a message is only in the page cache.", "500"))
    ] = None,
    handlers: Annotated[int | None, typer.Option(help=usual("Number of send handlers.", "one per core, at most 4"))] = None,
    log_file_size: Annotated[
        int | None,
        typer.Option(parser=size, metavar="SIZE", help=usual("Of one CommitLog file; fixed once a store exists.", "1G")),
    ] = None,
    message_max: Annotated[
        int | None, typer.Option(parser=size, metavar="SIZE", help=usual("Largest record that is accepted.", "4M"))
    ] = None,
    retention_hours: Annotated[
        int | None,
        typer.Option(help=usual("How long messages are kept, unless their topic says otherwise; 0: for ever.", "72")),
    ] = None,
    retention_bytes: Annotated[
        int | None,
        typer.Option(parser=size, metavar="SIZE", help=usual("Most that the log takes on disk; 0: any size.", "0")),
    ] = None,
    gateway: Annotated[
        bool | None,
        typer.Option(
            "--gateway/--no-gateway",
            help=usual("RocketMQ's clients may connect to this machine's ports 9876, 10911 and 10909.", "no"),
            show_default=False,
        ),
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help=usual("Where RocketMQ's clients may connect: 127.0.0.1:9876. It may be given several times.", "nowhere"),
        ),
    ] = None,
    namesrv: Annotated[
        str | None,
        typer.Option(metavar="ADDRESSES", help=usual("RocketMQ's name servers that this broker joins: a:9876;b:9876.", "none")),
    ] = None,
    gateways: Annotated[int | None, typer.Option(help=usual("Processes that serve RocketMQ's clients.", "1"))] = None,
    acl: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=usual("Accounts of RocketMQ's clients and what they may do: plain_acl.yml.", "none")),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help=usual("What the log tells: debug, info, warning, error.", "info")),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="FORM", help=usual("Of the log's lines: [bold]text[/] or [bold]json[/].", "text"))
    ] = None,
    log_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=usual("Where the log goes; SIGUSR1 reopens it.", "the error output")),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other setting, such as queue_file_units=1000.")
    ] = None,
    allow_deletion: AllowDeletion = False,
) -> None:
    """Run a broker on a store.

    The store remembers the settings for the next start: [bold]orbitmq config show[/].

    The broker stays in the foreground until Ctrl-C or [bold]orbitmq down[/]. The store is kept.

    After any crash, even of the machine, the next start recovers by itself.
    """
    options: dict[str, Any] = _more_settings(settings or [])
    given = {
        "flush": flush,
        "flush_interval_ms": flush_interval_ms,
        "handlers": handlers,
        "log_file_size": log_file_size,
        "message_max": message_max,
        "retention_hours": retention_hours,
        "retention_bytes": retention_bytes,
        "gateway": gateway,
        "listen": ";".join(listen) if listen else None,
        "namesrv": namesrv,
        "gateways": gateways,
        "acl": None if acl is None else str(acl.absolute()),
        "log_level": log_level,
        "log_format": log_format,
        "log_file": None if log_file is None else str(log_file.absolute()),
    }
    options |= {key: value for key, value in given.items() if value is not None}
    options["name"] = broker_name(name)
    run = _run_detached if detach else _run_in_foreground
    allowed(allow_deletion, lambda sure: run(store, options, sure))


def down(
    name: Name = None,
    store: Store = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until it has stopped.")] = 60.0,
) -> None:
    """Stop a broker.

    It flushes what it has received, and then its processes end. The command returns when they have ended.
    """
    with orbitmq.connect(name, store=store, timeout=timeout) as broker:
        layout = StoreLayout.at(broker.connection.attachment.store)
        broker.stop_broker()
    if abort.exists(layout):
        raise BrokerBroken(
            f"the broker {broker.name!r} stopped, but not everything of {layout.root} is on the disk or indexed",
            hint="its log says why (orbitmq up names the file); it is safe to start it again: the start recovers the store",
        )
    out.print(f"broker [bold]{escape(broker.name)}[/] stopped")


def _more_settings(assignments: list[str]) -> dict[str, Any]:
    """name=value pairs. The setting determines how a value is read."""
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise typer.BadParameter(f"{assignment!r} is not NAME=VALUE", param_hint="--set")
        settings[key.strip().replace("-", "_")] = text
    return settings


def _show_progress(line: str) -> None:
    err.print(f"[dim]{escape(line)}[/]")


def _describe(status: Status, settings: list[SettingState], started: Started) -> None:
    """What runs, what a receipt promises, how to reach it."""
    plain = status.name == "default"
    processes = len({actor.pid for actor in status.actors})
    out.print(f"broker [bold]{escape(status.name)}[/] runs, pid {started.process.pid}, {processes} processes")
    out.print(f"  store       {escape(status.store)}")
    if status.flush == "batch":
        out.print("  durability  [bold]flushed[/]: every receipt waits for the disk")
    else:
        out.print("  durability  [bold]appended[/]: a receipt survives the death of any process, and is on disk within")
        asks = "what asks for [bold]flushed[/], a send or its topic, waits for the disk"
        out.print(f"              {status.flush_interval_ms} ms; {asks}")
    size = f", and at most {byte_count(status.retention_bytes)} of log" if status.retention_bytes else ""
    out.print(f"  kept        {retention(status.retention_hours)}{size}; a topic may have its own time")
    remembered = [f"{each.name} = {each.value}" for each in settings if each.source == "file"]
    if remembered:
        out.print(f"  remembered  {escape(', '.join(remembered))}")
    argument = "" if plain else f'"{status.name}"'
    flag = "" if plain else f" --name {quote(status.name)}"
    if status.listens:
        out.print(f"  listens     for RocketMQ's clients: namesrvAddr {escape(status.listens)}")
        others = [each for each in status.addresses if each not in status.listens.split(";")]
        if others:
            out.print(f"              and at {escape(', '.join(others))}")
    out.print(f"  connect     orbitmq.connect({escape(argument)})   or   orbitmq status{escape(flag)}")


def _run_detached(store: Path, options: dict[str, Any], allow_deletion: bool) -> None:
    log = make_runtime_folder(None) / f"{options['name']}.log"
    # What the supervisor says before it has read its settings comes there too.
    with open(log, "a", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        enough: list[SystemExit] = []

        def tell(started: Started) -> None:
            """Prints all of it, or the tree ends with this process, because nobody would know that it runs."""
            with orbitmq.connect(started.name) as broker:
                status, settings = broker.status(), broker.settings()
            try:
                _describe(status, settings, started)
                flag = "" if started.name == "default" else f" --name {quote(started.name)}"
                out.print(f"  log         {escape(_log_file(settings) or str(log))}")
                out.print(f"  stop        orbitmq down{escape(flag)}")
            # rich raises this if the reader has closed the output (`| head -1`), who was then told
            except SystemExit as closed:
                enough.append(closed)

        start_tree(
            str(store),
            options,
            allow_deletion=allow_deletion,
            errors_to=file,
            log_file=str(log.absolute()),
            progress=_show_progress,
            told=tell,
        )
        for closed in enough:
            raise closed


def _log_file(settings: list[SettingState]) -> str:
    """Empty: it has none of its own."""
    return next((str(each.value) for each in settings if each.name == "log_file"), "")


def _run_in_foreground(store: Path, options: dict[str, Any], allow_deletion: bool) -> None:
    # The tree ends with this process, however that ends.
    options["owner"] = os.getpid()
    # The tree's lines pass through this process, so that they never break the status line.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)  # a terminal that is held up must not stop the broker
    events = threading.Thread(target=_show_events, args=(reader,), daemon=True)
    events.start()
    stop = threading.Event()
    manager = ServiceManager()

    def show_progress(line: str) -> None:
        manager.starting(line)
        _show_progress(line)

    def ask_stop(number: int, frame: FrameType | None) -> None:
        stop.set()
        raise KeyboardInterrupt

    supervisor: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        """The supervisor has the log file."""
        for pid in supervisor:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    previous = {number: signal.signal(number, ask_stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    previous[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, pass_on)
    try:
        try:
            started = start_tree(
                str(store),
                options,
                allow_deletion=allow_deletion,
                errors_to=writer,
                progress=show_progress,
                told=lambda started: supervisor.append(started.process.pid),
            )
        except KeyboardInterrupt:
            err.print("stopped before it ran")
            raise typer.Exit(1) from None
        finally:
            os.close(writer)
        code = _watch(started, manager)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    events.join(timeout=LOOK_S)
    if code != 0:
        raise BrokerBroken(
            f"the broker {started.name!r} {how_ended(code)}",
            hint=f"{why_ended(code, 'the lines above say why')}; the next start recovers the store",
        )
    out.print("stopped; the store is flushed and closed")


def _show_events(reader: int) -> None:
    """Prints the tree's lines until its last process is gone."""
    with os.fdopen(reader, errors="replace") as lines:
        for line in lines:
            err.print(Text(line.rstrip(), "yellow"))  # as it is: in markup, :name: would become a picture


def _watch(started: Started, manager: ServiceManager) -> int:
    """Shows the status until the tree ends or the user presses Ctrl-C. Returns the supervisor's exit code."""
    process = started.process
    try:
        with orbitmq.connect(started.name) as broker:
            _describe(broker.status(), broker.settings(), started)
            out.print("  stop        Ctrl-C")
            manager.running(f"broker {started.name} runs, store {broker.status().store}")
            if not err.is_terminal:
                return manager.attend(process, lambda: silent_of(read_actors(broker.connection.attachment)))
            with Live(console=err, auto_refresh=False, transient=True) as live:
                _show_line(live, broker, process)
        return process.wait()
    except KeyboardInterrupt:
        manager.stopping()
        out.print("stopping ...")
        return _terminate(process)
    except BrokerError:
        return process.wait()


def _show_line(live: Live, broker: Client, process: subprocess.Popen[bytes]) -> None:
    before = Look(broker.status())
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_S)
            return
        with suppress(OrbitError):  # between two coordinators there is nothing new to show
            now = Look(broker.status())
            live.update(Text.from_markup(summary_line(Between(before, now))), refresh=True)
            before = now


def _terminate(process: subprocess.Popen[bytes]) -> int:
    """Asks for a clean end; a second Ctrl-C does not wait for it."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.kill()
        return process.wait()
