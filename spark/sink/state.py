"""What the sink remembers about a query, in one small file that is replaced whole and durably.

    done      number of the last batch that is stored; -1: none
    intent    the batch that is being stored: its staged files, and all that is needed to learn after a crash which of its rows
              the log has

An intent is durable before the first of its rows is sent, and stays until all are in the log and on disk. A process that finds
one sends what is missing of it, out of its files, and discards what a repetition of the batch has staged. A row is identified
by the property SPARK_ROW, "<first 12 digits of the query's hash>-<batch>-<row>".
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import select
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from orbitmq.errors import StoreError, TimedOut
from orbitmq.errors.remedy import hint
from orbitmq.shm import finite_json
from orbitmq.spark.sink import staging
from orbitmq.spark.sink.staging import Staging
from orbitmq.store import atomic_file

LOOK_MS = 50  # between two looks at something that sends no notice


@dataclass(slots=True)
class Intent:
    """A batch on its way into the log.

    files: path and rows of each staged file, in the order of their rows. begins: by topic, for each queue an offset below all
        rows of this batch; a queue that is missing begins at 0. sessions: generation, slot and epoch of each session through
        which rows were sent.
    largest: record, bytes.
    places: with servers, by topic: number, broker and queue of each queue that gets rows, and an offset below all of them.
    addresses: of these brokers. attempts: how often sending was begun there. nonce: a part of its batches' ids, which no other
        intent has.
    """

    batch: int
    files: list[tuple[str, int]]
    begins: dict[str, list[int]]
    largest: int
    sessions: list[tuple[int, int, int]] = field(default_factory=list)
    places: dict[str, list[tuple[int, str, int, int]]] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    attempts: int = 0
    nonce: str = ""

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.files)


@dataclass(slots=True)
class State:
    """See the head of this file. named: the query may come again, so `done` is kept. owner: the driver that wrote it. spent:
    files of the last batch, to be removed."""

    query: str
    named: bool
    owner: str
    done: int = -1
    intent: Intent | None = None
    spent: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Query:
    """One query's folder. A commit holds its lock, across drivers: the process of a commit outlives a driver that is killed."""

    folder: Path
    name: str

    @classmethod
    def of(cls, home: Staging, name: str) -> Query:
        return cls(home.queries / hashlib.sha256(name.encode()).hexdigest()[:32], name)

    @property
    def mark(self) -> str:
        """The prefix of its rows' names."""
        return self.folder.name[:12]

    @contextlib.contextmanager
    def locked(self, timeout: float) -> Iterator[None]:
        """Raises: TimedOut: another process is storing rows of the query."""
        deadline = time.monotonic() + timeout
        while True:
            atomic_file.make_folder(self.folder)
            with _locked(self.folder) as mine:
                if mine:
                    yield
                    return
            if time.monotonic() >= deadline:
                raise TimedOut(
                    f"could not store rows of query {self.name!r}: another process has been doing so for {timeout:g} s",
                    hint=hint("let it end and run the query again, which is safe || raise {timeout of spark}"),
                    query=self.name,
                    timeout=timeout,
                )
            pause()

    def load(self) -> State | None:
        return load(self.folder)

    def store(self, state: State) -> None:
        atomic_file.replace(self.folder / "state.json", json.dumps(asdict(state)).encode())

    def forget(self) -> None:
        staging.remove_folder(self.folder)


def pause() -> None:
    """Waits until the next look."""
    select.poll().poll(LOOK_MS)


def load(folder: Path) -> State | None:
    """Raises: StoreError: the file is damaged."""
    path = folder / "state.json"
    try:
        content = finite_json.loads(path.read_bytes())
        intent = content.pop("intent")
        state = State(**content)
        if intent is not None:
            state.intent = Intent(**intent)
            state.intent.files = [(name, rows) for name, rows in state.intent.files]
        return state
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"cannot use {path}, which says what a Spark query has stored: {error}",
            hint="restore it; without it the query's last batch may be stored again",
            path=str(path),
        ) from None


def clear(home: Staging) -> None:
    """Removes what nobody can need any more: jobs without a name whose drivers are dead, and what dead drivers have staged."""
    for folder in home.query_folders():
        state = load(folder)
        if state is None or not (state.named or home.owner_lives(state.owner)):
            with _locked(folder) as mine:
                if mine and load(folder) == state:
                    staging.remove_folder(folder)

    def needed() -> set[str]:
        intents = [state.intent for state in map(load, home.query_folders()) if state is not None]
        return {path for intent in intents if intent is not None for path, _ in intent.files}

    home.clear(needed)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """True if the folder could be locked, and is still the one of its name."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield os.fstat(descriptor).st_nlink > 0
    finally:
        os.close(descriptor)
