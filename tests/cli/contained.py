"""A broker in namespaces of its own, as a container has them: processes, /dev/shm of 64 MiB, and the folders of ops/, which are
those of the test inside it. Commands can be run beside it, as those of other containers that share what the documents say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.waiting import WATCHDOG_S, until

AS_ROOT = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
ALONE = ["unshare", *AS_ROOT, "--pid", "--ipc", "--mount", "--fork", "--mount-proc", "--kill-child"]
# The folders of the container are on file systems of its own, which nobody else sees.
PREPARE = """
set -e
for place in /var/lib /run /opt; do mount -t tmpfs tmpfs $place; done
mkdir /var/lib/orbitmq /run/orbitmq /opt/orbitmq
mount --bind "$2" /var/lib/orbitmq
mount --bind "$3" /opt/orbitmq
mount -t tmpfs -o size=$1 tmpfs /dev/shm
shift 3
exec "$@"
"""
VENV = Path(sys.prefix)
ENVIRONMENT = {
    "PATH": f"{VENV / 'bin'}:/usr/bin:/bin:/usr/sbin:/sbin",
    "ORBITMQ_RUNTIME_DIR": "/run/orbitmq",
    "ORBITMQ_LOG_FILE_SIZE": "1M",  # a test needs no files of 1 GiB
    "NO_COLOR": "1",
    "COLUMNS": "200",
}


class Contained:
    """Runs the command as the first process of its namespace."""

    def __init__(self, folder: Path, command: Sequence[str], *, shm: str = "64m") -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        words = [*ALONE, "sh", "-c", PREPARE, "sh", shm, str(folder), str(VENV), *command]
        self.process = subprocess.Popen(
            words, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    @property
    def first(self) -> int:
        """Its first process, by the number that it has out here."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(until(children.read_text, "the first process").split()[0])

    def beside(
        self, *command: str, pid: bool = True, shm: bool = True, feed: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """pid: in the same pid namespace, and not in one of its own. shm: with the same /dev/shm."""
        enter = ["nsenter", "--target", str(self.first), "--mount", "--ipc", *(["--user"] if AS_ROOT else [])]
        own = [] if pid else ["unshare", "--pid", "--mount", "--fork", "--mount-proc", "--"]
        own += [] if shm else ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh"]
        words = [*enter, *(["--pid"] if pid else []), "--", *own, *command]
        return subprocess.run(words, env=ENVIRONMENT, input=feed, capture_output=True, text=True, check=False)

    def ready(self, *command: str) -> None:
        """Returns when this command ends with 0."""
        until(lambda: self.process.poll() is not None or self.beside(*command).returncode == 0, "a broker that is ready")
        assert self.process.poll() is None, self.errors()

    def stop(self) -> int:
        """As a container is stopped. Returns the exit code."""
        os.kill(self.first, signal.SIGTERM)
        return self.process.wait(WATCHDOG_S)

    def errors(self) -> str:
        return self.process.communicate(timeout=WATCHDOG_S)[1]

    def __enter__(self) -> Contained:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()  # and so all that it has started
        self.process.communicate()
