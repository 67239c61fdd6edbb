"""`orbitmq clients`: the processes that use a broker."""

from __future__ import annotations

import json
import pwd
from dataclasses import asdict
from typing import Any

from rich.markup import escape

import orbitmq
from orbitmq.cli.console import out, plain_table
from orbitmq.cli.options import Json, Name, Store
from orbitmq.cli.printing import one_line
from orbitmq.client.admin.client_status import ClientStatus


def clients(name: Name = None, store: Store = None, as_json: Json = False) -> None:
    """List the processes that use the broker, this command among them."""
    with orbitmq.connect(name, store=store) as broker:
        found = broker.clients()
    if as_json:
        for each in found:
            print(json.dumps(_record(each)))
        return
    table = plain_table()
    for heading in ("pid", "connections", "producers", "consumers"):
        table.add_column(heading, justify="right")
    for heading in ("user", "groups", "command"):
        table.add_column(heading)
    for each in found:
        numbers = (each.pid, each.connections, each.producers, each.consumers)
        groups = escape(", ".join(each.groups))
        table.add_row(*map(str, numbers), escape(_user(each)), groups, f"[dim]{escape(one_line(each.command))}[/]")
    out.print(table)


def _record(client: ClientStatus) -> dict[str, Any]:
    return {**asdict(client), "user": _user(client), "producers": client.producers, "consumers": client.consumers}


def _user(client: ClientStatus) -> str:
    """Its name; the number if it has none."""
    if client.uid is None:
        return ""
    try:
        return pwd.getpwuid(client.uid).pw_name
    except KeyError:
        return str(client.uid)
