"""Goal: every request of RocketMQ 4.9 that a client or an operator sends is read as RocketMQ's classes wrote it, byte by byte,
and gets the code, the remark, the fields and the body that RocketMQ's broker and name server gave; what differs is listed here,
with the reason.

Method: known-answer vectors, recorded with RocketMQ (known_exchanges.py, known_requests.py). Their headers are read and written
in C and by the readable model; their requests go to a broker as they stand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.remoting.registration import registration_body
from orbitmq.remoting.sends import REGION
from orbitmq.shm.topic_table import Topic
from tests.actors.known_exchanges import ANSWERS, BORN_MS, BROKER, FORMS, NAMES, OPAQUE, Exchange, ask, frame_of
from tests.actors.known_requests import EXCHANGES, REGISTRATION, REST
from tests.actors.remoting_client import Remote
from tests.native import remoting_model as model
from tests.native.test_remoting_header import model_read, read, write
from tests.trees import small_broker

KNOWN: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text())
NAME = "judged"  # of the broker that was asked

SENT = {**KNOWN["send, in the short form"]["answer"]["fields"], "transactionId": "0123456789ABCDEF0123456789ABCDEF"}
ALL = KNOWN["pull"]["answer"]
# What OrbitMQ answers otherwise.
OTHERWISE: dict[str, dict[str, Any]] = {
    # RocketMQ 4.9.7 names the unique key of each message, 4.9.3 only of those of transactions.
    "send, in the short form": {"fields": SENT},
    "send, in the long form": {"fields": {**SENT, "queueOffset": "1"}},
    # Likewise the end of a queue, not its begin.
    "pull behind the end": {"fields": {**KNOWN["pull behind the end"]["answer"]["fields"], "nextBeginOffset": "4"}},
    # RocketMQ passes everything if it cannot read a filter, and has no words of its own for what Java has found.
    "pull what no filter says": {
        "code": 23, "fields": {}, "body": None,
        "remark": "the consumer's subscription is no filter of SQL92",
    },
    "check no filter": {
        "remark": "the filter cannot be read at byte 3, 'the end': expected a property, a number, a text in single quotes, "
        "TRUE, FALSE, NULL, NOT or ("
    },
    "send nothing as a batch": {"code": 13, "fields": REGION, "remark": "the batch has no message"},
    "end what did not begin": {"remark": "there is no such transaction"},
    # Tags a client compares itself, so it need not wait for its heartbeat.
    "pull by a newer subscription": ALL,
    # Groups begin when they are used; RocketMQ's do so, too, unless autoCreateSubscriptionGroup is false, as here.
    "pull for nobody": ALL,
    "give back for no group": {"code": 0, "remark": None},
    "send for no group's retries": {"code": 13, "remark": "it does not say to which topic it was sent first (RETRY_TOPIC)"},
    # The reason in words that say more.
    "send to no queue": {"remark": "the topic has no queue of this number"},
    "give back what is not there": {"remark": "the log has no message at this offset that a group can give back"},
}


def text_of(value: object) -> bytes:
    return str(value).lower().encode() if isinstance(value, bool) else str(value).encode()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("exchange", (*EXCHANGES, *REST), ids=lambda each: each.name)
def test_headers(exchange: Exchange, form: str) -> None:
    """They say what the class was given; and with the same fields in the same order, C writes the same bytes."""
    frame = frame_of(KNOWN[exchange.name]["request"], form)
    kind, head, body = model.split(frame)
    assert kind == FORMS[form]
    header = read(head, kind)
    assert header == model_read(head, kind)
    assert (header.code, header.opaque, header.flag, header.language) == (exchange.code, OPAQUE, 0, 0)
    wanted = {name.encode(): text_of(value) for name, value in exchange.fields.items() if value not in (None, "")}
    assert {name: value for name, value in (header.fields or {}).items() if value} == wanted
    if not exchange.body_class:
        assert body == exchange.body
    assert write(header, kind, len(body)) + body == frame


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[orbitmq.Broker]:
    with small_broker(tmp_path, name=NAME, listen="127.0.0.1:0", auto_create_topics=False) as broker:
        yield broker


@pytest.mark.parametrize("form", FORMS)
def test_answers(broker: orbitmq.Broker, form: str) -> None:
    wrong = []
    listens = broker.status().listens
    with Remote(listens) as names, Remote(listens) as remote:
        for each in EXCHANGES:
            said = ask({NAMES: names, BROKER: remote}, each, frame_of(KNOWN[each.name]["request"], form))
            wanted = {**KNOWN[each.name]["answer"], **OTHERWISE.get(each.name, {})}
            wanted = {key: value for key, value in wanted.items() if value is not None or key != "body"}
            if said != wanted:
                wrong.append(f"{each.name}\n  {said}\n  {wanted}")
    assert not wrong, "\n".join(wrong)


def test_what_differs_is_needed() -> None:
    assert OTHERWISE.keys() <= KNOWN.keys() == {each.name for each in (*EXCHANGES, *REST)}
    for name, said in OTHERWISE.items():
        assert all(KNOWN[name]["answer"].get(key) != value for key, value in said.items()), name


def test_a_registration() -> None:
    """Goal: name servers of RocketMQ are told of a topic in the words of RocketMQ's broker."""
    topic = Topic("orders", 0, 3, 6, 0, 3, 0, False)
    told = registration_body([topic], BORN_MS, 2)
    assert json.loads(told) == json.loads(KNOWN[REGISTRATION.name]["request"]["body"])
