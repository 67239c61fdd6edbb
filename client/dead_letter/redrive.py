"""Sends dead letters again, each once.

What says that a letter was sent is the message itself: its unique key is the letter's id, which no other message ever has, and
the index finds it. So nothing has to be written down beside it, and no kill can come between a send and its note. Three things
could still make a second message of a letter, and are excluded:

* another process that does the same: both lock the folder of the topic (flock), which the kernel unlocks when a process dies;
* a message of a killed process that is still on its way through the broker: the next one waits until the sessions of dead
  producers are empty, and the index has come to the end of the log;
* a dying process whose lock is free already and whose sessions still count as alive: the kernel marks it as exiting before it
  unlocks anything.
"""

from __future__ import annotations

import fcntl
import os
import select
import time
from dataclasses import replace
from pathlib import Path
from shlex import quote
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from orbitmq.client.dead_letter.dead_letter import (
    FIRST_UNIQUE_KEY,
    PREFIX,
    REDRIVEN_FROM,
    SHARDING_KEY,
    DeadLetter,
    kept_properties,
    topic_of,
)
from orbitmq.client.lookup import Attached, message_with_unique_key
from orbitmq.client.producer.settings import MESSAGE_MAX, MESSAGE_USUAL
from orbitmq.errors import GroupInUse, NoPermission, OrbitError, PropertiesTooLarge, TimedOut, UnknownTopic, UsageError
from orbitmq.errors.remedy import as_hint, hint
from orbitmq.native._types import Message
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.process_stat import process_stat
from orbitmq.shm.topic_name import how_to_make
from orbitmq.shm.topic_table import PERM_WRITE, TopicTable

if TYPE_CHECKING:
    from orbitmq.client.client import Client
    from orbitmq.client.producer.producer import Producer
    from orbitmq.native._types import Pending

LOOK_MS = 2
AROUND_MAX = 64 << 10  # around a body: properties, the topic, the record's fixed part
AT_ONCE = 256  # messages in flight


def sent_again(attached: Attached, letter: Message) -> str | None:
    """The id of the message as which this dead letter was sent again; None: it was not, or so long ago that retention has
    removed that message."""
    topic = topic_of(letter)
    if topic is None:
        return None
    found = message_with_unique_key(attached, topic, letter.id, begin_ms=letter.stored_ms - 1000)
    return None if found is None else found.id


class Redrive:
    """The one redrive of a group that is under way, for a `with` statement."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._lock = -1

    def __enter__(self) -> Self:
        """Raises: GroupInUse: there is another one. TimedOut: what a killed one had sent is not in the index yet."""
        attached = self._client.connection.attachment
        folder = Path(attached.store) / "consumequeue" / f"{PREFIX}{self._group}"
        self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._claim()
            self._await_the_dead()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if isinstance(error, OrbitError):
            error.of_call_done_once()
        os.close(self._lock)

    def send(self, letters: list[DeadLetter]) -> list[DeadLetter]:
        """Returns them as they were sent. Raises: before anything is sent, UnknownTopic, UsageError and NoPermission; and what
        a send raises: `sent` says how many were sent. If a letter cannot be sent because of what it is, those behind it are
        sent all the same."""
        for letter in letters:
            self._check(letter)
        if not letters:
            return []
        largest = max(letter.message.size for letter in letters) + AROUND_MAX
        done: list[DeadLetter] = []
        unfit: list[tuple[DeadLetter, UsageError]] = []
        try:
            with self._client.producer(message_max=min(max(MESSAGE_USUAL, largest), MESSAGE_MAX), window=AT_ONCE) as producer:
                for begin in range(0, len(letters), AT_ONCE):
                    _send_part(producer, letters[begin : begin + AT_ONCE], done, unfit)
        except OrbitError as error:
            error.sent = len(done)
            raise
        if unfit:
            raise _unfit(unfit, len(done))
        return done

    def _claim(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GroupInUse(
                f"could not redrive the dead letters of the group {self._group!r}: another process is doing it",
                hint="wait until it has ended; repeating is safe",
                group=self._group,
            ) from None

    def _await_the_dead(self) -> None:
        """Returns when everything that dead processes had sent is in the log, and the index has come to its end."""
        limit = self._client.connection.timeout
        deadline = time.monotonic() + limit
        while any(session.window and (session.closing or _dying(session.pid)) for session in self._client.status().sessions):
            _pause(deadline, limit, "a killed process still has a session at the broker")
        left = max(0.0, deadline - time.monotonic())
        self._client.connection.attachment.wait_caught_up(left, "redrive dead letters")

    def _check(self, letter: DeadLetter) -> None:
        doing = f"could not redrive the dead letter {letter.place}"
        if letter.topic is None:
            raise UsageError(f"{doing}: it does not say to which topic it was sent", hint="send its body by hand", id=letter.id)
        topic = TopicTable(self._client.connection.attachment.topics).find(letter.topic)
        if topic is None:
            text = f"{doing}: its topic {letter.topic!r} does not exist"
            raise UnknownTopic(text, hint=how_to_make(letter.topic), topic=letter.topic)
        if not topic.perm & PERM_WRITE:
            text = f"{doing}: its topic {letter.topic!r} may not be written"
            way = f"allow it: orbitmq topic permissions {quote(letter.topic)} --write"
            raise NoPermission(text, hint=way, topic=letter.topic, perm=topic.perm)


def _send_part(
    producer: Producer, letters: list[DeadLetter], done: list[DeadLetter], unfit: list[tuple[DeadLetter, UsageError]]
) -> None:
    """Sends letters, and adds each to one of the two lists. Raises: what a send raises, but not UsageError; TimedOut also if a
    receipt does not come within the producer's timeout."""
    crash_point("redrive_sending")
    pendings: list[tuple[DeadLetter, Pending]] = []
    for letter in letters:
        try:
            pendings.append((letter, _sent(producer, letter)))
        except UsageError as error:
            unfit.append((letter, error))
    crash_point("redrive_sent")
    for letter, pending in pendings:
        try:
            done.append(replace(letter, redriven=pending.result(producer.timeout).id))
        except UsageError as error:
            unfit.append((letter, error))


def _sent(producer: Producer, letter: DeadLetter) -> Pending:
    """Sends one. If its properties leave no room to say where it comes from, it does not say that."""
    try:
        return producer.send_async(letter.topic or "", letter.message.body, **_fields(letter))
    except PropertiesTooLarge:
        fields = _fields(letter)
        for name in (REDRIVEN_FROM, FIRST_UNIQUE_KEY):
            fields["properties"].pop(name, None)
        return producer.send_async(letter.topic or "", letter.message.body, **fields)


def _unfit(unfit: list[tuple[DeadLetter, UsageError]], sent: int) -> UsageError:
    """The error of the first letter that could not be sent because of what it is."""
    letter, first = min(unfit, key=lambda each: each[0].offset)
    others = f", nor {counted} more" if (counted := len(unfit) - 1) else ""
    text = f"could not redrive the dead letter {letter.place}{others}: {first.message}"
    then = "those behind it were sent, and repeating is safe"
    error = first.reworded(text, first.remedy.assuring(then) if first.remedy else as_hint(then))
    error.sent = sent
    return error


def _fields(letter: DeadLetter) -> dict[str, Any]:
    message = letter.message
    return {
        "tags": message.tags,
        "keys": message.keys,
        "flag": message.flag,
        "properties": kept_properties(message),
        "queue_key": message.properties.get(SHARDING_KEY),
    }


def _dying(pid: int) -> bool:
    """True for a process that is gone, or has begun to exit."""
    stat = process_stat(pid)
    return stat is None or stat.exiting


def _pause(deadline: float, limit: float, why: str) -> None:
    if time.monotonic() > deadline:
        text = f"could not redrive dead letters within {limit:g} s: {why}"
        raise TimedOut(text, hint=hint("repeating is safe || raise {timeout of connect}"), timeout=limit)
    select.poll().poll(LOOK_MS)
