"""`orbitmq metrics`: a broker's counters and gauges for Prometheus."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import orbitmq
from orbitmq.cli.console import out
from orbitmq.cli.listening import place_of, taken
from orbitmq.cli.options import Name, Store
from orbitmq.client.admin.health import STOPPED, Health
from orbitmq.client.admin.metrics import Metric, look, metrics_of_health
from orbitmq.errors import BrokerNotRunning, BrokerStopped, OrbitError
from orbitmq.store import atomic_file
from orbitmq.store.settings.listen_address import ListenAddress


def metrics(
    name: Name = None,
    store: Store = None,
    textfile: Annotated[
        Path | None, typer.Option(help="Replace this file, for node-exporter's textfile collector, and print nothing.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Answer Prometheus and probes here until Ctrl-C; port 0: any.")
    ] = None,
) -> None:
    """Print the broker's metrics in Prometheus' text format.

    If no broker runs, they say so, and the command ends with 3. With an address to listen at, it goes on while the broker
    comes and goes.
    """
    try:
        import prometheus_client  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        text = "could not give metrics: they need prometheus-client, which is not installed"
        raise OrbitError(text, hint="pip install 'orbitmq[metrics]'") from None
    if listen is not None:
        if textfile is not None:
            raise typer.BadParameter("--listen and --textfile are two ways to give metrics: choose one of them")
        _serve(listen, name, store)
        return
    try:
        with orbitmq.connect(name, store=store) as broker:
            _, found = look(broker)
    except (BrokerNotRunning, BrokerStopped):
        _give(metrics_of_health(Health(STOPPED)), textfile)
        raise
    _give(found, textfile)


def _give(found: list[Metric], textfile: Path | None) -> None:
    from orbitmq.cli.metric_text import text_of

    text = text_of(found)
    if textfile is None:
        sys.stdout.write(text.decode())
        sys.stdout.flush()
    else:
        atomic_file.replace(textfile, text)


def _serve(listen: str, name: str | None, store: Path | None) -> None:
    from orbitmq.cli.broker_looks import BrokerLooks
    from orbitmq.cli.metric_server import MetricServer, application

    where = place_of(listen)
    try:
        server = MetricServer(where)
    except OSError as error:
        raise taken(where, error) from None
    with suppress(KeyboardInterrupt), server:
        server.set_app(application(BrokerLooks(name, store)))
        place = ListenAddress(where.host, server.server_port)
        out.print(f"metrics at [bold]http://{escape(str(place))}/metrics[/]", soft_wrap=True)
        out.file.flush()
        server.serve_forever()
