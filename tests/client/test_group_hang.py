"""Goal: a member that hangs does not keep its queues, and is fenced when it continues; a member that waits for messages does
not hang. Method: a real broker, a member process that is stopped with SIGSTOP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import orbitmq
from tests.trees import kill, small_broker
from tests.waiting import until

MEMBER = """
import orbitmq, select, sys
from orbitmq import errors
client = orbitmq.connect(sys.argv[1], timeout=30)
lost = []
consumer = client.consumer("g", ["t"], max_poll_interval=3.0, on_lost=lambda consumer, queues: lost.extend(queues))
while len(consumer.assignment) < 2:
    consumer.wait(0.05)
print("joined", flush=True)
read = 0
while read < 2:
    read += len(consumer.poll_bodies(1, 30))
lost.clear()  # a slow machine may have left it behind before
print("read", flush=True)
sys.stdin.readline()  # stopped here, as if it worked on them
try:
    consumer.commit()
    print("committed", flush=True)
except errors.Fenced:
    print("fenced", flush=True)
while len(consumer.assignment) < 2:
    consumer.wait(0.05)
print("again", len(lost), flush=True)
while not select.select([sys.stdin], [], [], 0.05)[0]:
    consumer.wait(0)
"""


def test_a_stopped_member_is_left_behind(tmp_path: Path) -> None:
    """Its queues go to the other member, which gets its messages. The coordinator dies in between and forgets nothing."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 4)
        mine = broker.consumer("g", ["t"])  # its own limit is longer than any pause of a busy machine
        process = subprocess.Popen(
            [sys.executable, "-c", MEMBER, broker.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None and process.stdin is not None
        try:
            until(lambda: mine.settle() or len(mine.assignment) == 2, "the member to join")
            assert process.stdout.readline() == "joined\n"
            broker.producer(message_max=4096).send_batch("t", [b"%d" % number for number in range(40)])
            got: list[bytes] = []
            while len(got) < 20:
                got += mine.poll_bodies(100, 5)
            assert process.stdout.readline() == "read\n"
            os.kill(process.pid, signal.SIGSTOP)
            kill(broker, "coordinator")
            until(lambda: mine.settle() or len(mine.assignment) == 4, "its queues")
            mine.seek_to_time(0)
            got = []
            while len(got) < 40:
                got += mine.poll_bodies(100, 5)
            mine.commit()
            os.kill(process.pid, signal.SIGCONT)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "fenced\n"
            until(lambda: mine.settle() or len(mine.assignment) == 2, "the member to come back")
            word, count = process.stdout.readline().split()
            assert word == "again" and int(count) >= 2  # more if it stood still once more
            assert broker.status().groups[0].lag_messages == 0
        finally:
            process.kill()
            process.communicate()


def test_a_member_that_waits_stays(tmp_path: Path) -> None:
    """It waits in one call for three times as long as it may make no call."""
    with small_broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        waiting = broker.consumer("g", ["t"], max_poll_interval=3.0)
        assert waiting.poll(9.0) is None
        assert waiting.rebalances == 0
        assert orbitmq.connect(broker.name).status().groups[0].members[0].pid == os.getpid()
