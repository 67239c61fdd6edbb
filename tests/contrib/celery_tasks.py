"""Tasks of a real Celery worker for test_celery.py, in the application of docs/examples. Each leaves a line in a file."""

from __future__ import annotations

import os
import signal
from typing import Any

from celery_shop import app, charge

__all__ = ["app", "charge", "flaky", "hold", "note"]

LEDGER = os.environ.get("SHOP_LEDGER", os.devnull)


def write(*words: object) -> None:
    """Whole lines, whoever else writes."""
    place = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(place, (" ".join(map(str, words)) + "\n").encode())
    os.close(place)


@app.task
def note(word: object) -> None:
    write("note", word)


@app.task(bind=True)
def hold(self: Any, word: str) -> None:
    """The first time, it does not end by itself."""
    write("begun", word, os.getpid())
    if not self.request.delivery_info.get("redelivered"):
        signal.pause()
    write("held", word)


@app.task(bind=True)
def flaky(self: Any) -> int:
    """Fails twice."""
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return int(self.request.retries)
