"""Lines on the error output of the broker's processes. Each has the time and the broker's name, because the lines of several
brokers and several days may end up in one file."""

from __future__ import annotations

import sys
import time
from contextlib import suppress


def say(broker: str, text: str) -> None:
    """A log that nobody reads, or a disk that is full, is no reason to stop."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    with suppress(OSError):
        print(f"{now} orbitmq[{broker}]: {text}", file=sys.stderr, flush=True)
