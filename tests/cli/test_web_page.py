"""Goal: the console's pages show what the broker holds, and text stays text, however hostile it is. Method: Chromium draws
them, and what it has drawn is compared."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.client.broker import Broker
from tests.cli.chromium import elements_of, needs_chromium, page, text_of
from tests.cli.conftest import MESSAGES
from tests.cli.served import Console
from tests.waiting import until

pytestmark = [needs_chromium, pytest.mark.xdist_group("chromium")]
HOSTILE = "</pre></script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"><svg onload=1>"
OURS = (
    "html head meta title link script body header a nav span div main h1 h2 small p table thead tbody tr th td dl dt dd form"
    " input select option button ol ul li code details summary section pre noscript strong label"
)


@pytest.fixture
def console(flows: Broker) -> Iterator[Console]:
    with Console("--name", "flows") as served:
        yield served


def shown(console: Console, folder: Path, *parts: str) -> str:
    """The text of a page. Everything in it is an element that the console makes, and its own script is the only one."""
    drawn = page(folder, console.address(*parts))
    assert not elements_of(drawn) - set(OURS.split()), elements_of(drawn)
    assert drawn.count("<script") == 1 and "<title>taken</title>" not in drawn
    return text_of(drawn)


def test_overview_topics_and_groups(flows: Broker, console: Console, tmp_path: Path) -> None:
    with flows.consumer("billing", topics=["flows"]) as consumer:
        consumer.poll_batch(1000, timeout=None)
        consumer.commit()
    seen = shown(console, tmp_path)
    assert "ok flows" in seen and "1 topic, 4 queues" in seen and "writer running" in seen and "2,000" in seen
    assert f"flows 4 {MESSAGES:,}" in shown(console, tmp_path, "topics")
    assert "billing none 2,000" in shown(console, tmp_path, "groups")
    seen = shown(console, tmp_path, "group", "billing")
    assert "behind by 2,000 messages" in seen and "the group has no workers and no consumers now" in seen
    assert "No group has dead letters" in shown(console, tmp_path, "dead-letters")
    assert "There is no topic of this name" in shown(console, tmp_path, "topic", HOSTILE)
    assert "There is no group of this name" in shown(console, tmp_path, "group", HOSTILE)


def test_hostile_text_stays_text(flows: Broker, console: Console, tmp_path: Path) -> None:
    """Goal: nothing that a sender chooses becomes an element or runs. Method: markup in body, tag, keys, names and values of
    properties, and as the reason of a failure."""
    flows.create_topic("hostile", 1)
    with flows.producer() as producer:
        sent = producer.send("hostile", HOSTILE, tags=HOSTILE, keys=["<b>key</b>"], properties={HOSTILE: HOSTILE}).id
        data = producer.send("hostile", json.dumps({"a": [HOSTILE, 1.5]})).id
        raw = producer.send("hostile", bytes(range(256))).id
    until(lambda: flows.status().topics and flows.find("hostile", "<b>key</b>"))
    escaped = html.escape(HOSTILE, quote=False)
    for parts, times in ((("topic", "hostile"), 2), (("message", sent), 4)):
        assert shown(console, tmp_path, *parts).count(escaped) >= times, parts
    assert html.escape(json.dumps(HOSTILE), quote=False) in shown(console, tmp_path, "message", data)
    assert "00000040 40 41 42" in shown(console, tmp_path, "message", raw)
    with flows.work_session("desk", ["hostile"], max_tries=1) as session:
        left = 3
        while left:
            for handed in session.take(3, None):
                session.nack(handed, 0.0, HOSTILE)
                left -= 1
        until(lambda: len(flows.dead_letters("desk").list()) == 3)
    assert shown(console, tmp_path, "letters", "desk").count(escaped) >= 4
    assert "desk 3" in shown(console, tmp_path, "dead-letters")
    assert html.escape("<img src=x onerror=1>", quote=False) in shown(console, tmp_path, "message", "<img src=x onerror=1>")


def test_a_broker_that_is_gone(flows: Broker, console: Console, tmp_path: Path) -> None:
    flows.close()
    until(lambda: console.get("status").code == 503)
    assert "no answer" in shown(console, tmp_path)


def test_without_the_token(console: Console, tmp_path: Path) -> None:
    drawn = page(tmp_path, console.address().partition("#")[0])
    assert "wants its token" in drawn and "locked" in drawn and "flows" not in text_of(drawn)
