"""A folder in the place of a file of the store: start, verify and repair say which folder it is and what belongs there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq import errors
from tests.trees import small_broker


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a file of every kind."""
    store = tmp_path_factory.mktemp("whole") / "store"
    with small_broker(store) as broker:
        broker.create_topic("orders", 1)
        with broker.producer() as producer, broker.consumer("g", ["orders"]) as consumer:
            producer.send("orders", b"x", keys="k", durability="flushed")
            assert consumer.poll(30)
            consumer.commit()
    return store


def files(store: Path) -> Iterator[Path]:
    for path in store.rglob("*"):
        if path.is_file():
            yield path.relative_to(store)


def test_every_file_may_be_a_folder(whole: Path, tmp_path: Path) -> None:
    names = sorted(files(whole))
    assert len(names) >= 12, names
    for name in names:
        store = tmp_path / "store"
        shutil.copytree(whole, store)
        (store / name).unlink()
        (store / name).mkdir()
        with pytest.raises(errors.StoreUnsupported, match=f"{name} is a folder, where (the|a|an) .* belongs; move it"):
            small_broker(store).__enter__()
        shutil.rmtree(store)


@pytest.mark.parametrize("command", ["verify", "repair"])
@pytest.mark.parametrize("name", ["checkpoint", "config/topics.json", "orbitmq/positions", f"commitlog/{0:020d}"])
def test_without_a_broker(whole: Path, tmp_path: Path, command: str, name: str) -> None:
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    (store / name).unlink()
    (store / name).mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "orbitmq.cli.main", command, "--store", str(store)],
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and f"{store / name} is a folder, where " in done.stderr, done
