"""Goal: pages of messages are a part of the log's order, and none is left out or comes twice from one page to the next. Method:
topics with random messages, read page by page, against a list of what was sent."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from orbitmq.cli.web import browse
from orbitmq.cli.web.browse import Asked, Damaged, Direction, Page, page_of
from orbitmq.client.broker.broker import Broker
from orbitmq.errors import FilterError, NoPermission, SettingError, TopicNameError, UnknownQueue, UnknownTopic
from tests.cli.conftest import MESSAGES
from tests.trees import indexed

DIRECTIONS: tuple[tuple[Direction, int], ...] = (("older", 0), ("newer", -1))


def pages(broker: Broker, asked: Asked, clock: Callable[[], float] = lambda: 0.0) -> list[Page]:
    """Until there is no more."""
    found = []
    while True:
        found.append(page_of(broker.connection.attachment, asked, clock))
        if found[-1].whole:
            return found
        asked = replace(asked, places=found[-1].places)


def bodies(found: list[Page]) -> list[bytes]:
    return [bytes(each) for page in found for each in page.messages if not isinstance(each, Damaged)]


def fill(broker: Broker, seed: int) -> list[tuple[int, str, int]]:
    """Sends messages to `mixed`, and returns queue, tag and number of each, in the order of the log."""
    dice = random.Random(seed)
    broker.create_topic("mixed", 5)
    sent = []
    with broker.producer() as producer:
        for number in range(400):
            queue, tag = dice.choice((0, 0, 0, 1, 3, 4)), dice.choice("abc")
            producer.send("mixed", b"%d" % number, queue=queue, tags=tag, properties={"number": str(number)})
            sent.append((queue, tag, number))
    indexed(broker)
    return sent


@pytest.mark.parametrize("seed", range(3))
def test_pages_are_the_log(flows: Broker, seed: int) -> None:
    """Method: every direction, filter, queue and size of pages against a list."""
    sent = fill(flows, seed)
    dice = random.Random(seed)
    for turn in range(40):
        low, tags, queue = dice.randrange(400), dice.choice((None, "a", "b || c")), dice.choice((None, 0, 2, 3))
        sql = dice.choice((None, f"number >= {low}"))
        wanted = [
            b"%d" % number
            for at, tag, number in sent
            if queue in (None, at) and (tags is None or tag in tags) and (sql is None or number >= low)
        ]
        asked = Asked("mixed", dice.choice(("older", "newer")), dice.randint(1, 90), tags, sql, queue)
        found = pages(flows, asked)
        assert bodies(found) == (wanted if asked.direction == "newer" else wanted[::-1]), (turn, asked)
        assert all(len(page.messages) <= asked.most for page in found)
        assert all(len(page.messages) == asked.most for page in found[:-1])


def test_what_comes_meanwhile_moves_nothing(flows: Broker) -> None:
    """Goal: the second page begins where the first ended, although messages were sent between them."""
    sent = fill(flows, 9)
    first = page_of(flows.connection.attachment, Asked("mixed", most=100))
    with flows.producer() as producer:
        producer.send_batch("mixed", [b"new"] * 50)
    indexed(flows)
    second = page_of(flows.connection.attachment, Asked("mixed", most=100, places=first.places))
    assert bodies([first, second]) == [b"%d" % number for _, _, number in sent[::-1][:200]]
    newer = pages(flows, Asked("mixed", "newer", places=first.places))
    assert bodies(newer)[:100] == bodies([first])[::-1] and bodies(newer)[100:] == [b"new"] * 50


def test_a_filter_that_nothing_passes_returns(flows: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a page ends although nothing was found, and the next one goes on behind it."""
    monkeypatch.setattr(browse, "LOOKS_MAX", 100)
    found = pages(flows, Asked("flows", tags="none"))
    assert len(found) > 3 and not bodies(found) and sum(page.looked for page in found) == MESSAGES
    assert all(page.looked < 800 for page in found)
    seconds = count()
    slow = page_of(flows.connection.attachment, Asked("flows", tags="none"), lambda: next(seconds))
    assert not slow.whole and 0 < slow.looked < MESSAGES, "the time for a page was over"


def test_from_a_time_on(flows: Broker) -> None:
    sent = fill(flows, 4)
    all_of_them = pages(flows, Asked("mixed", "newer", most=500))[0].messages
    at = [each.stored_ms for each in all_of_them if not isinstance(each, Damaged)]
    for moment in (0, at[0], at[200], at[200] + 1, at[-1], at[-1] + 1, 1 << 62):
        wanted = [b"%d" % number for (_, _, number), stored in zip(sent, at, strict=True) if stored >= moment]
        assert bodies(pages(flows, Asked("mixed", "newer", since_ms=moment))) == wanted, moment


def test_a_damaged_message_stands_in_its_place(flows: Broker) -> None:
    """Method: the body of the newest message is changed in the log."""
    (message,) = page_of(flows.connection.attachment, Asked("flows", most=1)).messages
    assert not isinstance(message, Damaged)
    log = Path(flows.connection.attachment.store, "commitlog")
    file = max(each for each in log.iterdir() if int(each.name) <= message.physical_offset)
    with file.open("r+b") as opened:
        at = message.physical_offset - int(file.name)
        opened.seek(at)
        at += opened.read(message.size).index(bytes(message), 84)
        opened.seek(at)
        opened.write(bytes(each ^ 255 for each in bytes(message)))
    for direction, place in DIRECTIONS:
        asked = Asked("flows", direction, most=100, queue=message.queue)
        found = [each for page in pages(flows, asked) for each in page.messages]
        assert len(found) == MESSAGES // 4 and sum(isinstance(each, Damaged) for each in found) == 1
        damaged = found[place]
        assert isinstance(damaged, Damaged) and (damaged.queue, damaged.offset) == (message.queue, message.offset)
        assert damaged.physical_offset == message.physical_offset and "CRC" in damaged.why


def test_what_is_refused(flows: Broker) -> None:
    attached = flows.connection.attachment
    with pytest.raises(UnknownTopic):
        page_of(attached, Asked("nobody"))
    with pytest.raises(UnknownQueue, match="it has 4"):
        page_of(attached, Asked("flows", queue=4))
    with pytest.raises(FilterError, match="column 9"):
        page_of(attached, Asked("flows", sql="price > "))
    with pytest.raises(SettingError, match="a tag is empty"):
        page_of(attached, Asked("flows", tags="a ||"))
    with pytest.raises(SettingError, match="1 to 500"):
        Asked("flows", most=501)
    with pytest.raises(SettingError, match="must be 'older' or 'newer'"):
        Asked("flows", "sideways")  # type: ignore[arg-type]
    with pytest.raises(TopicNameError):
        Asked("<script>")
    flows.set_permissions("flows", read=False, write=True)
    with pytest.raises(NoPermission):
        page_of(attached, Asked("flows"))
