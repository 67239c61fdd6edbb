"""A Spark session on this machine alone that needs no configuration: quiet, without a port that others see, and able to read
OrbitMQ."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import orbitmq
from orbitmq.errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_LEAST = 17
ANSWER_S = 60.0  # how long Java may take to say which one it is
_JAVA_HINT = "install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"


def submitted() -> bool:
    """True if spark-submit has started this process: its master and settings are then the caller's."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def local_session(
    name: str = "orbitmq", *, cores: int | None = None, memory: str = "1g", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session in this process's own JVM, with the format "orbitmq" registered. The caller stops it.

    If this process has a session already, that one is returned, however it was configured.

    Args:
        cores: tasks at once; None: one for each core this process may use. memory: of the JVM.
        settings: of Spark, in addition to those made here or instead of them.
    Raises: SettingError: there is no Java, or it is too old. ImportError: PySpark is not installed.
    """
    require_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ImportError(f"{error}; Spark needs PySpark 4: pip install 'orbitmq[spark]'", name=error.name) from error

    from orbitmq.spark.data_source import register

    cores = cores or len(os.sched_getaffinity(0))
    # The JVM starts Spark's Python processes, and inherits the environment as it is now. They must find the same package as
    # this process, even if it was never installed but is in a checkout.
    root = str(Path(orbitmq.__file__).resolve().parent.parent)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])
    # Only spark-submit uses spark.pyspark.python.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    logging = Path(__file__).resolve().with_name("log4j2.properties")
    quiet = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()} -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # Conditions on topic, partition, offset, timestamp and tags reduce what is read; 4.0 has no such setting.
        "spark.sql.python.filterPushdown.enabled": "true",
        # A topic with the name 2024 stays text when it is read back from the name of a folder.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in {**quiet, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register(session)
    return session


def require_java() -> str:
    """Path of the Java that Spark will start. Raises: SettingError: there is none, or it is too old."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java is installed"
        raise SettingError(f"cannot start Spark: {where}", hint=_JAVA_HINT, name="JAVA_HOME", value=home)
    told = said_by([java, "-version"])
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    if found is None or int(found[1]) < JAVA_LEAST:
        version = found[1] if found else "of an unknown version"
        raise SettingError(f"cannot start Spark: {java} is Java {version}", hint=_JAVA_HINT, name="JAVA_HOME", value=home)
    return java


def said_by(command: list[str]) -> str:
    """What a short program prints. Raises: SettingError: it does not end."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SettingError(
            f"cannot find out which Java this is: {' '.join(command)} has not ended in {ANSWER_S:g} s",
            hint=_JAVA_HINT,
            name="JAVA_HOME",
            value=command[0],
        ) from None
    return done.stdout
