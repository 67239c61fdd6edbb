"""A broker of RocketMQ 5 as a child process (broker5/Broker5.java). It judges pops, which RocketMQ 4 does not have."""

from __future__ import annotations

from pathlib import Path

from tests.interop.judge import free_ports
from tests.interop.jvm import QUICK, WITHOUT_KEYS, Jvm
from tests.interop.toolchain import BROKER5, Toolchain

# What RocketMQ's start scripts grant it on Java 17: it unmaps files through the JDK's own classes.
_OPENED = ("java.nio", "sun.nio.ch", "jdk.internal.ref", "java.lang")


class Broker5(Jvm):
    """listens: its address."""

    def __init__(self, tools: Toolchain, folder: Path) -> None:
        # However full this machine's disk is, the broker must write, and delete nothing by itself.
        properties = [f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}"]
        properties += ["-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99"]
        properties += [f"-Drmq.logback.configurationFile={BROKER5 / 'logback.xml'}"]
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        command = [tools.java, *QUICK, WITHOUT_KEYS, *opened, *properties, "-cp", tools.class_path, "Broker5"]
        super().__init__(command, folder, folder / "said")
        port = free_ports(usual=False)["port"]
        self.listens = f"127.0.0.1:{port}"
        self.ask("start", store=str(folder / "store"), port=port)
        self.running = True
