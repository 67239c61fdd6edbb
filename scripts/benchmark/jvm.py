"""Programs of scripts/benchmark/rocketmq, each in a JVM of its own, with RocketMQ's jars, which Maven fetches into build/."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from scripts import maven

SOURCES = Path(__file__).resolve().parent / "rocketmq"
KEPT = maven.BUILD / "benchmark-rocketmq"
HEAP = ("-Xms512m", "-Xmx512m")
# What RocketMQ 4.9's start scripts grant it on Java 17: it unmaps files through the JDK's own classes.
_OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch", "jdk.internal.ref", "java.lang")
)
_PATIENCE_S = 300  # a watchdog


def class_path(version: str = "") -> str:
    """Of the programs and of RocketMQ; version: another one than pom.xml's. Raises: maven.MavenError."""
    return maven.rocketmq(KEPT, SOURCES / "pom.xml", sorted(SOURCES.glob("*.java")), version)


def command(classes: str, program: str, home: Path | str, *arguments: object) -> list[str]:
    """Java with its usual compilers. home: RocketMQ's files beside the store go here. Raises: maven.MavenError."""
    java = maven.tool("java", "Java (default-jre-headless)")
    properties = [f"-Duser.home={home}", f"-Drocketmq.client.logRoot={home}", "-Drocketmq.client.logUseSlf4j=true"]
    # However full this machine's disk is, the broker must write, and delete nothing by itself.
    properties += ["-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99"]
    return [java, *HEAP, *_OPENED, *properties, "-cp", classes, program, *map(str, arguments)]


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        return [held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]


class Program:
    """A JVM that answers lines with lines, until its standard input ends. What it says beside goes to a file of `home`."""

    def __init__(self, classes: str, program: str, home: Path, *arguments: object) -> None:
        self._said = home / f"{program}.said"
        with self._said.open("wb") as said:
            # A session of its own, as OrbitMQ has, and as services have: Linux divides the processors among sessions first.
            self._process = subprocess.Popen(
                command(classes, program, home, *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._rest = b""

    def ask(self, *words: object) -> Any:
        assert self._process.stdin
        self._process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self.line())

    def line(self) -> bytes:
        """The next line. Raises: RuntimeError."""
        assert self._process.stdout
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            ready, _, _ = select.select([descriptor], [], [], _PATIENCE_S)
            chunk = os.read(descriptor, 1 << 16) if ready else b""
            if not chunk:
                said = self._said.read_text(errors="replace").strip()[-4000:]
                raise RuntimeError(f"{self._said}: {'ended' if ready else 'no answer'}: {said}")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
