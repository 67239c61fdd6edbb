"""RocketMQ 5's Java client for the remoting protocol as a child process (client5/Client5.java)."""

from __future__ import annotations

from pathlib import Path

from tests.interop.jvm import PATIENT, QUICK, Jvm
from tests.interop.toolchain import Toolchain


class Client5(Jvm):
    def __init__(self, tools: Toolchain, folder: Path) -> None:
        log = folder / "logs" / "rocketmqlogs" / "rocketmq_client.log"
        properties = [f"-Duser.home={folder}", f"-Drocketmq.log.root.dir={folder}", "-Drocketmq.client.logUseSlf4j=false"]
        command = [tools.java, *QUICK, PATIENT, *properties, "-cp", tools.class_path, "Client5"]
        super().__init__(command, folder, log)
