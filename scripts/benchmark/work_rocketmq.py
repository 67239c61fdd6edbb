"""Transactions of RocketMQ: its own Java client in one process, broker and name server in another.

Maven fetches RocketMQ into build/. Without Java or Maven the measures are left out, with a note.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import cache

from scripts import maven
from scripts.benchmark import jvm
from scripts.benchmark.processor import ran_ns
from scripts.benchmark.result import Measure, Sample
from scripts.benchmark.stage import scratch_root

THREADS, WARM, TRANSACTIONS = 16, 5_000, 20_000
SECONDS = 300  # a watchdog


@cache
def _classes() -> str | None:
    """The class path; or None, with a note."""
    try:
        maven.tool("java", "Java (default-jre-headless)")
        return jvm.class_path()
    except maven.MavenError as error:
        print(f"peers: RocketMQ left out: {error}", file=sys.stderr)
        return None


def transactions() -> tuple[Sample | None, ...]:
    classes = _classes()
    if classes is None:
        return None, None, None
    with tempfile.TemporaryDirectory(dir=scratch_root(), ignore_cleanup_errors=True) as folder:
        names, port, ha_port = jvm.free_ports(3)
        serve = jvm.command(classes, "Server", folder, folder + "/store", names, port, ha_port, "orders")
        pipe, quiet_pipe = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(serve, stdin=pipe, stdout=pipe, stderr=quiet_pipe, text=True) as server:
            assert server.stdout and server.stdin
            try:
                while (line := server.stdout.readline()) != "ready\n":
                    if not line:
                        raise RuntimeError("RocketMQ's broker did not start")
                ran = ran_ns(server.pid)
                send = jvm.command(classes, "Transactions", folder, names, THREADS, WARM, TRANSACTIONS)
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
