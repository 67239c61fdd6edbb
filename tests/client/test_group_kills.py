"""Goal: a group of consumers gets every message at least once, and no message is stored twice or lost, while each
actor of the tree is killed under load. Method: producers and consumers in processes of their own, numbered messages,
exact accounts at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import orbitmq
from tests.trees import actors, kill, small_broker
from tests.waiting import until

PRODUCERS = 2
CONSUMERS = 3
BATCH = 100

PRODUCE = """
import orbitmq, select, sys
name, who = sys.argv[1], int(sys.argv[2])
client = orbitmq.connect(name, timeout=240)
producer = client.producer(message_max=4096)
sent = 0
# Goes on until the test closes its input.
while not select.select([sys.stdin], [], [], 0)[0]:
    producer.send_batch("load", [b"%d:%d" % (who, sent + each) for each in range(100)])
    sent += 100
client.close()
print(sent)
"""

CONSUME = """
import json, orbitmq, select, sys
from orbitmq import errors
client = orbitmq.connect(sys.argv[1], timeout=240)
consumer = client.consumer("group", ["load"])
print("ready", flush=True)
got = {}
while True:
    bodies = consumer.poll_bodies(1000, 1.0)
    for body in bodies:
        who, number = body.split(b":")
        got.setdefault(int(who), []).append(int(number))
    try:
        consumer.commit()
    except errors.Fenced:
        pass
    # The test closes the input when nothing more will come; then it is over when the group has everything.
    over = select.select([sys.stdin], [], [], 0)[0]
    if over and not bodies and not client.status().groups[0].lag_messages:
        break
print(json.dumps(got))
"""


def start(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def kill_each(broker: orbitmq.Broker) -> None:
    for name in ("writer", "coordinator", "handler 0", "reput", "notifier", "flush", "handler 1", "writer"):
        before = kill(broker, name)
        until(lambda: (seen := actors(broker)[name]).epoch > before.epoch and seen.state == "running", name)
        first = actors(broker)["writer"].counters["messages"]
        # The successor must carry load before the next one dies.
        until(lambda: actors(broker)["writer"].counters["messages"] > first, "messages to be written again")


def test_every_message_once_stored_and_consumed(tmp_path: Path) -> None:
    with small_broker(tmp_path, log_file_size=1 << 22, queue_file_units=20_000, index_entries=100_000) as broker:
        broker.create_topic("load", 6)
        consumers = [start(CONSUME, broker.name) for _ in range(CONSUMERS)]
        producers = [start(PRODUCE, broker.name, str(who)) for who in range(PRODUCERS)]
        try:
            for consumer in consumers:
                assert consumer.stdout is not None
                assert consumer.stdout.readline() == b"ready\n"
            kill_each(broker)
            sent = {who: int(producer.communicate()[0]) for who, producer in enumerate(producers)}
            for consumer in consumers:
                assert consumer.stdin is not None
                consumer.stdin.close()
                consumer.stdin = None
            results = [json.loads(consumer.communicate()[0]) for consumer in consumers]
        finally:
            for process in [*producers, *consumers]:
                process.kill()
                process.wait()
        stored = sum(queue.max_offset - queue.min_offset for topic in broker.status().topics for queue in topic.queues)
        assert stored == sum(sent.values()), "acknowledged and stored are the same messages"
        for who, count in sent.items():
            numbers = [number for result in results for number in result.get(str(who), [])]
            assert set(numbers) == set(range(count)), "everything was consumed"
        assert broker.status().groups[0].lag_messages == 0
