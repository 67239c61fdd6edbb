"""Runs one of the project's scripts, for tests of the script itself."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from tests.waiting import WATCHDOG_S


def script_run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Without a terminal, its error output among its output."""
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
