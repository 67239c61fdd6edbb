"""Goal: a store remembers how it was run, and no start deletes messages because somebody forgot to say something. Method: real
trees, one after the other on a store; old messages where something could be deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.errors import NoPermission, SettingError, WouldDelete
from orbitmq.store import kept
from orbitmq.store.layout import StoreLayout
from tests.actors.test_retention_tree import FILE, files, old_store
from tests.trees import small_broker
from tests.waiting import until


def settings(broker: orbitmq.Client) -> dict[str, tuple[Any, str]]:
    return {each.name: (each.value, each.source) for each in broker.settings()}


def test_the_next_start_need_not_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keywords, then nothing; then the environment, then nothing; then a keyword against both. What belongs to one start is not
    remembered."""
    with small_broker(tmp_path, retention_hours=0, flush="batch", name="one") as broker:
        assert settings(broker)["flush"] == ("batch", "given") and broker.status().flush == "batch"
    with orbitmq.Broker(tmp_path) as broker:
        found = settings(broker)
        assert broker.status().retention_hours == 0 and broker.status().flush == "batch"
        assert found["retention_hours"] == (0, "file") and found["log_file_size"] == (FILE, "store")
        assert found["handlers"] == (2, "file") and found["stop_grace_s"] == (20.0, "default")
        assert broker.name != "one"
    monkeypatch.setenv("ORBITMQ_FLUSH_INTERVAL_MS", "100")
    monkeypatch.setenv("ORBITMQ_LOG_FILE_SIZE", "2M")
    with orbitmq.Broker(tmp_path) as broker:
        assert settings(broker)["flush_interval_ms"] == (100, "environment")
    monkeypatch.delenv("ORBITMQ_FLUSH_INTERVAL_MS")
    with orbitmq.Broker(tmp_path) as broker:
        assert settings(broker)["flush_interval_ms"] == (100, "file")
    monkeypatch.setenv("ORBITMQ_FLUSH_INTERVAL_MS", "200")
    with orbitmq.Broker(tmp_path, flush_interval_ms=300) as broker:
        assert settings(broker)["flush_interval_ms"] == (300, "given")


def test_a_start_that_fails_is_not_remembered(tmp_path: Path) -> None:
    """A setting with which no broker can run must not keep the next start from running."""
    with pytest.raises(SettingError):
        orbitmq.Broker(tmp_path, handlers=1, retention_bytes=5)
    with small_broker(tmp_path / "other", name="taken"), pytest.raises(SettingError, match="taken"):
        orbitmq.Broker(tmp_path, name="taken", handlers=1, flush="batch")
    with orbitmq.Broker(tmp_path) as broker:
        assert settings(broker)["flush"] == ("timed", "default")


def test_a_damaged_file_is_no_reason_to_delete(tmp_path: Path) -> None:
    with small_broker(tmp_path, retention_hours=0):
        pass
    layout = StoreLayout.at(tmp_path)
    layout.settings_toml.write_text("retention_hours = \n")
    with pytest.raises(SettingError, match="line 1"):
        orbitmq.Broker(tmp_path)
    layout.settings_toml.unlink()  # which its hint advises against
    assert kept.load(layout) == kept.Kept(0, 0)


@pytest.mark.parametrize("noted", [True, False])
def test_a_shorter_time_asks_first(tmp_path: Path, noted: bool) -> None:
    """Messages of 2023, and a broker that would keep them for 72 hours: because it was told so, by default, or because its file
    is gone."""
    old_store(tmp_path, t=None)
    with orbitmq.Broker(tmp_path, handlers=1, retention_hours=0):
        pass
    layout = StoreLayout.at(tmp_path)
    layout.settings_toml.unlink()
    if not noted:
        layout.retention.unlink()
    before = files(tmp_path)
    tolds: tuple[dict[str, int], ...] = ({}, {"retention_hours": 72}, {"retention_hours": 1, "retention_bytes": 3 * FILE})
    for told in tolds:
        with pytest.raises(WouldDelete) as caught:
            orbitmq.Broker(tmp_path, handlers=1, **told)
        assert caught.value.files == 2 and caught.value.size > 0 and "allow_deletion" in str(caught.value)
        assert ("its last broker kept them" in str(caught.value)) is noted
        assert files(tmp_path) == before
    with orbitmq.Broker(tmp_path, handlers=1, read_only=True):
        pass
    assert files(tmp_path) == before and not layout.settings_toml.exists()
    with orbitmq.Broker(tmp_path, handlers=1, allow_deletion=True) as broker:
        until(lambda: files(tmp_path)[0] == broker.status().positions.min_offset > 0, "files to go")
    with orbitmq.Broker(tmp_path, retention_hours=72):
        pass  # once is enough


def test_a_shorter_time_without_anything_that_old(tmp_path: Path) -> None:
    """Nothing would be deleted at once, so there is no question."""
    with small_broker(tmp_path, retention_hours=0) as broker:
        broker.create_topic("t")
        broker.producer().send("t", b"x")
    with orbitmq.Broker(tmp_path, retention_hours=1) as broker:
        assert broker.status().retention_hours == 1


def test_settings_of_a_running_broker(tmp_path: Path) -> None:
    """A change is in the file at once, and in the broker at its next start. An invalid one changes nothing."""
    with small_broker(tmp_path) as broker:
        assert broker.change_settings({"flush": "batch", "stop_grace_s": "5"}) == ["flush", "stop_grace_s"]
        assert broker.status().flush == "timed"
        with pytest.raises(SettingError, match="flush"):
            broker.change_settings({"handlers": 1, "flush": "never"})
        with pytest.raises(WouldDelete):
            broker.change_settings({"retention_hours": 1})
        assert broker.change_settings({"retention_hours": 1}, allow_deletion=True) == ["retention_hours"]
        assert broker.change_settings(forget=["handlers"]) == ["handlers"]
    with orbitmq.Broker(tmp_path) as broker:
        found = settings(broker)
        assert found["flush"] == ("batch", "file") and found["stop_grace_s"] == (5.0, "file")
        assert found["retention_hours"] == (1, "file") and found["handlers"][1] == "default"
    with orbitmq.Broker(tmp_path, read_only=True) as broker, pytest.raises(NoPermission, match="read-only"):
        broker.change_settings({"flush": "timed"})
