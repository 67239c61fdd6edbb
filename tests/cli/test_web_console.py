"""Goal: the console shows a broker as `orbitmq status` and `orbitmq show` do. Method: the command as a process
(cli/web/command.py, cli/web/application.py), asked over HTTP, with a broker of the test's. What it asks (cli/web/query.py) and
gets (cli/web/link.py, cli/web/message_json.py) is compared with what was sent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.client.broker.broker import Broker
from tests.cli.commands import run
from tests.cli.conftest import MESSAGES
from tests.cli.served import Console
from tests.trees import small_broker
from tests.waiting import until

NAME = ("--name", "flows")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture
def console(flows: Broker) -> Iterator[Console]:
    with Console(*NAME) as served:
        yield served


def test_the_broker_as_status_shows_it(flows: Broker, console: Console) -> None:
    seen = console.json("status")
    told = json.loads(run("status", "--json", *NAME).stdout)
    assert seen["health"] == {"state": "ok", "reasons": []}
    steady = ("name", "state", "pid", "generation", "store", "version", "topics", "groups", "notes")
    assert {each: seen[each] for each in steady} == {each: told[each] for each in steady}
    assert {each["name"] for each in seen["actors"]} == {each["name"] for each in told["actors"]}
    assert seen["changes"] is False
    with flows.producer() as producer:

        def rates() -> object:
            producer.send_batch("flows", [b"more"] * 100)
            found = console.json("status")["rates"]
            return found if found and found["topics"]["flows"] > 0 else None

        assert until(rates)["groups"] == {}


def test_a_group(flows: Broker, console: Console) -> None:
    with flows.consumer("billing", topics=["flows"]) as consumer:
        taken = len(consumer.poll_batch(1000, timeout=None))
        consumer.commit()
        group = console.json("groups", "billing")
        assert sum(each["lag_messages"] for each in group["queues"]) == MESSAGES - taken
        assert [each["pid"] for each in group["members"]] == [os.getpid()]
    assert console.json("groups", "billing")["held_up"] == ["the group has no workers and no consumers now"]
    reply = console.get("groups", "absent")
    assert reply.code == 404 and reply.json["error"]["kind"] == "UnknownGroup"


def test_messages(flows: Broker, console: Console) -> None:
    """Goal: what a message holds comes whole, whatever it is. Method: hostile text, bytes that are no text, and much."""
    with flows.producer() as producer:
        properties = {"price": "7", HOSTILE: HOSTILE}
        odd = producer.send("flows", HOSTILE, tags="odd", keys=["k-1", "<b>"], properties=properties).id
        producer.send("flows", bytes(range(256)), tags="bytes")
        large = producer.send("flows", "€" * 30_000, tags="large").id

    def listed(**query: object) -> list[object]:
        found = console.json("topics", "flows", "messages", **query)
        return [each["body"]["text"] for each in found["messages"]]

    until(lambda: listed(tags="large"))
    assert listed(sql="price BETWEEN 6 AND 8") == listed(tags="odd") == [HOSTILE]
    assert listed(direction="newer", most=3) == ["0", "1", "2"]
    assert listed(tags="large") == ["€" * 80] and listed(tags="bytes") == [None]
    page = console.json("topics", "flows", "messages", most=2, queue=1)
    again = console.json("topics", "flows", "messages", most=2, queue=1, places=page["places"])
    offsets = [each["offset"] for each in page["messages"] + again["messages"]]
    assert offsets == list(range(offsets[0], offsets[0] - 4, -1)) and not page["whole"]
    (found,) = console.json("topics", "flows", "keys", key="<b>")["messages"]
    assert found["id"] == odd and found["keys"] == ["k-1", "<b>"]

    whole = console.json("messages", odd)
    assert whole["body"] == {"bytes": len(HOSTILE), "shown": len(HOSTILE), "text": HOSTILE, "hex": HOSTILE.encode().hex()}
    assert whole["properties"].items() >= properties.items()
    cut = console.json("messages", large)["body"]
    assert (cut["bytes"], cut["shown"]) == (90_000, 64 << 10) and set(cut["text"]) == {"€"}
    saved = console.get("messages", large, "body")
    assert saved.body.decode() == "€" * 30_000 and saved.headers["content-type"] == "application/octet-stream"
    assert saved.headers["content-disposition"] == f'attachment; filename="{large}.bin"'


def test_dead_letters(flows: Broker, console: Console) -> None:
    """Method: a worker gives up what it gets, and one letter is sent again."""
    flows.create_topic("letters", 1)
    with flows.producer() as producer:
        producer.send_batch("letters", [b"one", b"two", b"three"])
    with flows.work_session("desk", ["letters"], max_tries=1) as session:
        left = 3
        while left:
            for handed in session.take(3, None):
                session.nack(handed, 0.0, HOSTILE)
                left -= 1
        until(lambda: len(flows.dead_letters("desk").list()) == 3)
    (sent,) = flows.dead_letters("desk").redrive([1])
    found = console.json("dead-letters", "desk")
    assert [(each["body"]["text"], each["tries"], each["reason"]) for each in found["messages"]] == [
        (text, 1, HOSTILE) for text in ("three", "two", "one")
    ]
    assert [each["redriven"] for each in found["messages"]] == [None, sent.redriven, None] and found["whole"]
    assert {each["original_topic"] for each in found["messages"]} == {"letters"}
    (first,) = console.json("dead-letters", "desk", most=1, direction="newer")["messages"]
    assert first["body"]["text"] == "one"
    flows.consumer("empty", topics=["letters"]).close()
    assert console.json("dead-letters", "empty")["messages"] == []
    assert console.get("dead-letters", "absent").code == 404


REFUSED: list[tuple[tuple[str, ...], dict[str, str], int, str | None]] = [
    (("topics", "absent", "messages"), {}, 404, "UnknownTopic"),
    (("topics", HOSTILE, "messages"), {}, 404, None),
    (("topics", "<b>", "messages"), {}, 400, "TopicNameError"),
    (("topics", "flows", "messages"), {"sql": "price >"}, 400, "FilterError"),
    (("topics", "flows", "messages"), {"tags": "a ||"}, 400, "SettingError"),
    (("topics", "flows", "messages"), {"most": "501"}, 400, "SettingError"),
    (("topics", "flows", "messages"), {"most": "-1"}, 400, "SettingError"),
    (("topics", "flows", "messages"), {"direction": "sideways"}, 400, "SettingError"),
    (("topics", "flows", "messages"), {"mst": "5"}, 400, "SettingError"),
    (("topics", "flows", "keys"), {"key": "k", "most": "5"}, 400, "SettingError"),
    (("topics", "flows", "messages"), {"queue": "4"}, 404, "UnknownQueue"),
    (("topics", "flows", "messages"), {"since_ms": "9" * 20}, 400, "SettingError"),
    (("topics", "flows", "messages"), {"places": "0:"}, 400, "SettingError"),
    (("topics", "flows", "messages"), {"places": "0:1:2,<b>"}, 400, "SettingError"),
    (("messages", "no-id"), {}, 400, "UsageError"),
    (("messages", "F" * 32), {}, 400, "UsageError"),
    (("nothing",), {}, 404, None),
]


def test_what_cannot_be_shown(console: Console) -> None:
    for path, query, code, kind in REFUSED:
        reply = console.get(*path, **query)
        assert reply.code == code and reply.headers["content-type"] == "application/json", (path, query, reply)
        assert reply.json["error"]["message"] and reply.json["error"].get("kind") == kind, (path, query, reply)


def test_no_broker(flows: Broker, console: Console, tmp_path: Path) -> None:
    """Goal: the console outlives its broker, says that it is gone, and shows the next one."""
    assert console.json("status")["health"]["state"] == "ok"
    flows.close()
    for text in ("status", "groups/billing", "topics/flows/messages", f"messages/{'F' * 32}", "dead-letters/desk"):
        path = text.split("/")
        reply = until(lambda path=path: found if (found := console.get(*path)).code != 200 else None)
        assert reply.code == 503 and reply.json["error"]["kind"] in ("BrokerNotRunning", "BrokerStopped"), path
    assert console.request("GET", "/").code == 200
    with Broker(tmp_path / "store", name="flows") as again:
        seen = until(lambda: found if (found := console.get("status")).code == 200 else None).json
        assert seen["pid"] == again.status().pid and seen["rates"] is None
        assert console.json("topics", "flows", "messages", most=1)["messages"]
    assert console.interrupt()[0] == 0


def test_a_console_before_its_broker(tmp_path: Path) -> None:
    with Console("--store", str(tmp_path / "store")) as console:
        assert console.get("status").code == 503
        with small_broker(tmp_path / "store", name="later"):
            assert console.json("status")["name"] == "later"


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("console", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1 and "could not listen at 127.0.0.1:" in done.stderr and not done.stdout


@pytest.mark.parametrize("wrong", ["", "8480x", "[::1:8480", ":8480", "host:99999"])
def test_an_address_that_is_none(wrong: str) -> None:
    assert run("console", "--listen", wrong).returncode == 2


def test_a_console_for_other_machines(tmp_path: Path) -> None:
    """Goal: whoever lets others connect is told that nothing is encrypted."""
    with Console("--name", "absent", "--listen", "0.0.0.0:0") as console:
        assert console.get("status").code == 503
        _, _, complaint = console.interrupt()
    assert "not encrypted" in complaint
    with Console("--name", "absent") as console:
        assert console.interrupt() == (0, "", "")


WITHOUT = """
import sys
sys.modules[sys.argv.pop()] = None
from orbitmq.cli.__main__ import main
main()
"""


@pytest.mark.parametrize("library", ["starlette", "uvicorn"])
def test_without_the_extra(library: str) -> None:
    """Method: None in sys.modules stands for a module that cannot be found."""
    done = subprocess.run([sys.executable, "-c", WITHOUT, "console", library], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"it needs {library}, which is not installed" in done.stderr
    assert "pip install 'orbitmq[console]'" in done.stderr and "Traceback" not in done.stderr


def test_a_coordinator_that_hangs(flows: Broker, console: Console) -> None:
    """Goal: messages can be read while nobody answers questions, and the console says what does not answer."""
    (pid,) = (each.pid for each in flows.status().actors if each.name == "coordinator")
    assert console.json("topics", "flows", "messages", most=1)["messages"]
    os.kill(pid, signal.SIGSTOP)
    try:
        reply = console.get("status")
        assert reply.code == 503 and reply.json["error"]["kind"] == "TimedOut"
        assert len(console.json("topics", "flows", "messages", most=7)["messages"]) == 7
    finally:
        os.kill(pid, signal.SIGCONT)
    assert until(lambda: console.get("status").code == 200)
