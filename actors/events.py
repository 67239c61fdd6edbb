"""What the broker's processes say on their error output: a line each, with the time and the broker's name, because the lines of
several brokers and of several days may end up in one file."""

from __future__ import annotations

import sys
import time
from contextlib import suppress


def say(broker: str, text: str) -> None:
    """Nobody who reads them, or a disk that takes no more, is no reason to stop."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    with suppress(OSError):
        print(f"{now} orbitmq[{broker}]: {text}", file=sys.stderr, flush=True)
