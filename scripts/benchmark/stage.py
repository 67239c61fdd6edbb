"""Where a measure plays: a store in a fresh folder, a broker on it, and topics made on demand."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orbitmq
from scripts.benchmark import load

_numbers = itertools.count()


class Stage:
    """A running broker with a name of its own, so that forked roles can connect to it."""

    def __init__(self, folder: Path, broker: Any) -> None:
        self.folder = folder
        self.broker = broker
        self.name: str = broker.name if broker else ""
        self._kept: dict[int, str] = {}

    def kept_topic(self, queues: int) -> str:
        """One topic for all runs: the table of queues has no room for thousands of new ones each time."""
        if queues not in self._kept:
            self._kept[queues] = self.topic(queues)
        return self._kept[queues]

    def topic(self, queues: int = load.QUEUES) -> str:
        """A new topic: the run starts with empty queues."""
        name = f"bench-{next(_numbers)}"
        self.broker.create_topic(name, queues=queues)
        return name


def scratch_root() -> Path:
    """$ORBITMQ_BENCH_FOLDER, or the system's temporary folder: the disk that is measured."""
    return Path(os.environ.get("ORBITMQ_BENCH_FOLDER", tempfile.gettempdir()))


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="orbitmq-bench-", dir=scratch_root()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def stage(settings: dict[str, Any]) -> Iterator[Stage]:
    """A broker under a name nobody else uses; its store goes with it."""
    with scratch() as folder:
        name = f"bench-{os.getpid()}-{next(_numbers)}"
        with orbitmq.Broker(folder / "store", name=name, **settings) as broker:
            yield Stage(folder, broker)
