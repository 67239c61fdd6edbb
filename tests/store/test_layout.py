"""Goal: a store is made once, opened again only with its own sizes, and refused with a clear error where it cannot be.

Method: real folders under tmp_path; RocketMQ-written stores are imitated by their file names and lengths.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbitmq import errors
from orbitmq.store.file_system import mount_of, refuse_network
from orbitmq.store.layout import LAYOUT_VERSION, StoreLayout
from orbitmq.store.settings.settings import FILE_SETTINGS, GIB, KIB, MIB, StoreSettings

SMALL = StoreSettings(log_file_size=64 * KIB, queue_file_units=16, index_slots=10, index_entries=20)


def opened(path: Path, settings: StoreSettings = SMALL) -> StoreLayout:
    layout = StoreLayout.at(path)
    layout.open(settings)
    return layout


def test_a_store_is_described_once(tmp_path: Path) -> None:
    layout = opened(tmp_path / "a" / "b")
    described = json.loads(layout.store_json.read_text())
    assert described == {"layout": LAYOUT_VERSION, **{name: getattr(SMALL, name) for name in FILE_SETTINGS}}
    before = layout.store_json.stat().st_mtime_ns
    layout.open(SMALL)
    assert layout.store_json.stat().st_mtime_ns == before
    assert list(layout.commitlog.iterdir()) == []


def test_sizes_come_from_the_store_unless_given(tmp_path: Path) -> None:
    layout = opened(tmp_path)
    assert layout.settings(flush_interval_ms=7) == StoreSettings(
        log_file_size=64 * KIB, queue_file_units=16, index_slots=10, index_entries=20, flush_interval_ms=7
    )


def test_sizes_stay_open_until_there_is_a_file(tmp_path: Path) -> None:
    """A first start may fail for want of room; the next one may ask for smaller files."""
    layout = opened(tmp_path)
    layout.open(layout.settings(log_file_size=1 * MIB))
    assert layout.settings().log_file_size == 1 * MIB


def test_other_sizes_are_refused_with_both_values(tmp_path: Path) -> None:
    layout = opened(tmp_path)
    (layout.commitlog / f"{0:020d}").write_bytes(b"")
    with pytest.raises(errors.StoreSettingsError) as caught:
        layout.open(layout.settings(log_file_size=1 * MIB))
    assert (caught.value.name, caught.value.value, caught.value.stored) == ("log_file_size", 1 * MIB, 64 * KIB)
    assert "leave out log_file_size=" in str(caught.value)


@pytest.mark.parametrize("content", [b'{"layout": 99}', b"", b"[]", b'{"layout": 1}', b"\xff\x00", b'{"layout": "1"}'])
def test_another_version_is_refused(tmp_path: Path, content: bytes) -> None:
    layout = opened(tmp_path)
    layout.store_json.write_bytes(content)
    with pytest.raises(errors.StoreVersion) as caught:
        layout.open(SMALL)
    assert caught.value.known == LAYOUT_VERSION


def test_sizes_of_a_store_that_rocketmq_wrote(tmp_path: Path) -> None:
    layout = StoreLayout.at(tmp_path)
    layout.commitlog.mkdir()
    queue = layout.queue_folder("T", 0)
    queue.mkdir(parents=True)
    layout.index.mkdir()
    for path, size in (
        (layout.log_file(0), MIB),
        (queue / f"{0:020d}", 6000),
        (layout.index / "20240101000000000", 420000040),
    ):
        with path.open("wb") as file:
            file.truncate(size)
    assert layout.sizes() == {
        "log_file_size": MIB,
        "queue_file_units": 300,
        "index_slots": 5_000_000,
        "index_entries": 20_000_000,
    }
    layout.open(layout.settings())
    assert json.loads(layout.store_json.read_text())["log_file_size"] == MIB


def test_a_file_in_the_way_and_a_long_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.StoreUnsupported):
        opened(tmp_path / "file")
    with pytest.raises(errors.SettingError):
        StoreLayout.at("/" + "x/" * 2000)


@pytest.mark.parametrize(
    "options",
    [
        {"log_file_size": 0},
        {"log_file_size": 64 * KIB + 1},
        {"log_file_size": 2 * GIB},
        {"log_file_size": "1G"},
        {"queue_file_units": 0},
        {"index_entries": 1},
        {"index_entries": 107_000_000, "index_slots": 100_000_000},
        {"message_max": 16 * MIB - 64 * KIB + 1},
        {"message_max": 33 * KIB, "log_file_size": 64 * KIB},
        {"flush_interval_ms": 0},
        {"flush_interval_ms": True},
        {"flush": "never"},
        {"no_such": 1},
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(errors.SettingError) as caught:
        StoreLayout.at(tmp_path).settings(**options)
    assert caught.value.name in options


def test_the_largest_message_follows_the_file_size() -> None:
    assert StoreSettings().message_max == 4 * MIB
    assert SMALL.message_max == 16 * KIB
    assert StoreSettings().index_file_size == 420_000_040


MOUNTS = r"""
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:40 / /srv rw shared:3 - nfs4 host:/srv rw
24 23 8:2 / /srv/disk rw - xfs /dev/sdb rw
25 22 0:41 / /with\040space rw - cifs //host/x rw
26 22 8:3 / /over rw - nfs host:/o rw
27 26 8:4 / /over rw - ext4 /dev/sdc rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/x", "ext4"),
        ("/srv/store", "nfs4"),
        ("/srvstore", "ext4"),
        ("/srv/disk/store", "xfs"),
        ("/with space/store", "cifs"),
        ("/over/store", "ext4"),
    ],
)
def test_the_mount_under_a_path(path: str, kind: str) -> None:
    assert mount_of(Path(path), MOUNTS.strip()).kind == kind
    if kind in ("nfs4", "cifs"):
        with pytest.raises(errors.StoreUnsupported) as caught:
            refuse_network(Path(path), MOUNTS.strip())
        assert caught.value.kind == kind
    else:
        refuse_network(Path(path), MOUNTS.strip())
