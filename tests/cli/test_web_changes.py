"""Goal: who may change a broker through the console can do it, with the errors that the library raises, and nobody else.
Method: the command as a process, asked over HTTP; what has changed is looked up with the library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from orbitmq.client.broker.broker import Broker
from tests.cli.conftest import MESSAGES
from tests.cli.served import Console, Reply
from tests.waiting import until

HEADERS = {"Content-Type": "application/json"}


@pytest.fixture
def console(flows: Broker) -> Iterator[Console]:
    with Console("--name", "flows", "--allow-changes") as served:
        yield served


def change(console: Console, method: str, path: str, content: Any = None, **headers: str) -> Reply:
    given = HEADERS | {"Authorization": f"Bearer {console.token}"} | headers
    return console.request(method, f"/api/{path}", given, {} if content is None else content)


def lag(broker: Broker) -> int:
    return broker.group("billing").lag_messages


def test_a_reset(flows: Broker, console: Console) -> None:
    with flows.consumer("billing", topics=["flows"]) as consumer:
        while consumer.poll_batch(1000, timeout=0):
            pass
        consumer.commit()
    assert lag(flows) == 0 and console.json("status")["changes"] is True
    tried = change(console, "POST", "groups/billing/reset", {"to": "earliest", "dry_run": True})
    assert tried.code == 200 and lag(flows) == 0
    done = change(console, "POST", "groups/billing/reset", {"to": "earliest", "topic": None, "queue": None})
    assert done.json == tried.json and lag(flows) == MESSAGES
    assert done.json["moves"] == [{"topic": "flows", "queue": at, "before": MESSAGES // 4, "after": 0} for at in range(4)]
    assert change(console, "POST", "groups/billing/reset", {"to": "+10", "topic": "flows", "queue": 2}).code == 200
    assert lag(flows) == MESSAGES - 10


def test_a_redrive(flows: Broker, console: Console) -> None:
    """Method: three letters, one sent again, then the others, then none."""
    flows.create_topic("letters", 1)
    with flows.producer() as producer:
        producer.send_batch("letters", [b"one", b"two", b"three"])
    with flows.work_session("desk", ["letters"], max_tries=1) as session:
        left = 3
        while left:
            for handed in session.take(3, None):
                session.nack(handed, 0.0, "no")
                left -= 1
        until(lambda: len(flows.dead_letters("desk").list()) == 3)

    def sent(content: dict[str, Any]) -> list[str]:
        reply = change(console, "POST", "dead-letters/desk/redrive", content)
        assert reply.code == 200, reply
        # a message is found by its id when reput has passed it
        until(lambda: (seen := flows.status().positions).reput == seen.wrote)
        assert all(flows.message(each["redriven"]).topic == "letters" for each in reply.json["sent"])
        return [each["body"]["text"] for each in reply.json["sent"]]

    assert sent({"offsets": []}) == []
    assert sent({"offsets": [1]}) == ["two"] and sent({"offsets": [1]}) == []
    assert sent({}) == ["one", "three"] and sent({}) == []
    assert not flows.dead_letters("desk").list()


def test_a_deletion(flows: Broker, console: Console) -> None:
    assert change(console, "DELETE", "topics/flows").json == {"deleted": "flows"}
    assert "flows" not in [each.name for each in flows.topics()]
    assert change(console, "DELETE", "topics/flows").code == 404


@pytest.fixture(scope="module")
def alone() -> Iterator[Console]:
    """Of a broker that does not run."""
    with Console("--name", "absent", "--allow-changes", "--host", "console.example") as served:
        yield served


REFUSED: list[tuple[str, str, Any, int, str | None]] = [
    ("POST", "groups/absent/reset", {"to": "earliest"}, 404, "UnknownGroup"),
    ("POST", "groups/billing/reset", {}, 400, "SettingError"),
    ("POST", "groups/billing/reset", {"to": "sideways"}, 400, "SettingError"),
    ("POST", "groups/billing/reset", {"to": ["earliest"]}, 400, "SettingError"),
    ("POST", "groups/billing/reset", {"to": "earliest", "dry_run": "yes"}, 400, "SettingError"),
    ("POST", "groups/billing/reset", {"to": "earliest", "queue": "0"}, 400, "SettingError"),
    ("POST", "groups/billing/reset", {"to": "earliest", "topic": "absent"}, 404, "UnknownTopic"),
    ("POST", "groups/billing/reset", {"to": "earliest", "topics": "flows"}, 400, "SettingError"),
    ("POST", "groups/billing/reset", ["earliest"], 400, "SettingError"),
    ("POST", "dead-letters/absent/redrive", {}, 404, "UnknownGroup"),
    ("POST", "dead-letters/billing/redrive", {"offsets": [7]}, 400, "OffsetOutOfRange"),
    ("POST", "dead-letters/billing/redrive", {"offsets": 7}, 400, "SettingError"),
    ("POST", "dead-letters/billing/redrive", {"offsets": "all"}, 400, "SettingError"),
    ("DELETE", "topics/absent", {}, 404, "UnknownTopic"),
    ("DELETE", "topics/flows", {"force": True}, 400, "SettingError"),
    ("GET", "topics/flows", {}, 405, None),
    ("POST", "topics/flows", {}, 405, None),
    ("POST", "nothing", {}, 404, None),
]


def test_what_cannot_be_changed(flows: Broker, console: Console) -> None:
    flows.consumer("billing", topics=["flows"]).close()
    before = flows.topics(), flows.groups()
    for method, path, content, code, kind in REFUSED:
        reply = change(console, method, path, content)
        assert (reply.code, reply.json["error"].get("kind")) == (code, kind), (method, path, content, reply)
    assert change(console, "POST", "groups/billing/reset", {"to": "x" * (1 << 20)}).code == 413
    assert (flows.topics(), flows.groups()) == before


def test_a_console_that_only_reads(flows: Broker) -> None:
    with Console("--name", "flows") as console:
        reply = change(console, "DELETE", "topics/flows")
        assert reply.code == 403 and reply.json["error"]["option"] == "allow-changes"
        assert [each.name for each in flows.topics()] == ["flows"]


CHANGES = (("DELETE", "topics/flows"), ("POST", "groups/billing/reset"), ("POST", "dead-letters/desk/redrive"))


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_changes_of_strangers(alone: Console, method: str, path: str) -> None:
    """Goal: no change without the token, under another name, or from a page of another site, even one that knows the token: a
    browser that holds it in a form or a cookie is of no use to that site (CSRF)."""
    assert change(alone, method, path, {"to": "latest"} if path.endswith("reset") else {}).code == 503, "it is only the broker"
    for value in ("", "Bearer ", f"Bearer {alone.token}x", f"Basic {alone.token}"):
        assert change(alone, method, path, Authorization=value).code == 401
    form = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": f"token={alone.token}"}
    assert alone.request(method, f"/api/{path}", form, {"token": alone.token}).code == 401
    assert alone.request(method, f"/api/{path}", host="evil.example").code == 421
    origins = ("https://evil.example", f"http://evil.example:{alone.port}", "null", "", "http://127.0.0.1:1", "http://localhost")
    for origin in origins:
        assert change(alone, method, path, Origin=origin).code == 403, origin
    for origin in (f"http://127.0.0.1:{alone.port}", "https://console.example", "https://console.example:8443"):
        assert change(alone, method, path, {"to": 1} if path.endswith("reset") else {}, Origin=origin).code == 503, origin
    preflight = alone.request("OPTIONS", f"/api/{path}", {"Origin": "https://evil.example"})
    assert preflight.code == 401 and not [name for name in preflight.headers if name.startswith("access-control")]
