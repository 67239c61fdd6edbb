"""What the judge is made of: Java, and RocketMQ's jars as Maven's own client fetches them, kept in build/interop.

ROCKETMQ_VERSION names another release than the one of judge/pom.xml.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent / "judge"
KEPT = ROOT / "build" / "interop"
FETCH_S = 300  # a watchdog: 40 jars, 22 MB
COMPILE_S = 60


class CannotRun(Exception):
    """Something that the machine has to provide is missing; says what, and what would help."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The Java to run, and the class path to run it with."""

    java: str
    class_path: str


def provide() -> Toolchain:
    """Fetches and compiles what is not there yet. Raises: CannotRun."""
    java = _tool("java", "Java (default-jre-headless)")
    version = os.environ.get("ROCKETMQ_VERSION", "")
    jars = _kept(f"jars{version}", SOURCES / "pom.xml", lambda folder: _fetch(folder, version))
    classes = _kept(f"classes{version}", SOURCES / "Judge.java", lambda folder: _compile(folder, jars))
    return Toolchain(java, os.pathsep.join([str(SOURCES), str(classes), str(jars / "*")]))


def _tool(name: str, package: str) -> str:
    home = os.environ.get("JAVA_HOME")
    if home and os.access(Path(home) / "bin" / name, os.X_OK):
        return str(Path(home) / "bin" / name)
    found = shutil.which(name)
    if found is None:
        raise CannotRun(f"no `{name}` on this machine; install {package}")
    return found


def _kept(kind: str, source: Path, make: Callable[[Path], None]) -> Path:
    """The folder made from this version of a source: the one that is kept, or a new one, which appears whole or not at all."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    folder = KEPT / f"{kind}-{digest}"
    if not folder.is_dir():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as work:
            made = Path(work) / kind
            made.mkdir()
            make(made)
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():  # unless somebody else has just made it
                    raise
    return folder


def _fetch(folder: Path, version: str) -> None:
    maven = _tool("mvn", "Maven (maven)")
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    goal += [f"-Drocketmq.version={version}"] if version else []
    command = [maven, "-B", "-q", "-f", str(SOURCES / "pom.xml"), *goal]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise CannotRun(f"Maven could not fetch RocketMQ within {FETCH_S} s; is its registry within reach?") from None
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise CannotRun("Maven could not fetch RocketMQ: " + " ".join(said[:3])[:600])


def _compile(folder: Path, jars: Path) -> None:
    compiler = _tool("javac", "a Java compiler (default-jdk-headless)")
    options = ["--release", "11", "-Xlint:all", "-Werror", "-proc:none", "-encoding", "UTF-8", "-cp", str(jars / "*")]
    command = [compiler, *options, "-d", str(folder), str(SOURCES / "Judge.java")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
    assert done.returncode == 0, f"the judge does not compile:\n{done.stdout}{done.stderr}"
