"""remoting_load.c, a client of RocketMQ's protocol that costs little, built when it is first needed."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror")
SECONDS = 120  # a watchdog


@cache
def _program() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="orbitmq-remoting-load-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "remoting_load"
    subprocess.run(["gcc", *FLAGS, str(Path(__file__).with_suffix(".c")), "-o", str(program)], check=True)
    return program


def sends(port: int, topic: str, connections: int, window: int, ms: int) -> list[float]:
    """Requests, seconds, ns of the client's processor time, p50 and p99 in us."""
    command = [_program(), str(port), topic, str(connections), str(window), str(ms)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=SECONDS, start_new_session=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]
