"""Goal: what the README shows works as printed. Method: its blocks are extracted and run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from orbitmq.actors.supervisor.segments import segment_sizes
from orbitmq.store.settings.settings import MIB, StoreSettings
from orbitmq.store.settings.tree_settings import TreeSettings, tree_settings

README = Path(__file__).resolve().parents[2] / "README.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def tmp_path(on_disk: Path) -> Path:
    """The brokers are started as users start them."""
    return on_disk


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "run").mkdir(mode=0o700)
    return {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "run"), "PYTHONPATH": str(README.parent)}


def test_first_block(tmp_path: Path, environment: dict[str, str]) -> None:
    """Goal: a newcomer's first minute goes well. Method: the commands in a shell; those that set up have been run already."""
    lines = [line for line in block("sh").splitlines() if not line.startswith(("scripts/setup", "source "))]
    command = f'orbitmq() {{ "{sys.executable}" -m orbitmq.cli.main "$@"; }}\nset -e\n' + "\n".join(lines)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("orders/0@0") == 3 and "stopped" in done.stdout


def test_every_setting_has_its_line() -> None:
    """Goal: every setting is documented, and no other. Method: the table of docs/operations.md against the settings."""
    text = (README.parent / "docs" / "operations.md").read_text()
    table = text[text.index("| setting | default |") : text.index("## Exit codes")]
    named = {name for line in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", line)}
    assert named == {each.name for kind in (TreeSettings, StoreSettings) for each in fields(kind)} - {
        "layout",
        "files",
        "together",
        "sources",
    }


def test_pages_name_the_shared_memory(tmp_path: Path) -> None:
    """Goal: who plans a container or parallel tests is told what a broker takes of /dev/shm. Method: what the pages say against
    the sizes of the segments, rounded up to MiB."""

    def taken(**options: object) -> int:
        return -(-sum(segment_sizes(tree_settings(str(tmp_path), options)).values()) // MIB)

    def page(name: str) -> str:
        return (README.parent / "docs" / name).read_text()

    together = {"placement": "together"}
    alone = taken(**together) - 3 * 8
    assert f"| `/dev/shm` | {alone} MiB, and `lane_capacity` (8 MiB, with a gateway 16)" in page("operations.md")
    assert f"with {taken(**together)} MiB of `/dev/shm`" in page("testing.md")
    containers = page("containers.md")
    assert f"A broker needs {alone} MiB, and 8 MiB for each" in containers
    assert taken(placement="spread", handlers=3) <= 64, "enough for three handlers"
    four, remote = taken(placement="spread", handlers=4), taken(gateway=True, **together)
    assert re.search(rf"four handlers.* \| {four} \|$", containers, re.MULTILINE)
    assert re.search(rf"with a gateway.* \| {remote} \|$", containers, re.MULTILINE)
    assert min(four, remote) > 64, "too little in two cases"


def patient(program: str) -> str:
    """For a machine on which the next message may come late: what ends a loop when nothing comes ends it later, and where a
    program of a page begins to read the newest, all that it has sent before is in the queues."""
    late = program.replace("idle=1", "idle=5").replace("timeout=1.0", "timeout=5.0").replace("timeout=0.5", "timeout=5.0")
    return late.replace("import math\n", "import math\nfrom tests.trees import indexed\nindexed(broker)\n")


def test_library_example(tmp_path: Path, environment: dict[str, str]) -> None:
    """Goal: the example shows a success and a failure. Method: run it, and look for both."""
    command = [sys.executable, "-c", patient(block("python"))]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.match("(appended|flushed) 0 0 ", lines[0]), "the disk may be sooner than the receipt"
    remedy = "write 'orders' if that is meant, or create it: orbitmq topic create ordesr"
    assert lines[1] == f"could not send to topic 'ordesr': it does not exist; {remedy}"
    assert sum(int(line.split()[0]) for line in lines[2:]) == 1002


@pytest.mark.parametrize("page", ["library.md", "errors.md", "administration.md", "which-consumer.md", "workers.md"])
def test_page_is_a_program(page: str, tmp_path: Path, environment: dict[str, str]) -> None:
    """Goal: a page's example shows what happens. Method: its blocks are one program; a comment after each print says what it
    prints."""
    if page == "library.md":
        pytest.importorskip("pyarrow")
    text = (README.parent / "docs" / page).read_text()
    program = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    told = re.findall(r"^ *print\(.*\) +# (.*)$", program, re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-c", patient(program)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == told and len(told) == program.count("print(")
