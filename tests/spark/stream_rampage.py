"""A stream into Parquet under kills: a query, the broker it reads from and a producer, of whom the first two are killed with
SIGKILL, processes and all, at moments that follow from a seed. In the end the output must be the log: every message once.

    python tests/spark/stream_rampage.py [--minutes N] [--kills N] [--seed S] [--by broker|path|both]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow.parquet

import orbitmq
from orbitmq import errors
from orbitmq.client.admin.status import read_actors
from tests.trees import indexed
from tests.waiting import LOOK_MS, Stuck, until

PATIENCE_S = 300.0  # a watchdog: what has not happened by then never will
BATCH = 50  # messages of one send; at most one send is made for each look
AHEAD = 20_000  # how many messages the query may be behind
SMALL: dict[str, Any] = {
    "handlers": 1,
    "log_file_size": 1 << 20,
    "lane_capacity": 1 << 18,
    "index_slots": 1000,
    "index_entries": 4000,
    "queue_file_units": 1000,
    "flush_interval_ms": 20,
}
PREFIX = "flow-"
VICTIMS = ("query", "query", "broker")  # each of them once before the next round
PHASES = ("planned", "writing", "committed")
AWAY = (errors.BrokerError, errors.TimedOut, errors.Closed)

# Spark gives a Python process 10 s to start, and no setting changes that. If the machine does ten things at once, that may
# be too short. It counts as one more death.
TOO_SLOW = "Python worker failed to connect back"

Row = tuple[str, int, int, bytes]  # topic, queue, offset, body


class Sender:
    """A thread that sends numbered messages, one batch for each permit, to the existing topics. It outlives the broker."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._permits = threading.Semaphore(0)
        self._ends = False
        self.topics: list[str] = []
        self.sent = 0
        self.acknowledged: dict[bytes, tuple[str, int, int]] = {}
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def permit(self) -> None:
        self._permits.release()

    def end(self) -> None:
        self._ends = True
        self._permits.release()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends:
            with suppress(*AWAY), orbitmq.connect(self._name) as client, client.producer(timeout=PATIENCE_S) as producer:
                while self._permits.acquire() and not self._ends:
                    for topic in list(self.topics):
                        bodies = [b"%d" % number for number in range(self.sent, self.sent + BATCH)]
                        self.sent += BATCH
                        receipts = producer.send_batch(topic, bodies)
                        for body, receipt in zip(bodies, receipts, strict=True):
                            self.acknowledged[body] = (topic, receipt.queue, receipt.offset)


class StreamRampage:
    """by: the option that the query is given, "broker" or "path"; with "both", its lives have one and the other in turn.
    victims: the first ones, before the seed chooses them.
    """

    def __init__(self, folder: Path, seed: int, by: str = "broker", victims: Sequence[str] = ()) -> None:
        self.folder = folder
        self.rng = random.Random(seed)
        self.kills: list[str] = []
        self._victims = list(reversed(victims))
        self._name = f"stream-{os.getpid()}-{seed}"
        self._lives = cycle(("broker", "path") if by == "both" else (by,))
        self._errors = (folder / "errors").open("a")
        self._broker = self._start_broker()
        self._sender = Sender(self._name)
        self._query = self._start_query()
        self._grow()

    # ---- the parts

    def _start_broker(self) -> orbitmq.Broker:
        return orbitmq.Broker(self.folder / "store", name=self._name, timeout=PATIENCE_S, **SMALL)

    def _start_query(self) -> subprocess.Popen[bytes]:
        by = next(self._lives)
        options = {
            by: self._name if by == "broker" else str(self.folder / "store"),
            "subscribePattern": f"{PREFIX}.*",
            "startingOffsets": "earliest",
            "columns": "topic,partition,offset,value",
            "maxOffsetsPerTrigger": "5000",
            "minPartitions": "2",
        }
        program = [sys.executable, str(Path(__file__).with_name("stream_query.py")), json.dumps(options)]
        return subprocess.Popen(
            [*program, str(self.folder / "out"), str(self.folder / "checkpoint")],
            start_new_session=True,
            stdout=self._errors,
            stderr=self._errors,
        )

    def _grow(self) -> None:
        """One more topic, and one more queue of an existing one."""
        topics = self._sender.topics
        if topics:
            grown = self.rng.choice(topics)
            self._broker.create_topic(grown, queues=1 + self._queues()[grown])
        topic = f"{PREFIX}{len(topics)}"
        self._broker.create_topic(topic, queues=2)
        topics.append(topic)

    def _queues(self) -> dict[str, int]:
        return {topic.name: len(topic.queues) for topic in self._broker.status().topics}

    # ---- kills

    def strike(self) -> None:
        """One kill, at the next moment of the seed."""
        if not self._victims:
            self._victims = self.rng.sample(VICTIMS, len(VICTIMS))
        phase, late, who = self.rng.choice(PHASES), self.rng.randrange(60), self._victims.pop()
        before = self._progress(phase)
        self._until(lambda: self._progress(phase) > before, f"a batch to be {phase}")
        for _ in range(late):
            self._look()
        self.kills.append(f"{who}, {phase} + {late}")
        if who == "query":
            kill_session(self._query.pid)
            self._query.wait()
            self._query = self._start_query()
        else:
            actors = [actor.pid for actor in read_actors(self._broker.connection.attachment) if actor.pid > 0]
            for pid in (self._broker.pid, *actors):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._broker.close()
            self._broker = self._start_broker()
        if len(self._sender.topics) < 5:
            self._grow()

    def _progress(self, phase: str) -> int:
        if phase == "writing":
            return len(list((self.folder / "out").glob("part-*")))
        return max(numbers(self.folder / "checkpoint" / ("offsets" if phase == "planned" else "commits")), default=-1)

    # ---- waiting, while messages are sent

    def _look(self) -> None:
        code = self._query.poll()
        if code is not None:
            told = Path(self._errors.name).read_text(errors="replace")
            assert TOO_SLOW in told, f"the query ended by itself with {code}: {self.last_words()}"
            self._errors.truncate(0)
            kill_session(self._query.pid)
            self._query = self._start_query()
        if self._sender.sent < sum(self._done().values()) + AHEAD:
            self._sender.permit()
        select.poll().poll(LOOK_MS)

    def _until(self, condition: Callable[[], Any], what: str) -> Any:
        def looked() -> Any:
            found = condition()
            if not found:
                self._look()
            return found

        try:
            return until(looked, what, look_ms=0)
        except Stuck as error:
            raise Stuck(f"{error}: {self.last_words()}") from None

    def _done(self) -> dict[tuple[str, int], int]:
        """Where the query has committed, by topic and queue."""
        committed = max(numbers(self.folder / "checkpoint" / "commits"), default=-1)
        if committed < 0:
            return {}
        last = (self.folder / "checkpoint" / "offsets" / str(committed)).read_text().splitlines()[-1]
        return {(topic, int(queue)): end for topic, queues in json.loads(last).items() for queue, end in queues.items()}

    def last_words(self) -> str:
        return Path(self._errors.name).read_text(errors="replace")[-4000:]

    # ---- the end

    def finish(self) -> int:
        """Lets the query read to the end and compares. Returns how many messages there were."""
        self._sender.end()
        self._sender.topics, topics = [], self._sender.topics
        stored = self._stored(topics)
        ends: dict[tuple[str, int], int] = {}
        for topic, queue, offset, _ in stored:
            ends[topic, queue] = max(ends.get((topic, queue), 0), offset + 1)
        self._sender.sent = sys.maxsize  # no more permits are given
        self._until(lambda: {place: end for place, end in self._done().items() if end} == ends, "the query to have everything")
        kill_session(self._query.pid)
        self._query.wait()
        found = sorted(output(self.folder / "out"))
        assert len(found) == len({row[:3] for row in found}), "a message is in the output twice"
        assert found == stored, f"{len(found)} rows of {len(stored)} messages"
        assert len(stored) == sum(ends.values()), "the log has a gap"
        there = {(topic, queue, offset): body for topic, queue, offset, body in stored}
        for body, place in self._sender.acknowledged.items():
            assert there.get(place) == body, f"message {body!r} was acknowledged at {place}, where is {there.get(place)!r}"
        return len(stored)

    def _stored(self, topics: list[str]) -> list[Row]:
        """The log, as a consumer reads it."""
        indexed(self._broker)
        status = self._broker.status()
        expected = sum(queue.max_offset for topic in status.topics if topic.name in topics for queue in topic.queues)
        with self._broker.consumer(None, topics=topics) as consumer:
            found: list[Row] = []
            while len(found) < expected:
                batch = consumer.poll_batch(1000, timeout=PATIENCE_S)
                assert batch, f"{len(found)} of {expected} messages came"
                found += [(each.topic, each.queue, each.offset, bytes(each.body)) for each in batch]
        return sorted(found)

    def close(self) -> None:
        self._sender.end()
        if self._query.poll() is None:
            kill_session(self._query.pid)
            self._query.wait()
        self._broker.close()
        self._errors.close()


def numbers(folder: Path) -> Iterator[int]:
    """Of the batches that a log of Spark's holds."""
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.name.isdecimal():
                yield int(path.name)


def output(folder: Path) -> Iterator[Row]:
    """The rows of the files that the sink has committed; a killed process has left the others in the folder."""
    log = folder / "_spark_metadata"
    names = [path.name for path in log.iterdir() if path.name.removesuffix(".compact").isdecimal()]
    whole = max((int(name.removesuffix(".compact")) for name in names if name.endswith(".compact")), default=-1)
    counted = [name for name in names if int(name.removesuffix(".compact")) > whole or name == f"{whole}.compact"]
    for name in counted:
        for line in (log / name).read_text().splitlines()[1:]:
            path = json.loads(line)["path"].removeprefix("file://")
            table = pyarrow.parquet.ParquetFile(path).read()
            columns = (table[each].to_pylist() for each in ("topic", "partition", "offset", "value"))
            yield from zip(*columns, strict=True)


def kill_session(leader: int) -> None:
    """All processes of a session: Python, its JVM, and the workers that the JVM has started."""

    def gone() -> bool:
        members = list(session(leader))
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not members

    until(gone, f"the end of session {leader}")


def session(leader: int) -> Iterator[int]:
    """The processes that live in it."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] not in "ZX":
                yield int(path.parent.name)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/crash_stream", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to go on killing; default 1")
    parser.add_argument("--kills", type=int, default=0, help="how many kills to stop after, instead of a time")
    parser.add_argument("--seed", type=int, default=None, help="of an earlier run, to have its schedule again")
    parser.add_argument("--by", choices=("broker", "path", "both"), default="broker", help="how the query finds the store")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    folder = Path(tempfile.mkdtemp(prefix="orbitmq-stream-"))
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    rampage = StreamRampage(folder, seed, options.by)
    try:
        while len(rampage.kills) < options.kills if options.kills else time.monotonic() < began + options.minutes * 60:
            rampage.strike()
            print(f"{len(rampage.kills):4} after {time.monotonic() - began:.0f} s: {rampage.kills[-1]}", flush=True)
        count = rampage.finish()
    except AssertionError as error:
        print(f"{error}\nwhat is left of it: {folder}; again: scripts/crash_stream --seed {seed}", flush=True)
        return 1
    finally:
        rampage.close()
    took = time.monotonic() - began
    print(f"{len(rampage.kills)} kills in {took:.0f} s, {count:,} messages: each is in the output once")
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
