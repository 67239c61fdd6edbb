"""Goal: the quickstart does the whole job on the real data, and damages nobody's files. Method: its parts alone, then the
whole, with cli/quickstart/workers.py and cli/quickstart/spark_part.py. Also of cli/quickstart/__main__.py and
cli/quickstart/summary.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from orbitmq.cli.quickstart import spark_part
from orbitmq.cli.quickstart.flights import FLIGHTS, Delays, airlines, flights, share
from orbitmq.cli.quickstart.folder import mark, prepare
from orbitmq.errors import SettingError
from tests.spark.quick_java import quick_java
from tests.waiting import WATCHDOG_S

SOME = 32_000


def test_the_source_is_whole() -> None:
    """Goal: every flight is sent by one producer, every aircraft's by the same. Method: read the file once."""
    senders: Counter[int] = Counter()
    of_plane: dict[object, int] = {}
    delays = Delays()
    for flight in flights():
        sender = share(flight, 2)
        senders[sender] += 1
        assert of_plane.setdefault(flight["tailnum"], sender) == sender
        delays.add(flight)
    assert sum(senders.values()) == delays.flights == FLIGHTS
    assert min(senders.values()) > FLIGHTS // 4
    assert set(delays.plain()) == set(airlines())


def test_it_empties_only_its_own_folder(tmp_path: Path) -> None:
    """Goal: a wrong --folder destroys no file. Method: a folder with somebody's files, then one of the program's."""
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(SettingError, match="holds something"):
        prepare(tmp_path, "quickstart")
    assert (tmp_path / "letter").read_text() == "dear"
    ours = tmp_path / "ours"
    prepare(ours, "quickstart")
    (ours / "store").mkdir()
    prepare(ours, "quickstart")
    assert [path.name for path in ours.iterdir()] == [mark("quickstart")]


@pytest.mark.parametrize(
    ("command", "limit_s", "code"), [(["cat"], WATCHDOG_S, 0), (["tail", "-f", "/dev/null"], 0.2, -signal.SIGKILL)]
)
def test_a_jvm_ends(command: list[str], limit_s: float, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: nobody waits for ever for one that does not."""
    monkeypatch.setattr(spark_part, "END_S", limit_s)
    with subprocess.Popen(command, stdin=subprocess.PIPE) as jvm:
        spark_part.let_end(jvm)
    assert jvm.returncode == code


@pytest.mark.timeout(900)
def test_the_whole_of_it(tmp_path: Path) -> None:
    """Goal: producers, broker, consumers and Spark agree with the source. Method: run it; it checks every count itself. The log
    has two files, whatever the number of flights; SOME are those of five weeks, with all airlines."""
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    (tmp_path / "java").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "orbitmq.cli.quickstart", "--folder", str(tmp_path / "quick"), "--flights", str(SOME)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime), "JAVA_HOME": str(quick_java(tmp_path / "java"))},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WRONG" not in done.stdout and done.stdout.count("right") == 9, done.stdout
    assert "Frontier Airlines" in done.stdout
    assert len(list((tmp_path / "quick" / "store" / "commitlog").iterdir())) >= 2
    assert not list((runtime / "orbitmq").glob("*.sock"))
