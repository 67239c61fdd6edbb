"""What the judge needs: Java, and RocketMQ's jars as Maven's own client fetches them, kept in build/interop.

ROCKETMQ_VERSION selects another release than the one of judge/pom.xml.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from scripts import maven
from scripts.maven import MavenError

__all__ = ["MavenError", "Toolchain", "provide", "provide_broker5", "provide_client5", "provide_oldest"]

BROKER5 = Path(__file__).resolve().parent / "broker5"
CLIENT5 = Path(__file__).resolve().parent / "client5"
OLDEST = Path(__file__).resolve().parent / "oldest"
SOURCES = Path(__file__).resolve().parent / "judge"
KEPT = maven.BUILD / "interop"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The Java to run, and the class path to run it with."""

    java: str
    class_path: str


def provide() -> Toolchain:
    """Fetches and compiles what is missing. Raises: MavenError."""
    java = maven.tool("java", "Java (default-jre-headless)")
    version = os.environ.get("ROCKETMQ_VERSION", "")
    sources = [SOURCES / f"{name}.java" for name in ("Judge", "Encoder", "Signed")]
    return Toolchain(java, maven.rocketmq(KEPT, SOURCES / "pom.xml", sources, version))


def provide_client5() -> Toolchain:
    """The same for the client of RocketMQ 5, which stands on its own jars. Raises: MavenError."""
    java = maven.tool("java", "Java (default-jre-headless)")
    place = maven.BUILD / "interop-client5"
    return Toolchain(java, maven.rocketmq(place, CLIENT5 / "pom.xml", [CLIENT5 / "Client5.java"]))


def provide_broker5() -> Toolchain:
    """The same for the broker of RocketMQ 5. Raises: MavenError."""
    java = maven.tool("java", "Java (default-jre-headless)")
    place = maven.BUILD / "interop-broker5"
    return Toolchain(java, maven.rocketmq(place, BROKER5 / "pom.xml", [BROKER5 / "Broker5.java"]))


def provide_oldest() -> Toolchain:
    """The same for the client of RocketMQ 3, which has names of its own. Raises: MavenError."""
    java = maven.tool("java", "Java (default-jre-headless)")
    place = maven.BUILD / "interop-oldest"
    return Toolchain(java, maven.rocketmq(place, OLDEST / "pom.xml", [OLDEST / "Oldest.java"]))
