"""Transactions of RocketMQ: its own Java client in one process, broker and name server in another.

Maven fetches RocketMQ into build/. Without Java or Maven the measures are left out, with a note.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from scripts import maven
from scripts.benchmark.processor import ran_ns
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.stage import scratch_root

SOURCES = Path(__file__).resolve().parent / "rocketmq"
KEPT = maven.BUILD / "benchmark-rocketmq"
THREADS, WARM, TRANSACTIONS = 16, 5_000, 20_000
SECONDS = 300  # a watchdog


@cache
def _command() -> list[str] | None:
    """Java, with the class path; or None, with a note."""
    try:
        java, compiler = maven.tool("java", "Java (default-jre-headless)"), maven.tool("javac", "a Java compiler")
        wanted = SOURCES / "pom.xml"
        jars = maven.kept(KEPT, "jars", wanted, lambda folder: maven.fetch(wanted, folder, "RocketMQ"))
    except maven.MavenError as error:
        print(f"peers: RocketMQ left out: {error}", file=sys.stderr)
        return None

    def compiled(folder: Path) -> None:
        source = str(SOURCES / "Transactions.java")
        subprocess.run([compiler, "--release", "11", "-cp", str(jars / "*"), "-d", str(folder), source], check=True)

    classes = maven.kept(KEPT, "classes", SOURCES / "Transactions.java", compiled)
    return [java, "-Xmx2g", "-cp", os.pathsep.join([str(SOURCES), str(classes), str(jars / "*")]), "Transactions"]


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        return [held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]


def transactions() -> tuple[Sample | None, ...]:
    command = _command()
    if command is None:
        return None, None, None
    with tempfile.TemporaryDirectory(dir=scratch_root(), ignore_cleanup_errors=True) as folder:
        names, port, ha_port = map(str, _free_ports(3))
        quiet = ["-Duser.home=" + folder, "-Drocketmq.client.logRoot=" + folder]
        run = [command[0], *quiet, *command[1:]]
        serve = [*run, "serve", folder + "/store", names, port, ha_port]
        pipe, quiet_pipe = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(serve, stdin=pipe, stdout=pipe, stderr=quiet_pipe, text=True) as server:
            assert server.stdout and server.stdin
            try:
                while (line := server.stdout.readline()) != "ready\n":
                    if not line:
                        raise RuntimeError("RocketMQ's broker did not start")
                ran = ran_ns(server.pid)
                sizes = map(str, (THREADS, WARM, TRANSACTIONS))
                send = [*run, "send", names, *sizes]
                client = subprocess.run(send, capture_output=True, text=True, timeout=SECONDS, check=False)
                ran = ran_ns(server.pid) - ran
                if client.returncode:
                    raise RuntimeError(f"RocketMQ's client failed: {client.stderr.strip()}")
            finally:
                server.stdin.close()
        rate, client_ns = json.loads(client.stdout.splitlines()[-1])
        return Sample(rate), Sample(client_ns), Sample(ran / (WARM + TRANSACTIONS))


MEASURES = (
    Measure(
        ("work_rocketmq_transactions", "work_rocketmq_transactions_client_ns", "work_rocketmq_transactions_server_ns"), "1/s",
        transactions, durability="fsync every 0.5 s", runs=3, broker=False,
    ),
)  # fmt: skip
