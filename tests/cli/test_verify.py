"""Goal: `orbitmq verify` tells people and programs the truth about a store, and its exit code says it too.

Method: a store that a real broker wrote, read while the broker runs, after its stop, and with a bit flipped.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from orbitmq.client.broker.broker import Broker
from tests.cli.commands import run
from tests.cli.conftest import MESSAGES


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_whole_damaged_and_not_there(flows: Broker, tmp_path: Path) -> None:
    """Goal: exit codes 0, 1 and 2. Method: a running broker, a stopped one, one bit of a body flipped, no store at all."""
    store = tmp_path / "store"
    running = run("verify", "--store", str(store))
    assert running.returncode == 0 and "whole" in running.stdout and "a broker runs" in running.stdout, running
    flows.close()
    [verdict] = lines(run("verify", "--store", str(store), "--json"))
    assert verdict["whole"] and verdict["records"] == MESSAGES and not verdict["running"]

    log = store / "commitlog" / f"{0:020d}"
    content = bytearray(log.read_bytes())
    at = content.index(b"1234")
    content[at] ^= 0x10
    log.write_bytes(content)
    done = run("verify", "--store", str(store))
    assert done.returncode == 1 and "2 faults " in done.stdout and "log-record" in done.stdout and str(log) in done.stdout
    *findings, verdict = lines(run("verify", "--store", str(store), "--json"))
    assert sorted(str(finding["kind"]) for finding in findings) == ["log-record", "message-lost"] and not verdict["whole"]
    [finding] = [finding for finding in findings if finding["kind"] == "log-record"]
    offset, size = finding["offset"], finding["size"]
    assert isinstance(offset, int) and isinstance(size, int) and offset < at < offset + size

    nothing = run("verify", "--store", str(tmp_path / "nothing"))
    assert nothing.returncode == 2 and "nothing" in nothing.stderr and "Traceback" not in nothing.stderr
    assert not (tmp_path / "nothing").exists(), "it makes nothing"
