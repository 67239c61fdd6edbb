"""The codecs of RocketMQ's protocol and properties, in ns of processor time a conversion: with each idea of RocketMQ 4.9.1 and
4.9.3, and as it was done before (codec.c); and RocketMQ's own, in Java (rocketmq/Codec.java).

What has no row: no name of a host is ever looked up, a message's id is text only when somebody asks for it, and there is no
code for namespaces. So these cannot be switched off."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from scripts import maven
from scripts.benchmark import jvm
from scripts.benchmark.result import Measure, Sample

NATIVE = Path(__file__).resolve().parents[2] / "native"
WARNINGS = ("-Wall", "-Wextra", "-Werror")
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-UNDEBUG", *WARNINGS, "-ffunction-sections", "-Wl,--gc-sections")
SOURCES = ("base/*.c", "format/*.c", "remoting/frame/remoting_*.c", "remoting/gateway/gateway_wish.c", "shared/topics.c")
ROUNDS = 300_000
SECONDS = 120  # a watchdog

BOTH = ("properties_read", "properties_written", "send_header", "pull_header", "answer_written")  # in Java, too
ALONE = ("properties_looked_up", "address", "name")
REFLECTED = "_reflected"  # RocketMQ fills the header's class by reflection, as before 4.9.1
JAVA = (*BOTH, f"send_header{REFLECTED}")


@cache
def _program() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="orbitmq-codec-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "codec"
    command = ["gcc", *FLAGS, f"-I{NATIVE}", str(Path(__file__).with_suffix(".c")), *map(str, core()), "-pthread"]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def core() -> list[Path]:
    """The C files of the core that the program uses. Raises: FileNotFoundError: there are none where they should be."""
    found = {pattern: sorted(NATIVE.glob(pattern)) for pattern in SOURCES}
    if missing := [pattern for pattern, paths in found.items() if not paths]:
        raise FileNotFoundError(f"cannot build the benchmark of the codecs: native/ has no {', '.join(missing)}")
    return [path for paths in found.values() for path in paths]


def converted(name: str) -> tuple[float, float]:
    """ns with the idea, and without."""
    done = subprocess.run([_program(), name, str(ROUNDS)], capture_output=True, text=True, check=True, timeout=SECONDS)
    with_it, without = json.loads(done.stdout)
    return with_it, without


def ideas() -> tuple[Sample, ...]:
    return tuple(Sample(*converted(name)) for name in (*BOTH, *ALONE))


def beside_java() -> tuple[Sample | None, ...]:
    try:
        command = jvm.command(jvm.class_path(), "Codec", tempfile.gettempdir())
    except maven.MavenError as error:
        print(f"codec: RocketMQ left out: {error}", file=sys.stderr)
        return (None,) * len(JAVA)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    found = json.loads(done.stdout.splitlines()[-1])
    return tuple(Sample(converted(name.removesuffix(REFLECTED))[0], found[name]) for name in JAVA)


MEASURES = (
    Measure(
        tuple(f"codec_{name}" for name in (*BOTH, *ALONE)), "ns", ideas, durability="-", broker=False, beside="before",
        targets=("<= 63 (1,590 times 10,000/s)", "<= 44 (2,257 times 10,000/s)", "", "", "", "", "", ""),
    ),
    Measure(
        tuple(f"codec_{name}_java" for name in JAVA), "ns", beside_java, durability="-", runs=3, broker=False,
        beside="RocketMQ 4.9.7", targets=(*[""] * len(BOTH), "<= 1/4"),
    ),
)  # fmt: skip
