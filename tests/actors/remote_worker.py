"""A worker in a process of its own, that does what it is told, and can be killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from typing import Any

import orbitmq
from orbitmq import errors
from orbitmq.client.hand_out import HandOut
from tests.waiting import WATCHDOG_S

FORK = multiprocessing.get_context("fork")
GONE = (errors.BrokerError, errors.TimedOut)
Seen = tuple[int, int, float]  # the message's number, its delivery, its deadline


class RemoteWorker:
    """Messages are named by the number that is their body. Answers are None if the broker has gone."""

    def __init__(self, broker: str, group: str, topic: str, **settings: Any) -> None:
        self.visibility: float = settings["visibility"]
        self._line, far = FORK.Pipe()
        self._process = FORK.Process(target=_live, args=(far, broker, group, topic, settings), daemon=True)
        self._process.start()
        far.close()

    def take(self, most: int, timeout: float) -> list[Seen] | None:
        return self._ask("take", most, timeout)  # type: ignore[no-any-return]

    def answer(self, how: str, numbers: list[int], *more: float) -> list[int] | None:
        """how: ack, nack, extend or give_back, or one of these and "+settled". Returns the numbers that were refused."""
        return self._ask(how, numbers, *more)  # type: ignore[no-any-return]

    def close(self) -> None:
        self._ask("close")
        self._process.join()

    def kill(self) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()
        self._line.close()

    def _ask(self, *question: Any) -> Any:
        self._line.send(question)
        assert self._line.poll(WATCHDOG_S), question
        return self._line.recv()


def _live(line: Connection, broker: str, group: str, topic: str, settings: dict[str, Any]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    mine: dict[int, HandOut] = {}
    with orbitmq.connect(broker, timeout=WATCHDOG_S) as client:
        worker = client.work_session(group, [topic], **settings)
        while True:
            how, *rest = line.recv()
            try:
                if how == "take":
                    found = {int(bytes(each.message.body)): each for each in worker.take(*rest)}
                    mine |= found
                    line.send([(number, each.delivery, each.deadline) for number, each in found.items()])
                elif how == "close":
                    worker.close(WATCHDOG_S)
                    line.send(None)
                    os._exit(0)
                else:
                    line.send(_answer(worker, mine, how, *rest))
            except GONE:
                line.send(None)


def _answer(worker: Any, mine: dict[int, HandOut], how: str, numbers: list[int], *more: float) -> list[int]:
    name, _, settled = how.partition("+")
    hand_outs = [mine[number] for number in numbers]
    if name in ("ack", "give_back"):
        getattr(worker, name)(hand_outs)
    else:
        for each in hand_outs:
            getattr(worker, name)(each, *more)
    return [int(bytes(each.message.body)) for each in worker.settled(WATCHDOG_S)] if settled else []
