"""Jars that Maven fetches, kept in the checkout's build folder: tests and benchmarks compare OrbitMQ with them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "build"
FETCH_S = 300  # a watchdog: 60 jars, 50 MB
COMPILE_S = 60  # a watchdog
# These programs end before it would repay to compile their code well, which is half of their processor time.
QUICK = "-XX:TieredStopAtLevel=1"


class MavenError(Exception):
    """The machine lacks something. Says what, and what would help."""


def tool(name: str, package: str) -> str:
    """Path of a program of the JDK, or of Maven. Raises: MavenError."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(Path(home) / "bin" / name, os.X_OK):
        return str(Path(home) / "bin" / name)
    found = shutil.which(name)
    if found is None:
        raise MavenError(f"no `{name}` on this machine; install {package}")
    return found


def kept(place: Path, kind: str, sources: Sequence[Path], make: Callable[[Path], None]) -> Path:
    """The folder in `place` made from this version of the sources: the one that is kept, or a new one, which appears complete
    or not at all."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = place / f"{kind}-{digest}"
    if not folder.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as work:
            made = Path(work) / kind
            made.mkdir()
            make(made)
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():  # unless another process has just made it
                    raise
    return folder


@contextmanager
def alone() -> Iterator[None]:
    """One process of this checkout at a time. Maven's folder of what it has fetched is not made for two Mavens at once."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "maven.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch(pom: Path, folder: Path, what: str, properties: Mapping[str, str] | None = None) -> None:
    """Copies the jars of a pom.xml, and those they need, to a folder. what: their name for the error message.

    Raises: MavenError.
    """
    maven = tool("mvn", "Maven (maven)")
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    goal += [f"-D{name}={value}" for name, value in (properties or {}).items()]
    command = [maven, "-B", "-q", "-f", str(pom), *goal]
    environment = {**os.environ, "MAVEN_OPTS": f"{QUICK} {os.environ.get('MAVEN_OPTS', '')}"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=FETCH_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise MavenError(f"Maven could not fetch {what} within {FETCH_S} s; is its registry within reach?") from None
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise MavenError(f"Maven could not fetch {what}: " + " ".join(said[:3])[:600])


def rocketmq(place: Path, pom: Path, sources: Sequence[Path], version: str = "") -> str:
    """The class path of Java sources and of the RocketMQ that a pom.xml names, or of another version of it. Both are kept in
    `place`, and the sources' folder comes first. Raises: MavenError."""
    properties = {"rocketmq.version": version} if version else None
    with alone():
        jars = kept(place, f"jars{version}", [pom], lambda folder: fetch(pom, folder, "RocketMQ", properties))
    classes = kept(place, f"classes{version}", sources, lambda folder: _compile(folder, jars, sources))
    return os.pathsep.join([str(pom.parent), str(classes), str(jars / "*")])


def _compile(folder: Path, jars: Path, sources: Sequence[Path]) -> None:
    compiler = tool("javac", "a Java compiler (default-jdk-headless)")
    options = ["--release", "11", "-Xlint:all", "-Werror", "-proc:none", "-encoding", "UTF-8", "-cp", str(jars / "*")]
    command = [compiler, f"-J{QUICK}", *options, "-d", str(folder), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{', '.join(source.name for source in sources)}: {done.stdout}{done.stderr}")
