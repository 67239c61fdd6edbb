"""Goal: the program of docs/order-service.md does what its page says, line by line. Method: the page's commands with a broker
of the test's; each line of output is on the page, but for the time of day."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.client.broker.broker import Broker
from tests.trees import small_broker
from tests.waiting import WATCHDOG_S, until

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "order-service.md").read_text()
PROGRAM = DOCS / "examples" / "order_service.py"
TIME = re.compile(r"\d\d:\d\d:\d\d")
SCREENS = PAGE[: PAGE.index("## The program")]
LINES = [TIME.sub("TIME", line.removeprefix("    ")) for line in SCREENS.splitlines() if line.startswith("    ")]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with small_broker(tmp_path / "data", name="shop") as made:
        yield made


def command(tmp_path: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        cwd=tmp_path,
        env={**os.environ, "ORBITMQ_BROKER": "shop"},
        capture_output=True,
        text=True,
        check=False,
        timeout=WATCHDOG_S,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [TIME.sub("TIME", line) for line in done.stdout.splitlines()]


def test_the_page_shows_the_program() -> None:
    program = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert program is not None and program[1] == PROGRAM.read_text()
    assert len(program[1].splitlines()) == 60 and "60 lines" in PAGE
    shown = {line.removeprefix("$ python order_service.py ") for line in LINES if line.startswith("$ python")}
    assert shown == {"work &", "order ann coffee", "order bob cake", "dead", "again 0"}


def test_the_page_as_it_reads(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "menu.json").write_text('{"coffee": 3}')
    told: list[str] = []
    with (tmp_path / "told").open("w") as out:
        worker = subprocess.Popen(
            [sys.executable, str(PROGRAM), "work"], cwd=tmp_path, env={**os.environ, "ORBITMQ_BROKER": "shop"}, stdout=out
        )

    def says(line: str) -> None:
        until(lambda: line in (tmp_path / "told").read_text().splitlines(), f"the worker to say {line!r}")

    try:
        until(lambda: [group for group in broker.groups() if group.workers], "the worker to come")
        assert not command(tmp_path, "order", "ann", "coffee") and not command(tmp_path, "order", "bob", "cake")
        says("bob, try 3: no cake")
        says("bob has not paid yet")
        until(lambda: broker.group("shop").dead_letters, "the dead letter")
        told += command(tmp_path, "dead")
        (tmp_path / "menu.json").write_text('{"coffee": 3, "cake": 4}')
        told += command(tmp_path, "again", "0")
        says("bob has paid 4")
        assert not command(tmp_path, "dead") and command(tmp_path, "again") == ["0 sent again"]
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(WATCHDOG_S) == 0
    finally:
        worker.kill()
        worker.wait()
    told += (tmp_path / "told").read_text().splitlines()
    late = "ann has not paid yet"  # where everything takes seconds, the reminder may come before the order is charged
    assert sorted(line for line in told if line != late) == sorted(line for line in LINES if not line.startswith("$"))
    assert broker.group("shop").lag_messages == 0
