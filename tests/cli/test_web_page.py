"""Goal: the console's pages show what the broker holds, and text stays text, however hostile it is. Method: Chromium draws
them, and what it has drawn is compared."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from orbitmq.client.broker.broker import Broker
from orbitmq.store.halves import OP_TOPIC
from tests.cli.chromium import NAMES, PACKAGE, Chromium, Page
from tests.cli.conftest import MESSAGES
from tests.cli.served import Console
from tests.memory import folder_in_memory
from tests.tools import tool
from tests.waiting import WATCHDOG_S, until

pytestmark = pytest.mark.xdist_group("chromium")
HOSTILE = "</pre></script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"><svg onload=1>"
OURS = (
    "html head meta title link script body header a nav span div main h1 h2 small p table thead tbody tr th td dl dt dd form"
    " input select option button ol ul li code details summary section pre noscript strong label"
)


@pytest.fixture(scope="module", autouse=True)
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """Looked for before anything is started."""
    program = tool(*NAMES, package=PACKAGE)
    with folder_in_memory(lambda: tmp_path_factory.mktemp("chromium")) as folder, Chromium(program, folder) as made:
        yield made


@pytest.fixture
def console(flows: Broker) -> Iterator[Console]:
    with Console("--name", "flows", "--allow-changes") as served:
        yield served


@pytest.fixture
def browser(chromium: Chromium) -> Iterator[Page]:
    with chromium.page() as opened:
        yield opened
        assert not opened.elements - set(OURS.split()) and opened.run("document.title") != "taken"
        assert not opened.errors


def letters(flows: Broker, topic: str, count: int) -> None:
    """Has the group `desk` give up so many messages."""
    with flows.work_session("desk", [topic], max_tries=1) as session:
        left = count
        while left:
            for handed in session.take(count, None):
                session.nack(handed, 0.0, HOSTILE)
                left -= 1
        until(lambda: len(flows.dead_letters("desk").list()) == count)


def test_overview_topics_and_groups(flows: Broker, console: Console, browser: Page) -> None:
    with flows.consumer("billing", topics=["flows"]) as consumer:
        consumer.poll_batch(1000, timeout=None)
        consumer.commit()
    browser.open(console.address())
    seen = browser.says("writer running")
    assert "ok flows" in seen and "1 topic, 4 queues" in seen and "1 group behind by 2,000" in seen
    browser.says("0 bytes/s")  # rates come with the second look
    browser.click("Topics")
    flows.create_topic("empty", 8)
    browser.says("empty 8 0")
    assert browser.text.index("empty 8") < browser.text.index(f"flows 4 {MESSAGES:,}")
    browser.type("Order", "messages")
    assert browser.text.index("empty 8") > browser.text.index(f"flows 4 {MESSAGES:,}")
    browser.type("Only topics with this in their names", "nobody")
    browser.says("No topic has such a name")
    browser.click("Groups")
    browser.says("billing none 2,000")
    browser.click("billing")
    assert "behind by 2,000 messages" in browser.says("the group has no workers and no consumers now")
    browser.click("Dead letters")
    browser.says("No group has dead letters")
    browser.open(console.address("topic", HOSTILE))
    browser.says("There is no topic of this name")
    browser.open(console.address("group", HOSTILE))
    browser.says("There is no group of this name")


def test_looking_through_messages(flows: Broker, console: Console, browser: Page) -> None:
    with flows.producer() as producer:
        sent = producer.send("flows", "the one", keys=["k-7"], tags="odd", properties={"price": "7"})
    until(lambda: flows.find("flows", "k-7"))
    browser.open(console.address("topic", "flows"))
    assert "2999" in browser.says("the one")
    browser.click("More")
    browser.says(" 2905 ")
    for label, text in (("Tags", "odd"), ("Tags", ""), ("SQL92 filter", "price > 6")):
        browser.type(label, text)
        browser.click("Read")
        until(lambda text=text: "the one" in (seen := browser.text) and (" 2999 " in seen) == (not text), f"filter {text!r}")
    browser.type("SQL92 filter", "price >")
    browser.click("Read")
    browser.says("column 8")
    browser.type("SQL92 filter", "")
    browser.type("Which messages", "newer")
    browser.click("Read")
    browser.says("flows/0@0 t 0")
    browser.type("Which messages", "key")
    browser.type("Key or id", "k-7")
    browser.click("Read")
    until(lambda: "the one" in (seen := browser.text) and "flows/0@0" not in seen)
    browser.type("Which messages", "id")
    browser.type("Key or id", sent.id)
    browser.click("Read")
    browser.says("price 7")
    browser.click("Hex")
    browser.says("00000000 74 68 65 20 6f 6e 65")
    assert "sent from" not in browser.text


def test_who_has_sent(flows: Broker, console: Console, browser: Page) -> None:
    """A message of another one than a local program: here what the broker notes of a transaction's end."""
    with flows.producer(group="desk") as producer:
        producer.transaction("flows", "begun").commit()
    with flows.consumer(None, topics=[OP_TOPIC], start="earliest") as consumer:
        note = consumer.poll(timeout=WATCHDOG_S)
    assert note is not None
    browser.open(console.address("message", note.id))
    browser.says(f"sent from {note.born_host}")


def test_hostile_text_stays_text(flows: Broker, console: Console, browser: Page) -> None:
    """Goal: nothing that a sender chooses becomes an element or runs. Method: markup in body, tag, keys, names and values of
    properties, and as the reason of a failure."""
    flows.create_topic("hostile", 1)
    with flows.producer() as producer:
        sent = producer.send("hostile", HOSTILE, tags=HOSTILE, keys=["<b>key</b>"], properties={HOSTILE: HOSTILE}).id
        data = producer.send("hostile", json.dumps({"a": [HOSTILE, 1.5]})).id
        raw = producer.send("hostile", bytes(range(256))).id
    until(lambda: flows.find("hostile", "<b>key</b>"))
    for parts, times in ((("topic", "hostile"), 2), (("message", sent), 4)):
        browser.open(console.address(*parts))
        until(lambda times=times: browser.text.count(HOSTILE) >= times, f"{times} hostile texts at {parts[0]}")
        assert not browser.elements - set(OURS.split())
    browser.open(console.address("message", data))
    browser.says(json.dumps(HOSTILE))
    browser.open(console.address("message", raw))
    browser.says("00000040 40 41 42")
    letters(flows, "hostile", 3)
    browser.open(console.address("letters", "desk"))
    until(lambda: browser.text.count(HOSTILE) >= 4)
    browser.open(console.address("message", "<img src=x onerror=1>"))
    browser.says("<img src=x onerror=1>")


def test_a_phone_shows_all_of_it(flows: Broker, console: Console, browser: Page) -> None:
    """Goal: nobody has to scroll sideways, whatever is long. Method: a narrow screen, and names and texts without a space."""
    long = "w" * 120
    flows.create_topic(long, 1)
    with flows.producer() as producer:
        sent = producer.send(long, long * 9, tags=long, keys=[long, long[1:]], properties={long: long * 5}).id
    letters(flows, long, 1)
    browser.narrow(360)
    pages = {"": "writer running", "topics": long, f"topic {long}": long, f"message {sent}": long}
    pages |= {"groups": "desk", "group desk": long, "letters desk": long}
    for page, text in pages.items():
        browser.open(console.address(*page.split(" ")))
        browser.says(text)
        browser.says("ok flows")
        assert browser.run("document.documentElement.scrollWidth") <= 360, page


def test_changes(flows: Broker, console: Console, browser: Page) -> None:
    flows.create_topic("letters", 1)
    with flows.producer() as producer:
        producer.send_batch("letters", [b"one", b"two"])
    letters(flows, "letters", 2)
    browser.open(console.address("letters", "desk"))
    browser.click("Send all again ...")
    browser.click("No")
    browser.click("Send all again ...")
    assert len(flows.dead_letters("desk").list()) == 2, "nobody is sure yet"
    browser.click("Yes, send all that were not sent again")
    browser.says("Sent 2 messages again")
    until(lambda: browser.text.count("sent again") == 2)
    assert not flows.dead_letters("desk").list()

    flows.consumer("billing", topics=["flows"]).close()
    browser.open(console.address("group", "billing"))
    browser.click("Reset the group")
    browser.click("See what would be done")
    browser.says("This would be done")
    browser.click("Reset 4 queues")
    browser.says("The group goes on there")
    assert flows.group("billing").lag_messages == 0

    browser.open(console.address("topic", "flows"))
    browser.click("Delete this topic")
    browser.type("Name of the topic", "flow")
    browser.click("Delete the topic")
    browser.type("Name of the topic", "flows")
    assert "flows" in [each.name for each in flows.topics()]
    browser.click("Delete the topic")
    browser.says("The topic is deleted")
    assert "flows" not in [each.name for each in flows.topics()]


def test_a_console_that_only_reads_offers_no_changes(flows: Broker, browser: Page) -> None:
    with Console("--name", "flows") as console:
        browser.open(console.address("topic", "flows"))
        assert "Delete" not in browser.says("as the broker says")


def test_a_broker_that_is_gone(flows: Broker, console: Console, browser: Page) -> None:
    browser.open(console.address())
    browser.says("writer running")
    flows.close()
    assert "writer running" in browser.says("no answer"), "the last numbers stay"


def test_without_the_token(console: Console, browser: Page) -> None:
    browser.open(console.address().partition("#")[0])
    assert "flows" not in browser.says("This console wants its token")
    browser.type("Token", console.token)
    browser.click("Enter")
    browser.says("ok flows")
