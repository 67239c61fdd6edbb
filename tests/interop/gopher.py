"""RocketMQ's Go client as a child process (gopher/main.go), which gets one JSON line an order."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

from scripts import maven
from tests.interop.toolchain import KEPT

SOURCES = Path(__file__).resolve().parent / "gopher"
PATIENCE_S = 240  # a watchdog: what has not been answered by then never will be
BUILD_S = 570  # a watchdog: a first build compiles the standard library, too


class GoError(Exception):
    """The machine lacks something, or the client could not do what it was told. Says what."""


def provide() -> Path:
    """The program, built from what Go's module proxy has, and kept for the next run. Raises: GoError."""
    try:
        go = maven.tool("go", "Go (golang-go)")
    except maven.MavenError as why:
        raise GoError(str(why)) from None
    sources = sorted(each for each in SOURCES.iterdir() if each.suffix in (".go", ".mod", ".sum"))
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "go-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # if two runs of the tests come together, one builds
        return maven.kept(KEPT, "gopher", sources, lambda folder: build(go, SOURCES, folder)) / "gopher"


def build(go: str, sources: Path, folder: Path) -> None:
    """Makes the program `gopher` in the folder, of the module in `sources`. Raises: GoError."""
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath",
        "GOTOOLCHAIN": "local",
        # Not optimised, as it does little, and without garbage collection in the compiler: a third less to compute.
        "GOGC": "off",
    }
    command = [go, "build", "-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w", "-o", str(folder / "gopher"), "."]
    try:
        done = subprocess.run(
            command, cwd=sources, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise GoError(f"Go could not build its client within {BUILD_S} s; is its module proxy within reach?") from None
    if done.returncode != 0:
        raise GoError("Go could not build its client: " + " ".join(done.stderr.split())[:600])


class Gopher:
    """One process for all clients. home: for the offsets that it keeps when it broadcasts."""

    def __init__(self, program: Path, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._said = (home / "said").open("wb")
        environment = {"ROCKETMQ_GO_LOG_LEVEL": "warn", **os.environ, "HOME": str(home)}
        self.process = subprocess.Popen(
            [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, env=environment
        )
        self._rest = b""

    def ask(self, operation: str, **fields: Any) -> Any:
        """The answer to one order. Raises: GoError."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": operation, **fields}).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self._line(operation))
        if "error" in answer:
            raise GoError(f"{operation}: {answer['error']}\n{self._tail()}")
        return answer.get("ok")

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._said.close()

    def _line(self, operation: str) -> bytes:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self._rest:
            ready, _, _ = select.select([descriptor], [], [], PATIENCE_S)
            chunk = os.read(descriptor, 1 << 20) if ready else b""
            if not chunk:
                self.process.kill()
                why = "it ended" if ready else f"no answer within {PATIENCE_S} s"
                raise GoError(f"{operation}: {why}\n{self._tail()}")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _tail(self) -> str:
        return Path(self._said.name).read_text(errors="replace")[-4000:]


def letters(*bodies: bytes, queue: int = -1, **others: Any) -> list[dict[str, Any]]:
    """Messages to be sent, all alike but for their bodies."""
    return [{"body": base64.b64encode(body).decode(), "queue": queue, **others} for body in bodies]


def body_of(shown: dict[str, Any]) -> bytes:
    return base64.b64decode(shown["body"] or "")
