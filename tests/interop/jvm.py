"""A Java program as a child process that gets one JSON line a question, and answers with one."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PATIENCE_S = 240  # a watchdog: what has not been answered by then never will be
QUICK = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# RocketMQ's clients give up on a connection after 3 s, for which a process of a busy machine may stand still.
PATIENT = "-Dcom.rocketmq.remoting.client.connect.timeout=180000"
# Otherwise each of a broker's servers generates a key for itself at each start, which takes a second of the processor.
WITHOUT_KEYS = "-Dtls.server.mode=disabled"


class JudgeError(Exception):
    """The program could not do what it was asked; the text has its trace."""


class Jvm:
    """log: where the program's libraries complain. running: what the program serves, if it does."""

    def __init__(self, command: Sequence[str], folder: Path, log: Path) -> None:
        self.log = log
        self.running = False
        self._said = (folder / "said").open("wb")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said)
        self._rest = b""

    def kill(self) -> None:
        """SIGKILL."""
        self.running = False
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self._said.close()

    def ask(self, operation: str, **fields: Any) -> Any:
        """The answer to one order. Raises: JudgeError."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"do": operation, **fields}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._dead(operation) from None
        answer = json.loads(self._line(operation))
        if "error" in answer:
            raise JudgeError(f"{operation}: {answer['trace']}\n{self._tail()}")
        return answer.get("ok")

    def _line(self, operation: str) -> bytes:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self._rest:
            ready, _, _ = select.select([descriptor], [], [], PATIENCE_S)
            if not ready:
                self.kill()
                raise JudgeError(f"{operation}: no answer within {PATIENCE_S} s\n{self._tail()}")
            chunk = os.read(descriptor, 1 << 20)
            if not chunk:
                raise self._dead(operation)
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _dead(self, operation: str) -> JudgeError:
        self.running = False
        said = Path(self._said.name).read_text(errors="replace")[-4000:]
        return JudgeError(f"{operation}: the program ended with code {self.process.wait(PATIENCE_S)}\n{said}\n{self._tail()}")

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        told = [line for line in lines if " INFO " not in line]
        return "\n".join(["RocketMQ's last complaints:", *(line[:300] for line in told[-30:])])
