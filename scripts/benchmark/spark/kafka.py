"""A Kafka broker on this machine, one KRaft node run with plain `java`, and the jars of Spark's source for it."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts import maven

HERE = Path(__file__).resolve().parent
KEPT = maven.BUILD / "benchmark"
START_S = 240  # a watchdog
MEMORY = "1g"

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/log
num.partitions={partitions}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def source_jars() -> list[Path]:
    """Jars that make Spark know the format "kafka". Raises: MavenError."""
    pom = HERE / "kafka_source.xml"
    folder = maven.kept(KEPT, "kafka-source", [pom], lambda made: maven.fetch(pom, made, "Spark's Kafka source"))
    return sorted(folder.glob("*.jar"))


def broker_jars() -> Path:
    """Folder of the broker's jars. Raises: MavenError."""
    pom = HERE / "kafka_broker.xml"
    return maven.kept(KEPT, "kafka-broker", [pom], lambda made: maven.fetch(pom, made, "Kafka"))


@contextmanager
def broker(folder: Path, partitions: int) -> Iterator[str]:
    """A broker with Kafka's defaults, its log in the folder. Topics are created when they are written to, with so many
    partitions. Yields its address. Raises: MavenError."""
    java = maven.tool("java", "Java (default-jre-headless)")
    folder.mkdir()
    port, controller = _free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(_SETTINGS.format(port=port, controller=controller, folder=folder, partitions=partitions))
    run = [java, f"-Xmx{MEMORY}", "-cp", f"{broker_jars()}/*"]
    cluster = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
    format_log = [*run, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
    subprocess.run(format_log, check=True, capture_output=True, timeout=START_S)
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen([*run, "kafka.Kafka", str(settings)], stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    try:
        _wait_listening(process, port, folder / "output")
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()  # its log goes with the folder
        process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _wait_listening(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                said = output.read_text(errors="replace")[-300:]
                raise maven.MavenError(f"the Kafka broker does not listen on 127.0.0.1:{port}: {said}") from None
        time.sleep(0.1)
