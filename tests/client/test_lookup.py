"""Goal: a message is found by its names, and nothing else is mistaken for it. Method: a composed store with IndexFiles, some of
whose entries are false."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.client.lookup import message_by_id, messages_by_key
from orbitmq.errors import CorruptRecord, SettingError, TopicNameError, UnknownTopic, UsageError
from orbitmq.native._core import ffi, lib
from tests.client.composed_broker import ComposedBroker

SLOTS, ENTRIES = 16, 100


class Indexed(ComposedBroker):
    """With an IndexFile for each call of `index`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.settings = lib.control_settings(self.control)
        self.settings.index_slots, self.settings.index_entries = SLOTS, ENTRIES
        (root / "index").mkdir()

    def index(self, name: str, entries: list[tuple[str, str, int, int]]) -> None:
        """One file of entries: topic, key, physical offset, store time in ms."""
        file = ffi.new("struct index_file *")
        path = str(self.root / "index" / name).encode()
        assert lib.index_file_open(file, path, SLOTS, ENTRIES, True, True) == 0
        assert lib.index_file_reserve(file, len(entries)) == 0
        for topic, key, offset, store_ms in entries:
            prefix = f"{topic}#".encode()
            key_hash = lib.index_key_hash(lib.java_hash(0, prefix, len(prefix)), key.encode(), len(key.encode()))
            assert lib.index_file_put(file, key_hash, offset, store_ms) == 0
        lib.index_file_publish(file)
        lib.index_file_close(file)


@pytest.fixture
def broker(tmp_path: Path) -> Indexed:
    broker = Indexed(tmp_path / "store")
    broker.add_topic("t", 1)
    return broker


def append(broker: Indexed, key: str, store_ms: int) -> int:
    return broker.append("t", 0, key.encode(), properties={"KEYS": key}, store_ms=store_ms)


def test_by_id(broker: Indexed) -> None:
    places = [append(broker, f"k{number}", 1000) for number in range(3)]
    broker.publish()
    ids = [f"7F00000100000000{place:016X}" for place in places]
    assert [bytes(message_by_id(broker, id_)) for id_ in ids] == [b"k0", b"k1", b"k2"]
    assert bytes(message_by_id(broker, ids[1].lower())) == b"k1"


def test_an_id_that_names_nothing(broker: Indexed) -> None:
    """Between records, past the end, of another broker, and not an id at all."""
    place = append(broker, "k", 1000)
    broker.publish()
    unread = append(broker, "not yet", 1000)
    host = "7F00000100000000"
    elsewhere = f"0A000001000000FF{place:016X}"
    for wrong in [f"{host}{place + 1:016X}", f"{host}{unread:016X}", f"{host}{1 << 60:016X}", elsewhere, "x", ""]:
        with pytest.raises(UsageError):
            message_by_id(broker, wrong)
    for none in (None, 7, b"7F00000100000000"):
        with pytest.raises(UsageError, match="an id has 32 or 56 hexadecimal digits"):
            message_by_id(broker, none)  # type: ignore[arg-type]


def test_by_key(broker: Indexed) -> None:
    """"Aa" and "BB" have one hash; entries of two files come newest first; stale entries are passed over."""
    entries = []
    for number, key in enumerate(["Aa", "BB", "Aa", "Aa", "y"]):
        store_ms = 10_000 + 1000 * number
        entries.append(("t", key, append(broker, key, store_ms), store_ms))
    broker.publish()
    unread = append(broker, "Aa", 50_000)
    broker.index("20260101000000000", [*entries[:3], ("t", "Aa", entries[0][2] + 1, 12_000)])
    broker.index("20260102000000000", [*entries[3:], ("t", "Aa", unread, 50_000), ("t", "Aa", 1 << 40, 50_000)])

    def offsets(key: str, **limits: int) -> list[int]:
        return [message.offset for message in messages_by_key(broker, "t", key, **limits)]

    assert offsets("Aa") == [3, 2, 0]
    assert offsets("BB") == [1]
    assert offsets("nothing") == []
    assert len(offsets("Aa", most=1)) == 1
    with pytest.raises(SettingError):
        offsets("Aa", most=0)
    with pytest.raises(UnknownTopic, match="'u'"):
        messages_by_key(broker, "u", "Aa")
    with pytest.raises(TopicNameError):
        messages_by_key(broker, "two words", "Aa")


def test_store_times_bound_a_search(broker: Indexed) -> None:
    places = [append(broker, "k", 10_000 * number) for number in range(1, 6)]
    broker.publish()
    broker.index("20260101000000000", [("t", "k", place, 10_000 * (at + 1)) for at, place in enumerate(places)])
    found = messages_by_key(broker, "t", "k", begin_ms=20_000, end_ms=40_000)
    assert [message.stored_ms for message in found] == [40_000, 30_000, 20_000]


def test_damage_is_said(broker: Indexed) -> None:
    place = append(broker, "k", 1000)
    broker.write(place + 88, b"K")
    broker.publish()
    broker.index("20260101000000000", [("t", "k", place, 1000)])
    with pytest.raises(CorruptRecord):
        messages_by_key(broker, "t", "k")
    with pytest.raises(CorruptRecord):
        message_by_id(broker, f"7F00000100000000{place:016X}")
