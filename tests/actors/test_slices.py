"""Goal: beside processes that compute, a stage need not wait for whole slices of theirs, nor loses one by each yield. Method:
what the kernel says about the processes of a real tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.native._core import lib
from tests.trees import actors, kill, small_broker
from tests.waiting import until

OURS = lib.process_slice_ns(0)


@pytest.mark.skipif(OURS == 0, reason="this kernel has no slices of one's own (Linux 6.12)")
def test_the_stages_have_short_slices(tmp_path: Path) -> None:
    """Also those that were started again; the supervisor keeps the usual slice."""
    names = ("handler 0", "writer", "reput", "flush", "notifier")
    with small_broker(tmp_path / "store") as broker:
        for _ in range(2):
            for name in names:
                until(lambda name=name: lib.process_slice_ns(actors(broker)[name].pid) == 400_000, name)
            kill(broker, "writer")
            until(lambda: actors(broker)["writer"].pid, "another writer")
        assert lib.process_slice_ns(broker.pid) == OURS
