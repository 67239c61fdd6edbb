"""SQL92 filters: RocketMQ's broker, and OrbitMQ's consumers on the same store, let the same messages pass.

Goal: a filter that OrbitMQ accepts means what it means in RocketMQ. Method: random filters over messages with random
properties, numbers of every form among them, from the generator that the model of the filters is compared with
(tests/native/sql_model.py); and some that people write. RocketMQ may accept more; what it refuses of what OrbitMQ accepts must
be in the table of docs/filters.md.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import FilterError
from tests.interop.judge import Files, Judge
from tests.interop.ours import broker_on
from tests.native.sql_model import any_message, any_text
from tests.trees import indexed

pytestmark = pytest.mark.timeout(900)  # the first test of all waits for the jars

TOPIC = "orders"
MESSAGES, RANDOM = 300, 2000
WRITTEN = [
    "price > 100 AND region IN ('eu', 'us')", "price BETWEEN 1 AND 100", "price NOT BETWEEN 1 AND 100", "region = 'it''s'",
    "region IS NULL OR price >= 100.0", "a IS NOT NULL AND b IS NULL", "NOT (region = 'eu')", "TAGS = 'eu'", "KEYS <> '1'",
    "a = b", "a <> b", "a > b", "price > 2147483647", "price = 100", "price = 100.0", "region NOT IN ('eu')", "vip = TRUE",
    "a = TRUE",
    "a = FALSE", "a > 1 OR TRUE", "TRUE", "FALSE", "a > 1 = TRUE", "a < -5", "$x_1 IS NOT NULL", "price > 1e2",
    "(a > 1) = (b > 1)",
]  # fmt: skip
NOT_IN_4 = re.compile(r"contains|startswith|endswith", re.IGNORECASE)  # RocketMQ has them from 5 on
# What docs/filters.md says of texts that only OrbitMQ accepts.
ONLY_HERE = re.compile(r"[<>]=?\s*[-+]?\s*(0?\.0+|0\.?)(?![0-9.])|--[^\n]*$|\b0[lL]")
NOT_OURS = "\u0661"  # a digit of another script, which RocketMQ reads as one


def passed(broker: orbitmq.Client, text: str) -> list[int] | None:
    """The offsets of messages that pass; None: refused."""
    try:
        with broker.consumer(None, [TOPIC], sql=text) as consumer:
            return [message.offset for message in consumer.poll_batch(MESSAGES, timeout=0)]
    except FilterError:
        return None


def test_the_same_messages_pass(judge: Judge, tmp_path: Path) -> None:
    rng = random.Random(92)
    store, files = tmp_path / "store", Files(log_file_size=4 << 20)
    texts = [*WRITTEN, *(text for text in (any_text(rng) for _ in range(RANDOM)) if not NOT_IN_4.search(text))]
    with broker_on(store, files) as broker:
        broker.create_topic(TOPIC, 1)
        with broker.producer() as producer:
            for _ in range(MESSAGES):
                properties = {name: value for name, value in any_message(rng).items() if value != NOT_OURS}
                tags, keys = properties.pop("TAGS", None), properties.pop("KEYS", "").strip()
                producer.send(TOPIC, b"", tags=tags and tags.strip(), keys=keys.split(), properties=properties)
        indexed(broker)
        ours = {text: passed(broker, text) for text in texts}
    accepted = [text for text in texts if ours[text] is not None]
    assert len(accepted) > len(texts) // 2
    judge.start(store, files)
    theirs = dict(zip(accepted, judge.ask("filter", topic=TOPIC, filters=accepted), strict=True))
    refused = [text for text in accepted if theirs[text] is None]
    assert [text for text in refused if not ONLY_HERE.search(text)] == []
    compared = [text for text in accepted if theirs[text] is not None]
    assert [(text, ours[text], theirs[text]) for text in compared if ours[text] != theirs[text]] == []
    assert sum(0 < len(theirs[text]) < MESSAGES for text in compared) > len(compared) // 4
    assert set(WRITTEN) <= set(compared)
