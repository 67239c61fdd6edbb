"""Goal: workers that want some messages of a topic (actors/work/filters.py, client/work/settings.py) get all of these, with all
that is promised without a filter, and never another one, whatever dies.

Method: the random histories of test_work_model.py and test_key_order_model.py, with messages among them that nobody wants:
without a tag, with another tag of the same hash, and with properties that SQL refuses. A worker that gets one of them does not
know its number."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import settings as hypothesis_settings

import orbitmq
from tests.actors.test_key_order_model import KeyOrderModel
from tests.actors.test_work_model import TOPIC, WorkModel

UNWANTED = b"-1"
TAG, TWIN = "Aa", "BB"  # of the same hash
REFUSED: list[dict[str, Any]] = [
    {"tags": TWIN, "properties": {"price": "7"}},
    {"tags": TAG, "properties": {"price": "5"}},
    {"tags": TAG},
    {"properties": {"price": "7"}},
]


class Filtered(WorkModel):
    def asked(self) -> dict[str, Any]:
        return super().asked() | {"tags": f"other || {TAG}", "sql": "price > 5"}

    def stored(self, numbers: list[int]) -> list[orbitmq.Receipt]:
        rng = random.Random(numbers[0])
        receipts = []
        with self.broker.producer() as producer:
            for number in numbers:
                for _ in range(rng.choice((0, 0, 1, 3, 30))):
                    producer.send_async(TOPIC, UNWANTED, keys=self.key(number), **rng.choice(REFUSED))
                price = {"price": str(6 + number % 3)}
                receipts.append(producer.send(TOPIC, b"%d" % number, tags=TAG, keys=self.key(number), properties=price))
        return receipts


class FilteredKeyOrder(Filtered, KeyOrderModel):
    """Both."""


TestFiltered = Filtered.TestCase
TestFiltered.settings = hypothesis_settings(max_examples=6, stateful_step_count=30, deadline=None)
TestFilteredKeyOrder = FilteredKeyOrder.TestCase
TestFilteredKeyOrder.settings = hypothesis_settings(max_examples=6, stateful_step_count=30, deadline=None)
