"""Goal: what OrbitMQ says to a client that pops is what RocketMQ 5's broker says: codes, fields and their forms, which messages
come and when, alone and in order, what acknowledgements and changes of the invisible time do, and whether there is a message.
Where it is not, the difference is intended, and has a name and a reason here.

Method: the same client asks the same of both brokers, and the two accounts are compared part by part (pop_visit.py). RocketMQ's
is the real one, in a JVM (broker5/Broker5.java), started once. Each case has a topic and a group of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

import orbitmq
from tests.actors.pop_client import ACK, CHANGE, NOTIFICATION, POLLING_INFO, POP
from tests.interop import toolchain
from tests.interop.broker5 import Broker5
from tests.interop.ours import SMALL_FILES, broker_on
from tests.interop.pop_visit import LONG_MS, Visit
from tests.waiting import until

SOON_MS = 4000  # an invisible time that is over while the test waits


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of RocketMQ's broker and of ours."""
    try:
        tools = toolchain.provide_broker5()
    except toolchain.MavenError as why:
        pytest.skip(f"RocketMQ 5's broker cannot judge pops: {why}")
    judge = Broker5(tools, tmp_path_factory.mktemp("broker5"))
    try:
        with broker_on(tmp_path_factory.mktemp("ours") / "store", SMALL_FILES, name="popped", listen="127.0.0.1:0") as broker:
            yield judge.listens, listens(broker)
    finally:
        judge.close()


def listens(broker: orbitmq.Client) -> str:
    found = broker.status().listens
    assert found is not None
    return found


class Intended(NamedTuple):
    """A difference that is meant to be, in these cases.

    where: matches the step and the part of the answer. theirs, ours: match what RocketMQ says there, and what OrbitMQ says.
    """

    name: str
    reason: str
    cases: tuple[str, ...]
    where: str
    theirs: str
    ours: str


IN_ORDER = ("in_order", "again_in_order", "queues_in_order")
INTENDED = [
    Intended(
        "number of the delivery",
        "a receipt of a pop in order says of which delivery it is, so that an earlier one changes nothing",
        IN_ORDER,
        ".*: reviveQid",
        "999",
        r"\d",
    ),
    Intended(
        "rest",
        "how much is left for a group the dispatcher knows, and no client decides by it",
        ("alone", "again", *IN_ORDER),
        ".*: restNum",
        "[1-9]",
        "0",
    ),
    Intended(
        "done stays done",
        "what was acknowledged behind the first message of a batch does not come again with that one",
        ("again_in_order",),
        "it comes again, after the change: (orderCountInfo|msgOffsetInfo|messages|places)",
        ".*3.*",
        "[^3]*",
    ),
    Intended(
        "an earlier receipt",
        "it changes nothing, and the client is told; RocketMQ lets the message come again once more, or says nothing",
        ("again", "again_in_order"),
        "change by an earlier receipt: (code|invisibleTime|popTime|reviveQid)",
        "0|60000|999|now, in ms|as asked, from the pop on",
        "208|0",
    ),
    Intended(
        "in place",
        "what comes again lies where it lay: RocketMQ stores it in a topic of retries, in the order in which times end",
        ("again",),
        "both come again: places",
        r"\[\('t-again', '1', 0, [01]\), \('t-again', '1', 0, [01]\)\]",
        r"\[\('t-again', '0', 0, 0\), \('t-again', '0', 0, 1\)\]",
    ),
    Intended(
        "a queue at a time",
        "messages of one answer follow each other in one queue, and are at the same delivery",
        ("queues",),
        "(one answer|the rest): (messages|places|receipts|startOffsetInfo|msgOffsetInfo)",
        ".*",
        ".*",
    ),
    Intended(
        "the next offset",
        "no message is there yet, so none can be acknowledged",
        ("refusals",),
        "ack, the next offset: code",
        "0",
        "208",
    ),
    Intended(
        "numbers that no program means",
        "the program is told; RocketMQ finds nothing for it as often as it asks, or hides the message until a time in the past",
        ("refusals",),
        "(pop, (no messages|no number|no time|a negative time|a time that is no number)|change, a negative time): code",
        "210|0",
        "29|13",
    ),
    Intended(
        "a filter that is none",
        "a pop with it is refused, so there is no message for it",
        ("refusals",),
        "notice, SQL that is none: code",
        "0",
        "23",
    ),
    Intended(
        "the age of a request",
        "it is told by the client's clock, which may be wrong for ever; RocketMQ gives such a client nothing",
        ("refusals",),
        "born long ago: .*",
        ".*",
        ".*",
    ),
    Intended(
        "nobody's receipt",
        "a change that names no group is of a message that nobody has in hand",
        ("refusals",),
        "change, no group: code",
        "0",
        "208",
    ),
]


# ---- the cases

def alone(visit: Visit) -> None:
    """Messages that each come by themselves."""
    visit.notified("none is there")
    visit.pop("nothing to pop")
    opaque = visit.begin(NOTIFICATION)
    visit.send(b"a")
    visit.end("told when one comes", opaque)
    visit.notified("one is there", LONG_MS)
    (a,) = visit.pop("one", poll_ms=LONG_MS)
    visit.notified("none but in hand")
    visit.pop("nothing but in hand")
    visit.ack("acknowledge", a)
    visit.ack("acknowledge twice", a)
    opaque = visit.begin(POP)
    until(lambda: visit.polls() == 1, "the pop to wait")
    visit.send(b"b")
    (b,) = visit.end("woken", opaque)
    longer = visit.change("longer", b, 120_000)
    visit.ack("acknowledge by the earlier receipt", b)
    visit.pop("nothing but what is in hand for longer")
    visit.ack("acknowledge by the new receipt", longer)
    visit.send(b"c", b"d", b"e", b"f", b"g")
    first = visit.pop("two of five", 2, poll_ms=LONG_MS)
    rest = visit.pop("the others", poll_ms=LONG_MS)
    visit.ack_all("acknowledge all at once", first + rest)
    visit.notified("all is done")


def again(visit: Visit) -> None:
    """A time that is over, and one that was made shorter."""
    visit.send(b"a", b"b")
    (a,) = visit.pop("for a long time", 1, poll_ms=LONG_MS)  # first: it must not be over before the next pop
    (b,) = visit.pop("for a short time", poll_ms=LONG_MS, invisible_ms=SOON_MS)
    shorter = visit.change("made shorter", a, SOON_MS)
    again = visit.gather("both come again", 2)
    for what, each in (("time that is over", b), ("pop", a), ("change", shorter)):
        visit.ack(f"acknowledge by the receipt of the {what}", each)
    visit.pop("both are in hand")
    visit.ack_all("acknowledge what came again", again)
    visit.pop("nothing is left")
    visit.change("change by an earlier receipt", b, 60_000)


def in_order(visit: Visit) -> None:
    """One batch after the other."""
    visit.notified("none is there")
    visit.pop("nothing to pop")
    visit.send(*(b"%d" % number for number in range(8)))
    visit.notified("there are some", LONG_MS)
    visit.pop("a batch", 3, poll_ms=LONG_MS, attemptId="one")
    batch = visit.pop("who asks again gets the same", 3, poll_ms=LONG_MS, attemptId="one")
    visit.pop("held up")
    visit.pop("another attempt is held up", attemptId="two")
    visit.notified("none while held up")
    visit.ack("the second one", batch[1])
    visit.pop("held up by the others")
    visit.change("longer", batch[0], 120_000)
    visit.ack("the third one", batch[2])
    visit.notified("none while the first one is in hand")
    opaque = visit.begin(POP)
    until(lambda: visit.polls() == 1, "the pop to wait")
    visit.ack("the first one, by its first receipt", batch[0])
    rest = visit.end("the next batch, at once", opaque)
    visit.ack("twice", batch[0])
    visit.ack_all("acknowledge all at once", rest)
    visit.notified("all is done")
    visit.pop("nothing is left")


def again_in_order(visit: Visit) -> None:
    """A batch whose time is over comes again, before what follows it."""
    visit.send(*(b"%d" % number for number in range(4)))
    first = visit.pop("a batch", 2, poll_ms=LONG_MS, invisible_ms=SOON_MS)
    second = visit.pop("it comes again", 2, poll_ms=LONG_MS)
    visit.ack("by an earlier receipt", first[0])
    visit.pop("held up")
    for number, each in enumerate(second):
        visit.ack(f"acknowledge {number}", each)
    third = visit.pop("what follows", 2, poll_ms=LONG_MS)
    visit.change("at once", third[0], 1)
    visit.ack("the one behind it", third[1])
    (fourth, *_) = visit.pop("it comes again, after the change", 2, poll_ms=LONG_MS)
    visit.change("change by an earlier receipt", third[0], 60_000)
    visit.ack("acknowledge the first one", fourth)


def queues_in_order(visit: Visit) -> None:
    """Each queue has an order of its own."""
    for queue in range(2):
        visit.send(*(b"%d-%d" % (queue, number) for number in range(3)), queue=queue)
    first = visit.gather("one of each queue", 2, most=1)
    visit.pop("both are held up")
    visit.ack("one of them is done", first[0])
    second = visit.pop("that one goes on", 1, poll_ms=LONG_MS)
    visit.pop("held up again")
    for number, each in enumerate([first[1], *second]):
        visit.ack(f"done, {number}", each)
    visit.gather("both go on", 2, most=1)


def queues(visit: Visit) -> None:
    """Messages of several queues."""
    for queue in range(2):
        visit.send(*(b"%d-%d" % (queue, number) for number in range(3)), queue=queue)
    visit.notified("there are some", LONG_MS, queueId=1)
    found = visit.pop("one answer", poll_ms=LONG_MS)
    found += visit.gather("the rest", 6 - len(found))
    visit.ack_all("acknowledge all at once", found)
    visit.pop("nothing is left", queueId=1)


def by_tags(visit: Visit) -> None:
    """Only some messages are wanted."""
    for tags in (b"a", b"b", b"c", b""):
        visit.send(b"1" + tags, b"2" + tags, tags=tags)
    found = visit.gather("a and c", 4, exp="a || c")
    visit.ack_all("acknowledge all at once", found)
    visit.pop("nothing is left", exp="a || c")


def from_the_last(visit: Visit) -> None:
    """A group that begins with what comes. While nothing was removed, it gets all, as one that pulls."""
    visit.send(b"older", b"old")
    visit.pop("what was there", poll_ms=LONG_MS, initMode=1)
    visit.send(b"new")
    visit.pop("what comes", poll_ms=LONG_MS, initMode=1)


def refusals(visit: Visit) -> None:
    """Codes of what cannot be."""
    visit.send(b"x")
    (mine,) = visit.pop("one", poll_ms=LONG_MS)
    popper = visit.popper
    receipt = popper.fields(mine)
    asked: dict[str, tuple[int, dict[str, object]]] = {
        "pop": (POP, popper.pop_fields(1, 1)),
        "notice": (NOTIFICATION, popper.notice(1)),
        "polls": (POLLING_INFO, {"consumerGroup": popper.group, "topic": popper.topic, "queueId": -1}),
        "ack": (ACK, receipt),
        "change": (CHANGE, {**receipt, "invisibleTime": 1000}),
    }
    for kind, (code, fields) in asked.items():
        for what, change in {**WRONG["all"], **WRONG[kind]}.items():
            visit.refused(f"{kind}, {what}", code, **{**fields, **change})
        visit.refused(f"{kind}, no group", code, **{name: fields[name] for name in fields if name != "consumerGroup"})
    visit.send(b"y")
    visit.pop("born long ago", poll_ms=5000, bornTime=1)


NO_SQL: dict[str, object] = {"expType": "SQL92", "exp": "n >"}
NO_PLACE: dict[str, dict[str, object]] = {  # of a message that was popped
    "an offset far behind": {"offset": 1000},
    "the next offset": {"offset": 1},
    "a negative queue": {"queueId": -1},
    "no receipt": {"extraInfo": "nonsense"},
}
WRONG: dict[str, dict[str, dict[str, object]]] = {
    "all": {"no such topic": {"topic": "nowhere"}, "no such queue": {"queueId": 1}},
    "pop": {
        "33 messages": {"maxMsgNums": 33},
        "no messages": {"maxMsgNums": 0},
        "no number": {"maxMsgNums": "many"},
        "no time": {"invisibleTime": 0},
        "a negative time": {"invisibleTime": -1},
        "a time that is no number": {"invisibleTime": "soon"},
        "SQL that is none": NO_SQL,
    },
    "notice": {"SQL that is none": NO_SQL},
    "polls": {},
    "ack": {**NO_PLACE, "a negative offset": {"offset": -1}},
    "change": {**NO_PLACE, "a negative time": {"invisibleTime": -1}},
}
CASES: dict[str, tuple[Callable[[Visit], None], dict[str, int | bool]]] = {
    "alone": (alone, {}),
    "again": (again, {}),
    "in_order": (in_order, {"ordered": True}),
    "again_in_order": (again_in_order, {"ordered": True}),
    "queues_in_order": (queues_in_order, {"ordered": True, "queues": 2}),
    "queues": (queues, {"queues": 2}),
    "by_tags": (by_tags, {}),
    "from_the_last": (from_the_last, {}),
    "refusals": (refusals, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_as_rocketmq(brokers: tuple[str, str], case: str) -> None:
    def account(listens: str) -> dict[str, object]:
        ask, shape = CASES[case]
        with Visit(listens, case, **shape) as visit:  # type: ignore[arg-type]
            ask(visit)
        return visit.said

    with ThreadPoolExecutor(2) as both:
        theirs, ours = both.map(account, brokers)
    missing = {each.name for each in INTENDED if case in each.cases}
    wrong = []
    for part in dict.fromkeys([*theirs, *ours]):
        pair = theirs.get(part), ours.get(part)
        if pair[0] == pair[1]:
            continue
        names = {each.name for each in INTENDED if case in each.cases and _matches(each, part, pair)}
        missing -= names
        if not names:
            wrong.append(f"{part}: RocketMQ says {pair[0]!r}, OrbitMQ {pair[1]!r}")
    assert not wrong, "\n".join(["not intended:", *wrong])
    assert not missing, f"these differ no longer: {sorted(missing)}"


def _matches(intended: Intended, part: str, pair: tuple[object, object]) -> bool:
    wanted = (intended.where, intended.theirs, intended.ours)
    return all(re.fullmatch(pattern, str(value)) for pattern, value in zip(wanted, (part, *pair), strict=True))
