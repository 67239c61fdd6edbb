"""`orbitmq metrics`: a broker's counters and gauges for Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import orbitmq
from orbitmq.cli.options import Name, Store
from orbitmq.client.metrics import Metric, metrics_of, metrics_of_none, text_of
from orbitmq.errors import BrokerNotRunning, BrokerStopped
from orbitmq.store import atomic_file


def metrics(
    name: Name = None,
    store: Store = None,
    textfile: Annotated[
        Path | None, typer.Option(help="Replace this file, for node-exporter's textfile collector, and print nothing.")
    ] = None,
) -> None:
    """Print the broker's metrics in Prometheus' text format.

    If no broker runs, they say so, and the command ends with 3.
    """
    try:
        with orbitmq.connect(name, store=store) as broker:
            found = metrics_of(broker.status(), sum(each.connections for each in broker.clients()))
    except (BrokerNotRunning, BrokerStopped):
        _give(metrics_of_none(), textfile)
        raise
    _give(found, textfile)


def _give(found: list[Metric], textfile: Path | None) -> None:
    text = text_of(found)
    if textfile is None:
        print(text, end="", flush=True)
    else:
        atomic_file.replace(textfile, text.encode())
