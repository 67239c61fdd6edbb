"""A supervisor whose reput does nothing until a file exists.

python gated_supervisor.py <file> <settings, JSON> <descriptor>"""

from __future__ import annotations

import select
import sys
from pathlib import Path

from orbitmq.actors.reput import Reput
from orbitmq.actors.supervisor import supervisor

gate = Path(sys.argv[1])
run = Reput.run


def gated(reput: Reput, limit_ms: int) -> None:
    if gate.exists():
        run(reput, limit_ms)
    else:
        select.poll().poll(1)


Reput.run = gated  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(supervisor.main(sys.argv[2:]))
