"""What happens in a file system of a few MiB, mounted for one process: `small_disk.py DEED FOLDER RUNTIME_FOLDER`, run by
test_small_disk.py."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import orbitmq
from orbitmq import errors
from orbitmq.client.work.session import WorkSession
from tests.trees import actors, indexed, kill, small_broker
from tests.waiting import dead, until

BODY = bytes(1000)


def fill(path: Path) -> None:
    """Takes all the free space."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def send_until_refused(producer: orbitmq.Producer) -> tuple[int, errors.StoreFull]:
    sent = 0
    while True:
        try:
            producer.send("orders", BODY)
        except errors.StoreFull as error:
            return sent, error
        sent += 1


def sends(producer: orbitmq.Producer) -> bool:
    try:
        producer.send("orders", BODY)
    except errors.StoreFull:
        return False
    return True


def read(consumer: orbitmq.Consumer, count: int) -> None:
    """This many messages and no more."""
    got = 0
    while got < count:
        came = len(consumer.poll_batch(1000, timeout=240))
        assert came, (got, count, consumer.lag())
        got += came
    assert got == count and not any(consumer.lag().values()), (got, count, consumer.lag())


def log_fills_disk(disk: Path) -> None:
    """The log itself takes the last room; twice, with room made between."""
    spare = [disk / "spare-0", disk / "spare-1"]
    for path in spare:
        path.write_bytes(bytes(3 << 20))
    with small_broker(disk / "store") as broker:
        broker.create_topic("orders", 2)
        with broker.producer() as producer, broker.consumer("g", topics=["orders"], start="earliest") as consumer:
            for path in spare:
                sent, error = send_until_refused(producer)
                assert sent > 1000
                assert error.values["mount"] == str(disk) and error.values["need"] == 1 << 20 and "make room on" in error.hint
                read(consumer, sent)
                path.unlink()
                until(lambda: sends(producer), "sends to go on")
                read(consumer, 1)
                consumer.commit()


def others_fill_disk(disk: Path) -> None:
    """Something else takes all the room: messages are accepted while the log has its file, queues wait, the rest is refused."""
    with small_broker(disk / "store", log_file_size=4 << 20) as broker:
        broker.create_topic("orders", 2)
        with broker.producer() as producer, broker.consumer("g", topics=["orders"], start="earliest") as consumer:
            producer.send("orders", BODY)
            read(consumer, 1)
            pids = {name: actor.pid for name, actor in actors(broker).items()}
            fill(disk / "filler")
            for _ in range(3000):  # more than the existing files of the queues hold
                producer.send("orders", BODY)
            producer.send("orders", BODY, durability="flushed")
            try:
                broker.create_topic("more", 1)
            except errors.StoreFull as error:
                assert error.values["mount"] == str(disk)
                assert "more" in error.message and "log_file_size" not in error.hint, error
            else:
                raise AssertionError("made a topic without room for it")
            try:
                broker.create_topic("orders", 3, retention_hours=1)
            except errors.StoreFull:
                pass
            else:
                raise AssertionError("changed a topic without room for it")
            ((name, queues, hours),) = [(topic.name, topic.queues, topic.retention_hours) for topic in broker.topics()]
            assert (name, queues, hours) == ("orders", 2, None), "what failed was not done"
            assert [path.name for path in (disk / "store/config").glob("topics*.tmp")] == []
            until(lambda: broker.status().positions.reput_error, "reput to say what it lacks")
            (disk / "filler").unlink()
            read(consumer, 3001)
            until(lambda: not broker.status().positions.reput_error, "reput's word to go")
            broker.create_topic("more", 1)
            assert {name: actor.pid for name, actor in actors(broker).items()} == pids, "nobody died of it"


def open_worker(broker: orbitmq.Client) -> WorkSession:
    """What it takes stays in its hands, however long the disk takes to fill."""
    return broker.work_session("g", ["orders"], in_hand=2000, max_tries=1, visibility=3600)


def failures_on_full_disk(disk: Path) -> None:
    """What fails while the log takes nothing waits, and holds up no other answer; not even the death of the dispatcher puts it
    into the log twice."""
    with small_broker(disk / "store", name="full", offsets_interval_s=3600) as broker:
        broker.create_topic("orders", 1)
        with broker.producer() as producer, open_worker(broker) as worker:
            producer.send_batch("orders", [b"%d" % number for number in range(400)])
            mine = []
            while len(mine) < 400:
                mine += worker.take(100, 240)  # what there is, which may be less
            worker.nack(mine[0], reason="0")  # the group's topics are there
            until(lambda: broker.dead_letter_groups() == ["g"] and broker.dead_letters("g").list(), "the first dead letter")
            fill(disk / "filler")
            send_until_refused(producer)
            for number in range(1, 300):
                worker.nack(mine[number], reason=str(number))
            worker.ack(mine[300:])
            assert worker.settled(240) == []
            assert len(broker.dead_letters("g").list()) < 300
            assert broker.delayed() == broker.open_transactions() == [], "what there is, as reput says why it cannot go on"
            with orbitmq.connect(broker.name) as hurried:
                hurried.connection.timeout = 0.05
                try:
                    hurried.find("orders", "o-1")
                except errors.TimedOut as error:
                    assert "No space left on device" in error.message, error
                else:
                    raise AssertionError("a message that was just acknowledged may have this key")
            kill(broker, "dispatcher")
            (disk / "filler").unlink()
            until(lambda: len(broker.dead_letters("g").list()) >= 300, "the dead letters")
            found = {letter.body: letter.reason for letter in broker.dead_letters("g").list()}
            assert found.keys() == {b"%d" % number for number in range(300)}
            assert sum(reason == body.decode() for body, reason in found.items()) > 256
            assert set(found.values()) - {""} <= {str(number) for number in range(300)}
            assert len(broker.dead_letters("g").list()) == 300


def members_on_full_disk(disk: Path) -> None:
    """Members continue to commit, even when others leave and the coordinator or the whole tree dies. A consumer that wants to
    become a member is told what is missing."""
    broker = small_broker(disk / "store", name="full", offsets_interval_s=3600, log_file_size=4 << 20)
    with broker as first:
        first.create_topic("orders", 2)
        with first.producer() as producer:
            producer.send_batch("orders", [BODY] * 20, queue=0)
        consumer, leaver = (first.consumer("g", topics=["orders"]) for _ in range(2))
        consumer.settle()
        fill(disk / "filler")
        try:
            first.consumer("newcomers", topics=["orders"])
        except errors.StoreFull as error:
            assert error.values["mount"] == str(disk), error
            assert "for the commits of the group 'newcomers'" in error.message and "make room on" in (error.hint or ""), error
        else:
            raise AssertionError("joined without room for its commits")
        assert [group.name for group in first.status().groups] == ["g"]
        leaver.close()
        until(lambda: len(consumer.position()) == 2, "both queues")
        kill(first, "coordinator")
        read(consumer, 20)
        consumer.commit()
        os.kill(first.pid, signal.SIGKILL)
        until(lambda: dead(first.pid), "the tree's end")
        (disk / "filler").unlink()
        with small_broker(disk / "store", name="full", log_file_size=4 << 20) as second:
            again = second.consumer("g", topics=["orders"])
            assert again.position()["orders", 0] == 20, again.position()


def told_to_scripts(disk: Path) -> None:
    """What a script that looks after a broker uses: exit code and health of `orbitmq status`, before, while and after something
    else takes all the room; and how many lines `orbitmq send` has stored."""
    up = ["up", "-s", f"{disk}/store", "-d", "--log-file-size", "1M", "--handlers", "1"]
    sizes = ["index_slots=1000", "index_entries=4000", "queue_file_units=1000", "lane_capacity=262144"]
    orbit(0, *up, *(part for each in sizes for part in ("--set", each)))
    try:
        orbit(0, "topic", "create", "orders", "--queues", "1")
        assert orbit(0, "status").startswith("health ok\n")
        fill(disk / "filler")
        sent, refused = 0, False
        while not refused:
            stored, refused = send_lines(900)
            sent += stored
        told = orbit(5, "status")
        assert told.startswith("health refusing: no next log file can be made: No space left on device"), told
        assert "no file to go on in: No space left on device" in told
        content = json.loads(orbit(5, "status", "--json"))
        assert content["state"] == "running" and content["health"] == told.splitlines()[0].removeprefix("health "), content
        said = orbit(1, "health")
        assert said.startswith("refusing\nno next log file can be made: No space left on device\n"), said
        assert orbit(1, "health", "--ready") == said == orbit(0, "health", "--live"), "a restart makes no room"
        assert 'orbitmq_health{state="refusing"} 1.0\n' in orbit(0, "metrics")
        with orbitmq.connect() as client:
            assert (client.status().health.state, str(client.status().health)) == ("refusing", content["health"])
        (disk / "filler").unlink()
        until(lambda: command("status").returncode == 0, "all to be well")
        assert orbit(0, "health") == "ok\n"
        said = orbit(0, "send", "orders", "x")
        assert said.partition("  ")[2].startswith(f"orders/0@{sent}  "), (said, sent)
        with orbitmq.connect() as client:
            indexed(client)
        assert len(orbit(0, "tail", "orders", "--from", "earliest", "--no-follow").splitlines()) == sent + 1
    finally:
        orbit(0, "down")


def send_lines(count: int) -> tuple[int, bool]:
    """How many of these lines the command reports as stored, and whether the rest was refused."""
    done = command("send", "orders", "-", "--lines", feed=("x" * 1000 + "\n") * count)
    if done.returncode == 0:
        return count, False
    assert done.returncode == 1 and f"the first 0 of {count} messages are stored, and" in done.stderr, done
    assert "make room on" in done.stderr, done
    behind = re.search(rf"and ([\d,]+) of the {count} behind them", done.stderr)
    assert behind is not None, done
    return int(behind[1]), True


def command(*arguments: str, feed: str = "") -> subprocess.CompletedProcess[str]:
    wanted = [sys.executable, "-m", "orbitmq.cli", *arguments]
    done = subprocess.run(wanted, input=feed, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"})
    assert "Traceback" not in done.stderr, done.stderr
    return done


def orbit(code: int, *arguments: str) -> str:
    """The output of the command, which ends with this code."""
    done = command(*arguments)
    assert done.returncode == code, done
    return done.stdout


def mounted_read_only(disk: Path) -> None:
    """No broker runs there, and says why; the files can be read without one."""
    with small_broker(disk / "store") as broker:
        broker.create_topic("orders", 1)
        with broker.producer() as producer:
            producer.send("orders", BODY)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        with small_broker(disk / "store"):
            raise AssertionError("started where nothing can be written")
    except errors.StoreUnsupported as error:
        assert "Read-only file system" in error.message and "writable" in error.hint, error
    verify = [sys.executable, "-m", "orbitmq.cli.main", "verify", "--store", str(disk / "store")]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    with small_broker(disk / "store") as broker, broker.consumer(None, topics=["orders"], start="earliest") as consumer:
        read(consumer, 1)


_ALL = (log_fills_disk, others_fill_disk, failures_on_full_disk, members_on_full_disk, told_to_scripts, mounted_read_only)
DEEDS = {deed.__name__: deed for deed in _ALL}

if __name__ == "__main__":
    os.environ["ORBITMQ_RUNTIME_DIR"] = sys.argv[3]
    DEEDS[sys.argv[1]](Path(sys.argv[2]))
