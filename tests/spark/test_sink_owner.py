"""Goal: a task finds its driver's process, also while processes above it end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbitmq.spark.sink import staging


def test_this_process_without_a_driver() -> None:
    assert staging.owner_lives(staging.owner())
    assert int(staging.owner().split("-")[1]) == os.getpid()


@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError])
def test_a_parent_that_ends_meanwhile(monkeypatch: pytest.MonkeyPatch, error: type[OSError]) -> None:
    expected, ended = staging.owner(), []
    read = Path.read_bytes

    def reading(path: Path) -> bytes:
        if path == Path(f"/proc/{os.getppid()}/stat") and not ended:
            ended.append(path)
            raise error
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", reading)
    assert staging.owner() == expected
    assert ended
