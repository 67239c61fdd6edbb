"""A worker that does what it is told, one word after the other: `worker_process.py DESCRIPTOR BROKER GROUP TOPIC SETTINGS`
(remote_worker.py). It ends with whoever tells it."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import orbitmq
from orbitmq import errors
from orbitmq.client.work.hand_out import HandOut

GONE = (errors.BrokerError, errors.TimedOut)
PATIENT_S = 240.0


def main(line: Connection, broker: str, group: str, topic: str, settings: dict[str, Any]) -> None:
    mine: dict[int, HandOut] = {}
    with orbitmq.connect(broker, timeout=PATIENT_S) as client:
        worker = client.work_session(group, [topic], **settings)
        while True:
            how, *rest = line.recv()
            try:
                if how == "take":
                    found = {int(bytes(each.message.body)): each for each in worker.take(*rest)}
                    mine |= found
                    line.send([(number, each.delivery, each.deadline) for number, each in found.items()])
                elif how == "close":
                    worker.close(PATIENT_S)
                    line.send(None)
                    os._exit(0)
                else:
                    line.send(answer(worker, mine, how, *rest))
            except GONE:
                line.send(None)


def answer(worker: Any, mine: dict[int, HandOut], how: str, numbers: list[int], *more: float) -> list[int]:
    name, _, settled = how.partition("+")
    hand_outs = [mine[number] for number in numbers]
    if name in ("ack", "give_back"):
        getattr(worker, name)(hand_outs)
    else:
        for each in hand_outs:
            getattr(worker, name)(each, *more)
    return [int(bytes(each.message.body)) for each in worker.settled(PATIENT_S)] if settled else []


if __name__ == "__main__":
    with suppress(EOFError):
        main(Connection(int(sys.argv[1])), *sys.argv[2:5], json.loads(sys.argv[5]))
