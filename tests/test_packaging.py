"""Goal: who installs OrbitMQ from a source distribution or a wheel gets all of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import orbitmq

ROOT = Path(__file__).resolve().parent.parent
BUILT = ("*.so", "*.o", "__pycache__", "*_core.c", "*.egg-info")

# A broker, a message through it and a clean end; and nothing from the checkout.
USE = """
import pkgutil, sys, orbitmq
assert "pyspark_orbitmq" in {module.name for module in pkgutil.iter_modules([sys.argv[1]])}, "Spark looks for it so"
assert orbitmq.__file__.startswith(sys.argv[1]), orbitmq.__file__
for name in orbitmq.__all__:
    getattr(orbitmq, name)
with orbitmq.Broker(sys.argv[2]) as broker:
    broker.create_topic("orders", queues=1)
    broker.producer().send("orders", b"out of the box")
    print(bytes(broker.consumer(topics=["orders"]).poll(timeout=30)).decode())
"""

# None in sys.modules stands for a module that cannot be found.
WITHOUT_EXTRAS = """
import sys
sys.modules["typer"] = None
from orbitmq.cli.__main__ import main
try:
    main()
except SystemExit as end:
    print(end)
"""


def run(*arguments: str, where: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    # Compiled without optimising: this is about what is there, not about how fast it is.
    environment = os.environ | {"PYTHONPATH": path, "ORBITMQ_CFLAGS": "-O0"}
    done = subprocess.run([sys.executable, *arguments], cwd=where, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.timeout(300)
def test_wheel_from_the_source_distribution_works(tmp_path: Path) -> None:
    """Method: a clean copy is packed, unpacked and built; the wheel is used from a folder of its own, and without its extras
    the command says what is missing."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("actors", "cli", "client", "native", "orbitmq", "pyspark_orbitmq", "remoting", "shm", "spark", "store"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns(*BUILT))
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    run("setup.py", "-q", "sdist", "--dist-dir", str(tmp_path), where=copy)
    shutil.unpack_archive(next(tmp_path.glob("*.tar.gz")), tmp_path / "unpacked")
    run("setup.py", "-q", "bdist_wheel", "--dist-dir", str(tmp_path), where=next((tmp_path / "unpacked").iterdir()))
    installed = tmp_path / "installed"
    shutil.unpack_archive(next(tmp_path.glob("*-abi3-*.whl")), installed, format="zip")
    assert (installed / "orbitmq" / "py.typed").is_file()
    [metadata] = installed.glob("orbitmq-*.dist-info/METADATA")
    assert "License-Expression: Apache-2.0" in metadata.read_text()
    assert (metadata.parent / "licenses" / "LICENSE").is_file()
    used = run("-c", USE, str(installed), str(tmp_path / "store"), where=tmp_path, path=str(installed))
    assert used.stdout == "out of the box\n"
    bare = run("-c", WITHOUT_EXTRAS, where=tmp_path, path=str(installed))
    assert "pip install 'orbitmq[cli]'" in bare.stdout
    version = run("-m", "orbitmq", "--version", where=tmp_path, path=str(installed))
    assert version.stdout == f"orbitmq {orbitmq.__version__}\n"
