"""A Java for programs that start, do little and end, like those of these tests: the machine's own, told to compile once and
quickly. The programs do the same with it.

`python -m tests.spark.quick_java`, which scripts/test calls, makes an archive of Spark's classes for the installed PySpark.
Java maps the classes from there, instead of reading, verifying and linking them at each start. With both, a start takes less
than half of the processor time. While an archive is made, tests that start Java wait for it, and all others run. If the archive
is missing or no longer fits, Java works without it.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from orbitmq.spark.session import require_java

ROOT = Path(__file__).resolve().parents[2]
READY = Path(__file__).with_name("ready")
KEPT = ROOT / "build" / "quick-java"
WATCHDOG_S = 500
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"
# Of the JVMs of a start only Spark's own is worth it, and only it has these classes.
MAKING = """#!/bin/sh
case "$*" in *deploy.SparkSubmit*) set -- "-XX:ArchiveClassesAtExit={archive}" "$@" ;; esac
exec "{java}" {quick} {kept} "$@"
"""
USING = """#!/bin/sh
[ ! -e "{archive}" ] || set -- "-XX:SharedArchiveFile={archive}" "$@"
exec "{java}" {quick} {kept} "$@"
"""


def quick_java(folder: Path) -> Path:
    """Makes what JAVA_HOME can name, in this folder.

    Raises: SettingError: no Java, or one too old.
    """
    with _locked(fcntl.LOCK_SH):  # somebody may be making the archive
        return _home(folder, USING, _archive())


def _archive() -> Path:
    return KEPT / f"spark-{metadata.version('pyspark')}.jsa"


@contextmanager
def _locked(how: int) -> Iterator[None]:
    KEPT.mkdir(parents=True, exist_ok=True)
    with _archive().with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, how)
        yield


def make_archive() -> None:
    with _locked(fcntl.LOCK_EX):
        if not _archive().exists():
            _make()


def _make() -> None:
    with tempfile.TemporaryDirectory(dir=KEPT) as made:
        folder = Path(made)
        # Python's workers start sooner (ready/sitecustomize.py): Spark waits 10 s for one, whatever else the machine does.
        path = os.pathsep.join([str(READY), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "JAVA_HOME": str(_home(folder, MAKING, folder / "jsa")), "PYTHONPATH": path}
        command = [sys.executable, "-m", "tests.spark.quick_java", str(folder)]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WATCHDOG_S,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        (folder / "jsa").rename(_archive())


def _home(home: Path, program: str, archive: Path) -> Path:
    for folder in ("bin", "tmp"):
        (home / folder).mkdir()
    kept = f"-Djava.io.tmpdir='{home / 'tmp'}'"  # a JVM that is killed leaves files
    (home / "bin" / "java").write_text(program.format(java=require_java(), quick=QUICK, kept=kept, archive=archive))
    (home / "bin" / "java").chmod(0o755)
    return home


def use_spark(folder: Path) -> None:
    """Does a little of what the tests do, so that the JVM has their classes when it ends."""
    from orbitmq.spark.session import local_session
    from tests.tables.stored_topics import StoredTopics

    stored = StoredTopics(folder / "store")
    stored.add("a", 2)
    for number in range(10):
        stored.send("a", b"%d" % number)
    spark = local_session("archive", cores=2)
    options = {"path": str(stored.root), "subscribe": "a"}
    spark.read.format("orbitmq").options(**options).load().collect()
    stream = spark.readStream.format("orbitmq").options(**options, startingOffsets="earliest").load()
    writer = stream.writeStream.format("parquet").option("path", str(folder / "out"))
    writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    process = gateway.proc
    spark.stop()
    # Java writes the archive when it ends, which it does by itself at the end of its input.
    process.stdin.close()
    process.wait(WATCHDOG_S)


if __name__ == "__main__":
    use_spark(Path(sys.argv[1])) if sys.argv[1:] else make_archive()
