"""Goal: `orbitmq backup` tells people and programs what it did, and why it did not.

Method: a store that a real broker wrote.
"""

from __future__ import annotations

import json
from pathlib import Path

from orbitmq.client.broker.broker import Broker
from tests.cli.commands import run


def test_a_backup_and_another_and_none(flows: Broker, tmp_path: Path) -> None:
    store, target = str(tmp_path / "store"), tmp_path / "backup"
    done = run("backup", str(target), "--store", store)
    assert done.returncode == 0 and done.stdout.startswith("backed up") and str(target) in done.stdout.replace("\n", ""), done
    assert run("verify", "--store", str(target)).returncode == 0
    told = json.loads(run("backup", str(target), "--store", store, "--json").stdout)
    assert told["end"] == flows.status().positions.wrote and told["copied"] > 0
    refused = run("backup", str(tmp_path / "store" / "inside"), "--store", store)
    assert refused.returncode == 1 and "it lies in the store" in refused.stderr.replace("\n", " "), refused
