"""`orbitmq health`: whether a broker is well, for probes and service managers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import orbitmq
from orbitmq.cli.exit_codes import FAILED
from orbitmq.cli.options import Json, Name, Store
from orbitmq.client.admin.health import DEGRADED, STOPPED, Health
from orbitmq.errors import BrokerNotRunning, BrokerStopped, TimedOut


def health(
    name: Name = None,
    store: Store = None,
    ready: Annotated[bool, typer.Option("--ready", help="Only whether it takes messages now.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Only whether it runs and none of its processes hangs.")] = False,
    as_json: Json = False,
) -> None:
    """Say whether the broker is well, and end with 0 if it is, else with 1.

    The first line is the state; each further line is a reason.
    """
    if ready and live:
        raise typer.BadParameter("--ready and --live are two questions: ask one of them")
    found = _look(name, store)
    well = found.ready if ready else found.live if live else found.state == "ok"
    if as_json:
        answer = {"well": well, "state": found.state, "reasons": found.reasons, "ready": found.ready, "live": found.live}
        print(json.dumps(answer))
    else:
        print("\n".join((found.state, *found.reasons)))
    if not well:
        raise typer.Exit(FAILED)


def _look(name: str | None, store: Path | None) -> Health:
    try:
        with orbitmq.connect(name, store=store) as broker:
            return broker.health()
    except (BrokerNotRunning, BrokerStopped) as error:
        return Health(STOPPED, (error.message,), running=False)
    except TimedOut as error:  # clients that are connected go on, and no other one can come
        return Health(DEGRADED, (error.message,), silent=("coordinator",))
