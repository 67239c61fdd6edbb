"""Clients of the gateway behind a proxy that tears their connections (tearing_proxy.py), and a model of what must then be in
the log. Clients send again what nobody has acknowledged, as RocketMQ's do.

    python -m tests.actors.torn_clients --rounds 1000 --seed 7
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import orbitmq
from orbitmq.store.commit_log import record as records_on_disk
from tests.actors.gateway_fuzz import resident
from tests.actors.remoting_client import PULL, SEND_V2, Remote, Said, records
from tests.actors.remoting_kinds import CERTIFICATES, Secure
from tests.actors.tearing_proxy import TearingProxy
from tests.trees import actors, indexed, small_broker
from tests.waiting import WATCHDOG_S, until

TOPIC, QUEUES = "torn", 3
BATCH, SUCCESS, FOUND_NOTHING = 320, 0, 19
BARRIER = b"barrier"
AT_ONCE = 8  # requests without an answer
AGAIN_MAX = 2000  # connections of one client
SETTINGS = {
    "listen": "127.0.0.1:0",
    "tls_cert": str(CERTIFICATES / "first.pem"),
    "tls_key": str(CERTIFICATES / "first.key"),
}


class Place(NamedTuple):
    queue: int
    offset: int


class Sender(threading.Thread):
    """Sends each of its messages until it was acknowledged. receipts: for each place that an answer named, what was sent
    there."""

    def __init__(self, proxy: TearingProxy, kind: type[Remote], seed: int, who: str, count: int) -> None:
        super().__init__(name=who)
        self._proxy = proxy
        self._kind = kind
        self._random = random.Random(f"{seed} {who}")
        self._todo = [self._request(f"{who}/{number}".encode()) for number in range(count)]
        self.offered = Counter[bytes]()  # how often each request was sent: by its body
        self.contents = dict(self._todo)  # of each request, by its body: the bodies of its messages
        self.receipts: list[tuple[Place, bytes]] = []
        self.wrong: list[BaseException] = []
        self.again = 0  # connections that ended too soon

    def _request(self, body: bytes) -> tuple[bytes, list[bytes]]:
        draw = self._random
        if draw.random() < 0.2:
            bodies = [body + b"." + bytes([97 + at]) for at in range(draw.randrange(1, 6))]
            return b"".join(map(_entry, bodies)), bodies
        whole = body + b" " + bytes(draw.choice((0, 0, 0, 10, 1000, 30_000)))
        return whole, [whole]

    def run(self) -> None:
        waiting = dict(self._todo)
        try:
            while waiting:
                try:
                    self._connection(waiting)
                except TimeoutError:
                    raise
                except OSError:
                    self.again += 1
                    assert self.again < AGAIN_MAX, "it never gets through"
        except BaseException as error:
            self.wrong.append(error)

    def _connection(self, waiting: dict[bytes, list[bytes]]) -> None:
        """One life of a connection. Raises: OSError."""
        names: dict[int, tuple[bytes, int]] = {}
        open_: set[int] = set()
        with self._kind(self._proxy.listens) as remote:
            unsent = list(waiting)
            while waiting:
                while unsent and len(open_) < AT_ONCE:
                    body, queue = unsent.pop(0), self._random.randrange(QUEUES)
                    self.offered[body] += 1
                    batch = waiting[body] != [body]
                    fields = remote.send_fields(TOPIC, queue, m="true" if batch else "false")
                    opaque = remote.put(BATCH if batch else SEND_V2, body, **fields)
                    names[opaque] = body, queue
                    open_.add(opaque)
                said = remote.answered()
                body, queue = names[said.opaque]  # an answer may come twice
                self._acknowledged(said, self.contents[body], queue)
                open_.discard(said.opaque)
                waiting.pop(body, None)

    def _acknowledged(self, said: Said, bodies: list[bytes], queue: int) -> None:
        assert said.code == SUCCESS and int(said.fields["queueId"]) == queue, said
        offset = int(said.fields["queueOffset"])
        self.receipts += [(Place(queue, offset + at), body) for at, body in enumerate(bodies)]


class Puller(threading.Thread):
    """Pulls a queue from this place on, as long as it wants more. found: the bodies."""

    def __init__(self, proxy: TearingProxy, kind: type[Remote], place: Place, wants: Callable[[Place], bool]) -> None:
        super().__init__(name=f"puller {place.queue}")
        self._proxy = proxy
        self._kind = kind
        self.place = place
        self._wants = wants  # what is at this place
        self.found: list[bytes] = []
        self.wrong: list[BaseException] = []
        self.again = 0

    def run(self) -> None:
        try:
            while self._wants(self._next()):
                try:
                    with self._kind(self._proxy.listens) as remote:
                        while self._wants(self._next()):
                            self._pull(remote)
                except TimeoutError:
                    raise
                except OSError:
                    self.again += 1
                    assert self.again < AGAIN_MAX, "it never gets through"
        except BaseException as error:
            self.wrong.append(error)

    def _next(self) -> Place:
        return Place(self.place.queue, self.place.offset + len(self.found))

    def _pull(self, remote: Remote) -> None:
        queue, offset = self._next()
        opaque = remote.put(PULL, **remote.pull_fields(TOPIC, queue, offset, suspend_ms=50))
        while (said := remote.answered()).opaque != opaque:  # an answer may come twice
            pass
        assert said.code in (SUCCESS, FOUND_NOTHING), said
        for data in records(said.body):
            read = records_on_disk.parse(data)
            assert isinstance(read, records_on_disk.Record)
            assert (read.queue_id, read.queue_offset) == (queue, offset), read
            self.found.append(bytes(read.body))
            offset += 1


class Rounds:
    """Rounds of clients behind the same gateway, which must not restart. stored: all that is in the log, by queue."""

    def __init__(self, broker: orbitmq.Broker, seed: int, count: int = 40, senders: int = 4) -> None:
        self._broker = broker
        self._seed = seed
        self._count = count
        self._senders = senders
        self._numbers = 0
        self.stored: list[list[bytes]] = [[] for _ in range(QUEUES)]
        self.told = Counter[str]()
        self.pid = actors(broker)["gateway"].pid
        self._descriptors = descriptors(self.pid)

    def __enter__(self) -> Rounds:
        self._consumer = self._broker.consumer(None, topics=[TOPIC], start="earliest")
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def run(self) -> None:
        """One more. Raises: AssertionError: a promise was broken."""
        seed, self._numbers = self._seed + self._numbers, self._numbers + 1
        begin = [Place(queue, len(found)) for queue, found in enumerate(self.stored)]
        sent = threading.Event()
        with TearingProxy(self._broker.status().listens, seed) as proxy:
            kinds = [Remote if number % 4 else Secure for number in range(self._senders)]
            senders = [Sender(proxy, kind, seed, f"{seed}-{number}", self._count) for number, kind in enumerate(kinds)]
            early = [Puller(proxy, Remote, place, lambda _: not sent.is_set()) for place in begin]
            for each in (*senders, *early):
                each.start()
            _join(senders)
            sent.set()
            _join(early)
            proxy.rest()
            self._read()
            reached = [Place(each.place.queue, each.place.offset + len(each.found)) for each in early]
            late = [Puller(proxy, Remote, place, lambda at: at.offset < len(self.stored[at.queue])) for place in reached]
            for puller in late:
                puller.start()
            _join(late)
            assert not proxy.failed, proxy.failed
        clients: list[Sender | Puller] = [*senders, *early, *late]
        for each in clients:
            assert not each.wrong, (each.name, each.wrong)
            self.told["connections again"] += each.again
        self._judge(begin, proxy, senders)
        for place, first, then in zip(begin, early, late, strict=True):
            assert first.found + then.found == self.stored[place.queue][place.offset :], place.queue
        self.told += proxy.told
        self._rest()

    def _read(self) -> None:
        """What was stored since the last round."""
        self._rest()
        with Remote(self._broker.status().listens) as remote:
            assert remote.send(TOPIC, BARRIER).code == SUCCESS  # stored behind all that came before it
        indexed(self._broker)
        known = next(found for found in self._broker.status().topics if found.name == TOPIC)
        while sum(map(len, self.stored)) < sum(queue.max_offset for queue in known.queues):
            batch = self._consumer.poll_batch(60, timeout=WATCHDOG_S)
            assert batch, "what is in the log cannot be read"
            for each in batch:
                assert each.offset == len(self.stored[each.queue])
                self.stored[each.queue].append(bytes(each))

    def _rest(self) -> None:
        """Raises: Stuck: the gateway keeps connections whose clients have gone."""
        until(lambda: descriptors(self.pid) <= self._descriptors, "the end of all connections")
        assert actors(self._broker)["gateway"].pid == self.pid, "the gateway has died"

    def _judge(self, begin: list[Place], proxy: TearingProxy, senders: list[Sender]) -> None:
        may, must = Counter[bytes](), set[bytes]()
        for sender in senders:
            for request, bodies in sender.contents.items():
                times = proxy.carried[request] or sender.offered[request]
                may.update(dict.fromkeys(bodies, times))
                must.update(bodies)
            for place, body in sender.receipts:
                assert self.stored[place.queue][place.offset] == body, (place, body[:20])
        found = Counter(body for place in begin for body in self.stored[place.queue][place.offset :] if body != BARRIER)
        assert not must - found.keys(), "an acknowledged message is not in the log"
        assert not found - may, "more is in the log than was sent"
        self.told["messages"] += len(must)
        self.told["stored again"] += found.total() - len(must)


def _join(threads: list[Sender] | list[Puller]) -> None:
    for each in threads:
        each.join(WATCHDOG_S)
        assert not each.is_alive(), f"{each.name} waits for ever"


def _entry(body: bytes) -> bytes:
    """A message in the body of a batch, without properties."""
    return b"".join(size.to_bytes(4, "big") for size in (22 + len(body), 0, 0, 0, len(body))) + body + bytes(2)


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, small_broker(Path(folder), **SETTINGS) as broker:
        broker.create_topic(TOPIC, QUEUES)
        began = time.monotonic()
        with Rounds(broker, chosen.seed) as rounds:
            for number in range(1, 1 + chosen.rounds):
                rounds.run()
                kept = f"{resident(rounds.pid) >> 10:,} KiB, {descriptors(rounds.pid)} descriptors"
                print(f"{number} rounds, {time.monotonic() - began:,.0f} s; {kept}; {dict(rounds.told)}", flush=True)


if __name__ == "__main__":
    main()
