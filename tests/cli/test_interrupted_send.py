"""Goal: when Ctrl-C ends `orbitmq send`, it says how many messages are stored, and no more than is true. Method: the writer is
stopped in the middle of many lines, so that the command is certainly in the middle of them when it is interrupted."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.commands import Background
from tests.trees import actors, indexed, small_broker, stopped
from tests.waiting import until

# Each test is many processes, and the limit is for tests that hang.
pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("some", [False, True])
def test_ctrl_c(tmp_path: Path, some: bool) -> None:
    """some: interrupted after a receipt, or before the first."""
    total = 300_000
    with small_broker(tmp_path, name="cut", log_file_size=4 << 20) as broker:
        broker.create_topic("t", 1)

        def stored() -> int:
            return broker.status().topics[0].queues[0].max_offset

        with ExitStack() as hung:
            # Without the allocator the log has no room for all of them, however late the writer is stopped.
            hung.enter_context(stopped(broker, "allocator" if some else "writer"))
            with Background("send", "t", "-", "--lines", "--name", "cut", feed="x\n" * total) as send:
                if some:
                    until(lambda: stored() > 2000, "messages")
                    hung.enter_context(stopped(broker, "writer"))
                else:
                    until(lambda: any(session.window for session in broker.status().sessions), "the producer")
                    until(
                        lambda: (
                            actors(broker)["handler 0"].counters.get("messages", 0)
                            + actors(broker)["handler 1"].counters.get("messages", 0)
                        ),
                        "messages on their way",
                    )
                send.interrupt()
                code, told, complaint = send.end()
        assert (code, told) == (130, ""), complaint
        found = re.search(r"the first ([\d,]+) of 300,000 messages are stored(; of| and)? ?.*", complaint)
        assert found is not None, complaint
        said = int(found[1].replace(",", ""))
        assert (said > 0) == some
        until(lambda: not broker.status().sessions, "what was on its way to be stored")
        indexed(broker)
        assert said <= stored() <= said + 1000, complaint
