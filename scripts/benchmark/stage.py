"""The environment of a measure: a store in a fresh folder, a broker on it, and topics made on demand."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import orbitmq
from scripts.benchmark import load

_numbers = itertools.count()
_T = TypeVar("_T")


class Stage:
    """A running broker with a name of its own, so that forked roles can connect to it."""

    def __init__(self, folder: Path, broker: Any) -> None:
        self.folder = folder
        self.broker = broker
        self.name: str = broker.name if broker else ""
        self.rate = 0.0  # messages a second of a stream, once it was measured
        self._kept: dict[int, str] = {}
        self._props: dict[str, Any] = {}
        self._open = ExitStack()

    def kept_topic(self, queues: int) -> str:
        """One topic for all runs, because the table of queues has no room for thousands of new ones each time."""
        if queues not in self._kept:
            self._kept[queues] = self.topic(queues)
        return self._kept[queues]

    def kept(self, name: str, make: Callable[[], AbstractContextManager[_T]]) -> _T:
        """An object that all runs use: made when it is first asked for, and closed before the broker stops."""
        if name not in self._props:
            self._props[name] = self._open.enter_context(make())
        return self._props[name]  # type: ignore[no-any-return]

    def close(self) -> None:
        self._open.close()

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
    """A broker under a name that nobody else uses. Its store is removed with it."""
    with scratch() as folder:
        name = f"bench-{os.getpid()}-{next(_numbers)}"
        with orbitmq.Broker(folder / "store", name=name, **settings) as broker:
            playing = Stage(folder, broker)
            try:
                yield playing
            finally:
                playing.close()
