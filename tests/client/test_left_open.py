"""Goal: forgetting to close a client, producer, consumer or embedded broker warns, and nothing else does. Method: separate
programs, run with all warnings on, that drop what they have made, or close it, or end. Of client/broker/broker.py."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.shm import runtime
from tests.trees import SMALL, small_broker
from tests.waiting import until

BEGIN = """
import gc, orbitmq, os, sys
broker, client = None, orbitmq.connect({name!r})
"""


def told(program: str, *options: str) -> list[str]:
    """What a program's warnings say about OrbitMQ's objects; the program must print nothing else."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "always::ResourceWarning", *options, "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = re.findall(r"ResourceWarning: (?!Enable tracemalloc)(.*)", done.stderr)
    assert not re.search(r"Traceback|Exception ignored", done.stderr), done.stderr
    return [re.sub(r"pid \d+", "pid", each) for each in found]


@pytest.fixture(scope="module")
def name(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with small_broker(tmp_path_factory.mktemp("left") / "store", name="left-open") as broker:
        broker.create_topic("orders")
        yield broker.name


HOW = "; close it, or use it in a with statement"
CLIENT = "unclosed <Client of the broker 'left-open', open>" + HOW
PRODUCER = "unclosed <Producer of the broker 'left-open', open>" + HOW
CONSUMER = "unclosed <Consumer of the broker 'left-open', no group, topics 'orders', open>" + HOW
MEMBER = "unclosed <Consumer of the broker 'left-open', group 'g', topics 'orders', open>" + HOW
SESSION = "unclosed <WorkSession of the broker 'left-open', group 'w', topics 'orders', open>" + HOW
WORKER = "unclosed <Worker of the group 'w', topics 'orders', open>" + HOW


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("del client; gc.collect()", [CLIENT]),
        ("client.producer(); gc.collect(); client.close()", [PRODUCER]),
        ("client.consumer(topics=['orders']); gc.collect(); client.close()", [CONSUMER]),
        ("client.consumer('g', ['orders']); gc.collect(); client.close()", [MEMBER]),
        ("p = client.producer(); p.p = p; del p; gc.collect(); client.close()", [PRODUCER]),  # in a cycle
        ("client.work_session('w', ['orders']); gc.collect(); client.close()", [SESSION]),
        ("client.worker('w', ['orders']); gc.collect(); client.close()", [WORKER]),  # and not about its session
        # No warning about: what was closed, by itself, by its client or by `with`;
        ("p = client.producer(); p.close(); c = client.consumer(topics=['orders']); c.close(); client.close()", []),
        ("p, c = client.producer(), client.consumer(topics=['orders']); client.close()", []),
        ("with client, client.producer() as p, client.consumer('g', ['orders']) as c: p.send('orders', b'x')", []),
        ("w = client.work_session('w', ['orders']); w.close(); del w; client.work_session('w', ['orders']).close()\n"
         "v = client.work_session('w', ['orders']); client.close()", []),
        ("with client, client.work_session('w', ['orders']) as w: w.take(1, 0)", []),
        # what could not be made;
        ("client.close()\ntry: orbitmq.connect('nobody')\nexcept orbitmq.errors.BrokerNotRunning: pass", []),
        ("with client:\n try: client.producer(window=0)\n except ValueError: pass\n try: client.consumer('g', [])\n"
         " except ValueError: pass\n try: client.work_session('w', ['nothing'])\n except ValueError: pass\n"
         " try: client.work_session('w', ['orders'], in_hand=0)\n except ValueError: pass", []),
        # what is open when the program ends;
        ("p, c = client.producer(), client.consumer('g', ['orders'])", []),
        ("w = client.work_session('w', ['orders'])", []),
        # a parent's, in a forked child that drops it.
        ("p, c = client.producer(), client.consumer(topics=['orders'])\n"
         "w = client.work_session('w', ['orders'])\nif os.fork() == 0:\n del client, p, c, w; gc.collect()\n"
         " os._exit(0)\nos.wait(); client.close()", []),
    ],
)  # fmt: skip
def test_clients(name: str, program: str, expected: list[str]) -> None:
    assert told(BEGIN.format(name=name) + program + "\ngc.collect()") == expected


def test_asyncio(name: str) -> None:
    """Goal: what asyncio programs leave open is reported under the names of the underlying objects, once each."""
    program = f"""
import asyncio, gc, orbitmq

async def main(close):
    client = await orbitmq.aio.connect({name!r})
    producer, consumer = await client.producer(), await client.consumer(topics=["orders"])
    if close:
        await client.close()

asyncio.run(main(True))
gc.collect()
print("closed", flush=True)
asyncio.run(main(False))
gc.collect()
"""
    assert sorted(told(program)) == sorted([CLIENT, PRODUCER, CONSUMER])


def test_an_error_of_the_warning_ends_nothing_else(name: str) -> None:
    """Goal: with -W error the session is still given back. Method: the broker's list of sessions afterwards."""
    program = f"""
import gc, os, sys, orbitmq
seen = []
sys.unraisablehook = lambda what: seen.append(type(what.exc_value))
mine = lambda: [each for each in client.status().sessions if each.pid == os.getpid() and not each.closing]
with orbitmq.connect({name!r}) as client:
    before = len(mine())
    client.producer(), client.consumer(topics=["orders"]), client.consumer("g", ["orders"])
    client.work_session("w", ["orders"])
    gc.collect()
    assert len(mine()) == before
assert seen == [ResourceWarning] * 4, seen
"""
    assert told(program, "-W", "error::ResourceWarning") == []


@pytest.mark.parametrize(("end", "expected"), [("broker.close()", 0), ("del broker; gc.collect()", 1), ("", 0)])
def test_brokers(tmp_path: Path, end: str, expected: int) -> None:
    """Goal: an embedded broker that is dropped is reported once, and not also by subprocess. A broker that is open when the
    program ends stops with it."""
    options = {**SMALL, "name": "left"}
    found = told(f"import gc, orbitmq\nbroker = orbitmq.Broker({str(tmp_path / 'store')!r}, **{options!r})\n{end}")
    assert found == ["unclosed <Broker 'left', pid, open>" + HOW] * expected
    until(lambda: (seen := runtime.read_description("left")) is None or not runtime.lives(seen), "the tree to stop")
