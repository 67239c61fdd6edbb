"""Transactions (docs/transactions.md): a message is stored as a half message, which nobody receives, and then committed or
rolled back, once.

    with producer.transaction("orders", b"...") as tx:
        database.commit()

A block that is left without an exception commits; an exception rolls back, and goes on. If the process dies in between, the
half message stays as it is until somebody ends the transaction. A forked child does not end its parent's transactions.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self

from orbitmq.client.connection.born_in import BornIn
from orbitmq.client.parameters import spelled
from orbitmq.client.receipt import Receipt
from orbitmq.client.transaction.open_transactions import IMMUNITY, number_of
from orbitmq.client.transaction.settling import COMMIT, ROLLBACK, Ender, settle
from orbitmq.client.unclosed import Shown
from orbitmq.errors import (
    BrokerNotRunning,
    BrokerStopped,
    OrbitError,
    PerhapsStored,
    PropertyError,
    TransactionSettled,
    UnknownTopic,
    UsageError,
)
from orbitmq.errors.remedy import as_hint
from orbitmq.shm.durability import Durability

State = Literal["open", "committed", "rolled back"]

_GROUP = struct.Struct("=Q")
_SESSIONS_WORDS = "could not end a transaction: "  # native/python/producer/verdicts.c; which one is said here
_OUTCOMES: dict[int, State] = {COMMIT: "committed", ROLLBACK: "rolled back"}


class Half:
    """What a half message has beside its content: its id, and the name of the producer group."""

    def __init__(self, group: str, properties: Mapping[str, str] | None) -> None:
        named = dict(properties or {})
        immune = named.get(IMMUNITY)
        if isinstance(immune, str) and number_of(immune, -1) < 0:
            text = f"could not use property {IMMUNITY!r} = {immune!r}: it is a whole number of seconds, 0 or more"
            raise PropertyError(text, name=IMMUNITY, value=immune)
        self.id = str(named.setdefault("UNIQ_KEY", os.urandom(16).hex().upper()))
        self.properties = named
        name = group.encode()
        self.own: dict[str, Any] = {"_half": _GROUP.pack(len(name)) + name}


@spelled
class Transaction(Shown):
    """A message that is stored and not yet sent. Made by `Producer.transaction()`.

    Attributes:
        id: of the transaction: the message's UNIQ_KEY, by which it can be found.
        topic: to which the message goes.
        half: the receipt of the half message.
        state: "open", "committed" or "rolled back", as far as this object knows.
        receipt: of the message, once it is committed here; None if a check-back has committed it.
    """

    def __init__(
        self, producer: Ender, topic: str, id: str, half: Receipt, forget: Callable[[str], object] = lambda id: None
    ) -> None:
        """forget: called with its id when it has ended."""
        self._producer = producer
        self._forget = forget
        self._born = BornIn()
        self.topic = topic
        self.id = id
        self.half = half
        self.state: State = "open"
        self.receipt: Receipt | None = None

    def commit(self, *, durability: Durability | None = None, timeout: float | None = None) -> Receipt:
        """Sends the message: it is in its topic, and the transaction has ended, or neither.

        Args:
            durability: what the receipt waits for; None: what the half message's did.
            timeout: seconds; None: the producer's.

        Raises: TransactionSettled: it has ended before. UnknownTransaction: its half message is not in the log any more.
            UnknownTopic: the topic was deleted; it can still be rolled back. PerhapsStored: the broker died meanwhile: commit
            again, which is safe, and what a named producer does by itself. TimedOut, StoreFull, StoreFailed; NoPermission: the
            store was opened read-only. UsageError: this object has ended it, or belongs to the process from which
            this one was forked.
        """
        stored = self._end("commit", COMMIT, durability, timeout)
        self.state = "committed"
        self.receipt = replace(stored, topic=self.topic)
        return self.receipt

    def rollback(self, *, durability: Durability | None = None, timeout: float | None = None) -> None:
        """Ends the transaction without sending the message. Arguments and errors: as commit()."""
        self._end("roll back", ROLLBACK, durability, timeout)
        self.state = "rolled back"

    def _end(self, doing: str, how: int, durability: Durability | None, timeout: float | None) -> Receipt:
        if self.state != "open":
            raise UsageError(f"could not {doing} the transaction {self.id}: it was {self.state} here before", id=self.id)
        self._born.check(f"{doing} the transaction {self.id}", "end it there, or as one that open_transactions() lists")
        level = durability or self.half.durability
        place = self.half.offset, self.half.physical_offset
        lost: PerhapsStored | None = None  # a named producer's end, of which the broker's death has left no word
        while True:
            try:
                ended = settle(self._producer.ends, place, how, self.id, durability=level, timeout=timeout)
                self._forget(self.id)
                return ended
            except OrbitError as error:
                if isinstance(error, PerhapsStored) and self._producer.name is not None:
                    lost = error  # the next attempt waits for a broker as long as the producer does
                    continue
                if isinstance(error, TransactionSettled):
                    self._forget(self.id)
                    if lost is not None and (own := self._ended(how, error.outcome, level, timeout)):
                        return own
                elif isinstance(error, BrokerNotRunning) and lost is not None:
                    error = lost
                raise reworded(error, doing, self.id, self.topic) from None

    def _ended(self, how: int, outcome: str | None, durability: Durability, timeout: float | None) -> Receipt | None:
        """The receipt of an end that was stored before, if it is this one. A broker that was started since does not remember
        how a transaction ended, but its log does: the message is there, or is not."""
        if outcome not in (None, _OUTCOMES[how]):
            return None
        while True:
            try:
                found = self._producer.committed(self.topic, self.id, self.half.physical_offset, durability, timeout)
            except BrokerStopped:
                continue  # the next attempt waits for the next one
            except OrbitError:
                return None
            if how == COMMIT:
                return found
            return None if found else self.half  # nobody asks where the operation message is

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.state != "open":
            return
        if error is None:
            try:
                self.commit()
            except TransactionSettled as settled:
                if settled.outcome != "committed":
                    raise
                self.state = "committed"  # a check-back was faster
            return
        if not self._born.here():
            return  # the child's exception says nothing about what the parent does
        try:
            self.rollback()
        except TransactionSettled as settled:
            if settled.outcome != "rolled back":
                error.add_note(f"{settled}")
            self.state = "rolled back" if settled.outcome == "rolled back" else self.state
        except OrbitError as failed:
            error.add_note(f"{failed}; the message is not sent before the transaction ends")

    def _words(self) -> str:
        return f"{self.id} to {self.topic!r}, {self.state}"


def reworded(error: OrbitError, doing: str, id: str, topic: str) -> OrbitError:
    """What an error of its session means for the end of a transaction."""
    what = f"could not {doing} the transaction {id} of topic {topic!r}"
    if isinstance(error, UnknownTopic):
        text = f"{what}: there is no such topic any more"
        return UnknownTopic(text, hint=as_hint("roll it back, or create the topic again"), topic=topic)
    if isinstance(error, PerhapsStored):
        return error.reworded(f"{what} for certain: {error.message}", as_hint("call it again, which is safe: it ends once"))
    return error.reworded(f"{what}: {str(error.message).removeprefix(_SESSIONS_WORDS)}", error.remedy)
