"""`orbitmq transactions`: lists the transactions that have not ended, and ends them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.markup import escape

import orbitmq
from orbitmq.cli.answers import sure
from orbitmq.cli.console import clock_time, counted, duration, out, plain_table, where
from orbitmq.cli.exit_codes import FAILED
from orbitmq.cli.options import Json, Name, Store, Yes
from orbitmq.cli.printing import as_record, one_line
from orbitmq.client.transaction.open_transactions import OpenTransaction
from orbitmq.errors import OrbitError, TransactionSettled, UsageError

app = typer.Typer(help="List transactions that have not ended, and end them.", no_args_is_help=True)
Handles = Annotated[
    list[str], typer.Argument(metavar="HANDLE...", help="An id, or a place, as `orbitmq transactions list` shows them.")
]
NUMBERS = ("age", "bytes", "checks", "next")
Timeout = Annotated[float, typer.Option(min=0, help="Seconds to wait for each answer.")]


@app.command("list")
def list_open(
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only those of this producer group.")] = None,
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the transactions that have begun and not ended, the oldest first.

    The columns place and id are what `transactions commit` and `transactions rollback` take; checks and next say how often
    check-backs have asked about it, and in how long one may ask again.
    """
    with orbitmq.connect(name, store=store) as broker:
        found = broker.open_transactions(group)
    now_ms = time.time_ns() // 1_000_000  # the ages of all are of one moment
    if as_json:
        for each in found:
            print(json.dumps(record_of(each, now_ms), ensure_ascii=False))
        return
    if not found:
        out.print(f"no transaction of the producer group {where(group)} is open" if group else "no transaction is open")
        return
    table = plain_table()
    for heading in ("begun", "age", "group", "topic", "keys", "bytes", "checks", "next", "place", "id"):
        table.add_column(heading, no_wrap=True, justify="right" if heading in NUMBERS else "left")
    for each in found:
        row = [clock_time(each.begun_ms)[:19], duration(_age_ms(each, now_ms)), each.group, each.topic]
        row += [" ".join(each.message.keys), f"{len(each.message.body):,}", f"{each.checks:,}"]
        row += [_due(each, now_ms), each.place, each.id]
        table.add_row(*(escape(one_line(text)) for text in row))
    out.print(table)


@app.command("commit")
def commit(
    handles: Handles,
    timeout: Timeout = 30.0,
    yes: Yes = False,
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Commit transactions: their messages are sent.

    If one cannot be committed, the others are all the same, and the exit code is 1.
    """
    with orbitmq.connect(name, store=store) as broker:
        found = _named(broker, handles)
        what = counted(len(found), "transaction")
        sure(yes, f"commit {what}", "what is sent cannot be taken back")
        _end(handles, found, "committed", lambda each: broker.commit_transaction(each, timeout=timeout), as_json)


@app.command("rollback")
def rollback(
    handles: Handles,
    timeout: Timeout = 30.0,
    yes: Yes = False,
    name: Name = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Roll back transactions: their messages are never sent.

    If one cannot be rolled back, the others are all the same, and the exit code is 1.
    """
    with orbitmq.connect(name, store=store) as broker:
        found = _named(broker, handles)
        what = counted(len(found), "transaction")
        sure(yes, f"roll back {what}", f"{counted(len(found), 'message')} will never be sent")
        _end(handles, found, "rolled back", lambda each: broker.rollback_transaction(each, timeout=timeout), as_json)


def record_of(transaction: OpenTransaction, now_ms: int) -> dict[str, Any]:
    """An open transaction as JSON: its half message, and what is known of it."""
    about = {
        "transaction": transaction.id,
        "place": transaction.place,
        "group": transaction.group,
        "for_topic": transaction.topic,
        "for_queue": transaction.queue,
        "begun_ms": transaction.begun_ms,
        "age_s": _age_ms(transaction, now_ms) / 1000,
        "checks": transaction.checks,
        "check_due_ms": transaction.check_due_ms,
    }
    return as_record(transaction.message) | about


def _age_ms(transaction: OpenTransaction, now_ms: int) -> int:
    return max(0, now_ms - transaction.begun_ms)


def _due(transaction: OpenTransaction, now_ms: int) -> str:
    left_ms = transaction.check_due_ms - now_ms
    return duration(left_ms) if left_ms > 0 else "due"


def _named(broker: orbitmq.Client, handles: list[str]) -> list[OpenTransaction]:
    """In this order. Raises: UsageError: one of them names no open transaction, or several."""
    found = broker.open_transactions()
    return [_one(handle, [each for each in found if handle in (each.id, each.place)]) for handle in handles]


def _one(handle: str, found: list[OpenTransaction]) -> OpenTransaction:
    if len(found) == 1:
        return found[0]
    if not found:
        why = "no open transaction has this id or place"
        hint = "it may have ended; `orbitmq transactions list` shows what is open"
    else:
        why = f"{len(found)} open transactions have this id"
        hint = "name it by its place, as `orbitmq transactions list` shows it"
    raise UsageError(f"could not end the transaction {one_line(handle)!r}: {why}", hint=hint)


def _end(
    handles: list[str], found: list[OpenTransaction], how: str, end: Callable[[OpenTransaction], object], as_json: bool
) -> None:
    """Raises: Exit: not all have ended so here."""
    ended = True
    for handle, each in zip(handles, found, strict=True):
        why = ""
        try:
            end(each)
        except TransactionSettled as error:
            why = f"it was {error.outcome or 'ended'} before"
        except OrbitError as error:
            why = error.message
        ended = ended and not why
        if as_json:
            print(json.dumps({"handle": handle, "transaction": each.id, "ended": how if not why else None, "why": why or None}))
        else:
            told = f"[red]not {how}[/]: {escape(one_line(why))}" if why else f"[green]{how}[/]"
            out.print(f"{escape(one_line(handle))}  {told}")
    if not ended:
        raise typer.Exit(FAILED)
