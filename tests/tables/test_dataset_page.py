"""Goal: docs/dataset.md does what it says. Method: its programs are run one after the other, as printed, in a folder with a
store; what they print is compared with what was stored. Its lists are compared with the code."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import orbitmq
from orbitmq.tables.columns import COLUMNS
from tests.sources import ROOT
from tests.tables.stored_topics import StoredTopics

PAGE = (ROOT / "docs" / "dataset.md").read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    stored = StoredTopics(tmp_path / "data")
    stored.add("orders", 2)
    for number in range(60):
        named = {"region": "eu" if number % 4 else "us", "price": str(number)}
        stored.send("orders", b"%d" % number, tags=("paid", "new", None)[number % 3], keys=f"k{number}", properties=named)
    return tmp_path


def test_the_programs_run(folder: Path) -> None:
    program = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    assert all(name in program for name in ("duckdb", "polars", "to_pandas"))
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    paid = [number for number in range(60) if number % 3 == 0]
    turnover = {region: [n for n in paid if (n % 4 == 0) == (region == "us")] for region in ("eu", "us")}
    lines = done.stdout.splitlines()
    assert lines[0] == "60"
    assert lines[1] == str([(region, len(each), sum(each)) for region, each in turnover.items()])
    assert re.search(r"new +┆ 20.*paid +┆ 20.*null +┆ 20", done.stdout, re.DOTALL)
    assert "60" in lines[2:] and "b'k57'" in lines[-1] and "b'57'" in lines[-1]


def test_every_argument_and_column_is_named() -> None:
    table = PAGE[PAGE.index("| argument |") : PAGE.index("Choose columns")]
    named = re.findall(r"`(\w+)`", " ".join(line.split(" | ")[0] for line in table.splitlines()[2:]))
    assert named == list(inspect.signature(orbitmq.dataset).parameters)
    columns = PAGE[PAGE.index("The [columns]") : PAGE.index("## What comes back")]
    assert re.findall(r"`(\w+)`", columns) == list(COLUMNS)
    public = {name for name in vars(orbitmq.Dataset) if not name.startswith("_")}
    results = PAGE[PAGE.index("| of a dataset |") : PAGE.index("## What is in it")]
    assert public | {"__arrow_c_stream__"} == {name for name in re.findall(r"`(\w+)(?:\(\))?`", results)}
