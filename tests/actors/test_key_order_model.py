"""Goal: in a key-ordered group a message is handed out only when all messages of its key that stand before it in the log are
done, or dead letters, whatever dies, fails, hangs or is given back meanwhile; and none is held back for ever.

Method: the random histories of test_work_model.py, with messages of few keys, in two queues."""

from __future__ import annotations

import time

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.actors.test_work_model import WorkModel

KEYS = 5


class KeyOrderModel(WorkModel):
    key_ordered = True

    def key(self, number: int) -> str | None:
        return None if number % 4 == 0 else f"k{number * 7 % KEYS}"

    def handed(self, number: int) -> None:
        mine, now, key = self.messages[number], time.monotonic(), self.key(number)
        for other in range(number % KEYS, len(self.messages), KEYS) if key else ():  # others have other keys
            state = self.messages[other]
            if other == number or self.key(other) != key:
                continue
            assert state.holder is None or now >= state.deadline, f"{number} and {other}, of one key, are in two hands"
            if state.place < mine.place and state.done is False:
                dead = "dead" in self.parted()[other]
                assert dead, f"{number} came, and {other} of its key, which stands before it, is not done: {state}"

    @precondition(lambda self: self.workers)
    @rule(
        pick=st.integers(0, 5), count=st.integers(1, 100), where=st.integers(0, 100),
        how=st.sampled_from(["ack", "ack", "ack", "give_back", "nack", "nack", "part", "extend"]),
        delay=st.sampled_from([0.0, 0.03]),
        settled=st.booleans(),
    )  # fmt: skip
    def answer(self, pick: int, count: int, where: int, how: str, delay: float, settled: bool) -> None:
        # Without a delay, what has a key waits for 10 s and more in place: test_key_order.py tests that once.
        super().answer(pick, count, where, "nack" if how == "part" else how, delay, settled)


TestKeyOrderModel = KeyOrderModel.TestCase
TestKeyOrderModel.settings = hypothesis_settings(max_examples=8, stateful_step_count=30, deadline=None)
