"""Programs in Java (java/), which know RocketMQ's client alone, each in a JVM of its own."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from orbitmq.cli.quickstart import jars
from orbitmq.errors import BrokerError, SettingError
from orbitmq.spark.session import require_java, said_by

SOURCES = Path(__file__).resolve().parent / "java"
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC")
COMPILER = "jdk.compiler"  # the part of a JDK that runs programs out of their source
END_S = 10.0  # how long a program that was told to end may take

Report: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Java:
    """How the programs are run. folder: for what they say."""

    program: str
    class_path: str
    folder: Path

    @classmethod
    def find(cls, folder: Path, given: Path | None) -> Java:
        """given: a folder with the client's jars; None: they are fetched.

        Raises: SettingError: there is no Java that can run them, or the client cannot be had."""
        java = require_java()
        if COMPILER not in said_by([java, "--list-modules"]):
            raise SettingError(
                f"cannot run programs in Java: {java} has no compiler",
                hint="install a JDK (Debian: apt-get install openjdk-17-jdk-headless), or set JAVA_HOME to one",
                name="JAVA_HOME",
            )
        return cls(java, jars.class_path(given if given is not None else jars.fetch(java, folder / "jars")), folder)


class JavaProgram:
    """A program of java/. What it reports, (its name, a word, what follows), and at last (its name, "ended", its exit code),
    goes into the queue."""

    def __init__(self, java: Java, name: str, arguments: Iterable[object], reports: queue.Queue[Report]) -> None:
        self.name = name
        self._log = java.folder / f"{name}.log"
        options = [*OPTIONS, f"-Drocketmq.client.logRoot={java.folder / 'rocketmq-logs'}"]
        command = [java.program, *options, "-cp", java.class_path, str(SOURCES / f"{name}.java"), *map(str, arguments)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self._reports = reports
        self._threads = [self._start(self._listen)]

    def feed(self, lines: Iterable[str]) -> None:
        """Writes them to its standard input, and then ends that, as fast as it reads."""
        self._threads.append(self._start(lambda: self._write(lines)))

    def failure(self, code: str) -> BrokerError:
        """What to raise if it has ended too early."""
        said = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        why = f": {said[0][:300]}" if said else ""
        return BrokerError(f"cannot go on: {self.name} ended with code {code}{why}", hint=f"{self._log} has all that it said")

    def close(self) -> None:
        """Ends it, however far it is."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for thread in self._threads:
            thread.join()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def _start(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name=self.name, daemon=True)
        thread.start()
        return thread

    def _write(self, lines: Iterable[str]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which is reported
            for line in lines:
                self._process.stdin.write(line.encode())
            self._process.stdin.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as said:
            for line in said:
                word, _, rest = line.decode(errors="replace").strip().partition(" ")
                self._reports.put((self.name, word, rest))
        self._reports.put((self.name, "ended", str(self._process.wait())))
