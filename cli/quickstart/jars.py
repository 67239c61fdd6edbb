"""RocketMQ's Java client: its jars, which Spark's own fetcher of packages brings from Maven Central, so that nothing else has
to be installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

from orbitmq.errors import SettingError

VERSION = "4.9.7"
MODULE = ("org.apache.rocketmq", "rocketmq-client", VERSION)
FETCH_S = 300  # a watchdog: 20 jars, 10 MB
_BY_HAND = "put its jars, and those that they need, into a folder, and name it with --jars"


def class_path(jars: Path) -> str:
    """Of the jars in a folder. Raises: SettingError: the client is not among them."""
    if not any(jars.glob("rocketmq-client-*.jar")):
        why = "there is no rocketmq-client among them"
        raise SettingError(f"cannot use the jars in {jars}: {why}", hint=_BY_HAND, name="jars", value=str(jars))
    return str(jars / "*")


def fetch(java: str, folder: Path) -> Path:
    """A new folder with the jars. What was fetched once is kept where Ivy keeps it, in the user's home.

    Raises: SettingError."""
    folder.mkdir()
    pattern = folder / "[artifact]-[revision](-[classifier]).[ext]"
    what = ["-dependency", *MODULE, "-confs", "default", "-types", "jar", "-retrieve", str(pattern), "-warn"]
    command = [java, "-jar", str(_ivy()), *what]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False, stdin=subprocess.DEVNULL)
        said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        code = done.returncode
    except subprocess.TimeoutExpired:
        said, code = [f"it took more than {FETCH_S} s"], 1
    if code != 0 or not any(folder.iterdir()):
        raise SettingError(
            f"cannot get RocketMQ's Java client, {':'.join(MODULE)}, from Maven Central: {' '.join(said)[-400:]}",
            hint=f"try again where Maven Central can be reached, or {_BY_HAND}",
            name="jars",
        )
    return folder


def _ivy() -> Path:
    """Raises: SettingError: PySpark is not installed, or has none."""
    home = os.environ.get("SPARK_HOME")
    found = None if home else importlib.util.find_spec("pyspark")
    root = Path(home) if home else Path(found.origin).parent if found is not None and found.origin is not None else None
    jars = [] if root is None else sorted((root / "jars").glob("ivy-*.jar"))
    if not jars:
        why = "PySpark, which brings Ivy for it, is not installed" if root is None else f"{root} has no jar of Ivy"
        raise SettingError(
            f"cannot fetch RocketMQ's Java client: {why}",
            hint=f"run scripts/setup, or {_BY_HAND}",
            name="SPARK_HOME",
            value=home,
        )
    return jars[-1]
