"""Goal: who asks at a start which transactions are open is told of all of them, however long the writer takes to find out.

Method: the writer of a second life hangs before it has read which transactions have ended."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import orbitmq
from orbitmq.errors import TimedOut
from tests.crash import crash_build
from tests.crash.load import Load
from tests.waiting import until


def test_they_are_waited_for(tmp_path: Path) -> None:
    crash_build.build()
    load = Load(tmp_path, 1, roles=())
    try:
        load.client.create_topic("t", 1)
        with load.client.producer() as producer:
            begun = [producer.transaction("t", b"%d" % number) for number in range(3)]
            begun[1].commit()
        load.stop()
        load.plan.arm("halves_begun", pause=True)
        load.start()
        load.plan.disarm()
        until(lambda: load.plan.victim("halves_begun"), "the writer to hang")
        with ThreadPoolExecutor(1) as aside:
            asked = aside.submit(load.client.open_transactions)
            hasty = orbitmq.connect(load.client.connection.name)
            hasty.connection.timeout = 0.1
            with hasty, pytest.raises(TimedOut, match="has not yet read"):
                hasty.open_transactions()
            assert not asked.done()
            os.kill(load.plan.victim("halves_begun"), signal.SIGCONT)
            assert [each.body for each in asked.result()] == [b"0", b"2"]
    finally:
        load.close()
