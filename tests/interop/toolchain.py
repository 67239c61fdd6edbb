"""What the judge needs: Java, and RocketMQ's jars as Maven's own client fetches them, kept in build/interop.

ROCKETMQ_VERSION selects another release than the one of judge/pom.xml.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from scripts import maven
from scripts.maven import MavenError

__all__ = ["MavenError", "Toolchain", "provide"]

SOURCES = Path(__file__).resolve().parent / "judge"
KEPT = maven.BUILD / "interop"
COMPILE_S = 60


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The Java to run, and the class path to run it with."""

    java: str
    class_path: str


def provide() -> Toolchain:
    """Fetches and compiles what is missing. Raises: MavenError."""
    java = maven.tool("java", "Java (default-jre-headless)")
    version = os.environ.get("ROCKETMQ_VERSION", "")
    jars = maven.kept(KEPT, f"jars{version}", SOURCES / "pom.xml", lambda folder: _fetch(folder, version))
    classes = maven.kept(KEPT, f"classes{version}", SOURCES / "Judge.java", lambda folder: _compile(folder, jars))
    return Toolchain(java, os.pathsep.join([str(SOURCES), str(classes), str(jars / "*")]))


def _fetch(folder: Path, version: str) -> None:
    maven.fetch(SOURCES / "pom.xml", folder, "RocketMQ", {"rocketmq.version": version} if version else None)


def _compile(folder: Path, jars: Path) -> None:
    compiler = maven.tool("javac", "a Java compiler (default-jdk-headless)")
    options = ["--release", "11", "-Xlint:all", "-Werror", "-proc:none", "-encoding", "UTF-8", "-cp", str(jars / "*")]
    command = [compiler, *options, "-d", str(folder), str(SOURCES / "Judge.java")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
    assert done.returncode == 0, f"the judge does not compile:\n{done.stdout}{done.stderr}"
