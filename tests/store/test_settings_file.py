"""Goal: what a store remembers is read as it was written, and a damaged file is an error that names the line, never the
defaults. Method: files by hand and by the program; every damage that an editor or a disk may do."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbitmq.errors import SettingError, WouldDelete
from orbitmq.store import kept
from orbitmq.store.kept import Kept
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings import settings_file
from orbitmq.store.settings.setting_change import change_settings
from orbitmq.store.settings.setting_sources import resolve, states
from orbitmq.store.settings.tree_settings import REMEMBERED


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    return layout


def sources(layout: StoreLayout, given: dict[str, object], environ: dict[str, str]) -> dict[str, tuple[object, str]]:
    found = resolve(str(layout.root), given, environ).settings
    names = ("retention_hours", "flush", "handlers", "log_file_size")
    values = {name: getattr(found, name, None) or getattr(found.files, name, None) or 0 for name in names}
    return {name: (values[name], found.sources.get(name, "default")) for name in names}


def test_what_counts_more(layout: StoreLayout) -> None:
    """Given, then environment, then file, then default; of the files' sizes the store's own."""
    layout.settings_toml.write_text('retention_hours = 0\nflush = "batch"\nhandlers = 3\n')
    found = sources(layout, {"handlers": 1, "flush": None}, {"ORBITMQ_HANDLERS": "2", "ORBITMQ_FLUSH": "timed"})
    assert found == {
        "retention_hours": (0, "file"),
        "flush": ("timed", "environment"),
        "handlers": (1, "given"),
        "log_file_size": (1 << 30, "default"),
    }
    layout.store_json.write_text(
        '{"layout": 1, "log_file_size": 65536, "queue_file_units": 10, "index_slots": 10, "index_entries": 10}'
    )
    assert sources(layout, {}, {"ORBITMQ_LOG_FILE_SIZE": "1G"})["log_file_size"] == (65536, "store")


def test_what_is_remembered_of_a_start(layout: StoreLayout) -> None:
    """What was given and what the environment said; not what belongs to one start, nor the sizes of files."""
    told = resolve(
        str(layout.root),
        {"flush": "batch", "name": "x", "owner": 1, "read_only": False, "log_file_size": "64K", "lane_capacity": "1M"},
        {"ORBITMQ_SPIN_US": "7"},
    ).told
    assert told == {"flush": "batch", "lane_capacity": 1 << 20, "spin_us": 7}
    assert set(REMEMBERED) >= {"retention_hours", "retention_bytes", "flush", "group", "message_max"}
    assert not {"name", "owner", "read_only", "log_file_size"} & set(REMEMBERED)


def test_comments_and_order_stay(layout: StoreLayout) -> None:
    layout.settings_toml.write_text("# mine\nhandlers = 2 # cores\n\nretention_hours = 0\n")
    assert settings_file.change(layout, {"handlers": 3, "flush": "batch"}, ["retention_hours"])
    text = layout.settings_toml.read_text()
    assert text.startswith("# mine\nhandlers = 3 # cores\n") and 'flush = "batch"' in text and "retention" not in text
    inode = layout.settings_toml.stat().st_ino
    assert not settings_file.change(layout, {"handlers": 3})
    assert layout.settings_toml.stat().st_ino == inode, "what stays as it is is not written"


WORDS = st.text(st.characters(exclude_categories=["Cs"]))
KNOWN = {bool: st.booleans(), int: st.integers(), float: st.floats(allow_nan=False), str: WORDS}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.fixed_dictionaries({}, optional={name: KNOWN[kind] for name, kind in REMEMBERED.items()}))
def test_a_new_file(layout: StoreLayout, values: dict[str, object]) -> None:
    """It says what the library that changes files would say, without the import of it."""
    layout.settings_toml.unlink(missing_ok=True)
    with patch.dict(sys.modules, {"tomlkit": None}):
        assert settings_file.change(layout, values) == bool(values)
    assert settings_file.read(layout).values == values
    if values:
        text = layout.settings_toml.read_text()
        assert text.startswith(f"# {settings_file.HEAD}\n\n")
        assert tomlkit.dumps(tomlkit.parse(text)) == text and tomlkit.parse(text).unwrap() == values


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("retention_hours = 0\nflush = batch\n", 2, "invalid value"),
        ("retention_hours\n", 1, "expected"),
        ("handlers = 1\nhandlers = 2\n", 2, "overwrite"),
        ('handlers = 1\nflush = "bat', 2, ""),
        ("handlers = 1\n\nflush = 'bat", 3, "expected"),
        ("handlers = 1\nspin_us = 2000000\n", 2, "it must be a whole number from 0 to 1,000,000"),
        ("handlers = 1\ngroup = 'a-group-that-is-not-there'\n", 2, "no group of this name"),
        ("\n\nretention_hour = 0\n", 3, "did you mean retention_hours"),
        ("[retention]\nhours = 3\n", 1, "no such setting"),
        ("handlers = 1\nname = 'x'\n", 2, "no store remembers it"),
        ("log_file_size = 65536\n", 1, "fixed when the store is made"),
        ("handlers = 1\nretention_hours = 'for ever'\n", 2, "a whole number"),
        ("handlers = 1\nflush = 'bätch'\n".encode("latin-1"), 2, "not UTF-8"),
    ],
)
def test_a_damaged_file_names_its_line(layout: StoreLayout, text: str | bytes, line: int, why: str) -> None:
    content = text if isinstance(text, bytes) else text.encode()
    layout.settings_toml.write_bytes(content)
    with pytest.raises(SettingError) as caught:
        resolve(str(layout.root), {}, {})
    assert f"{layout.settings_toml}, line {line}" in str(caught.value) and why in str(caught.value), caught.value
    with pytest.raises(SettingError):
        change_settings(layout, {"handlers": 1}, [])
    assert layout.settings_toml.read_bytes() == content


def test_every_file_that_was_cut_short(layout: StoreLayout) -> None:
    """A file whose end is missing either counts as written so, or is an error with a line; no other exception."""
    whole = '# one\nretention_hours = 0\nflush = "batch"\nrestart_period_s = 2.5\n'
    for size in range(len(whole)):
        layout.settings_toml.write_text(whole[:size])
        try:
            resolve(str(layout.root), {}, {})
        except SettingError as error:
            assert "line" in str(error)


def test_an_environment_that_cannot_be(layout: StoreLayout) -> None:
    with pytest.raises(SettingError, match="ORBITMQ_HANDLERS"):
        resolve(str(layout.root), {}, {"ORBITMQ_HANDLERS": "many"})
    with pytest.raises(SettingError, match="ORBITMQ_HANDLERS"):
        resolve(str(layout.root), {}, {"ORBITMQ_HANDLERS": "99"})
    assert resolve(str(layout.root), {}, {"ORBITMQ_HANDLERS": " "}).told == {}


def test_a_change_that_would_delete(layout: StoreLayout) -> None:
    """A shorter time is refused until it is allowed, and then the next start need not ask; an empty store has nothing to
    lose."""
    assert change_settings(layout, {"retention_hours": "24"}, []) == ["retention_hours"]
    kept.store(layout, Kept(24, 0))
    layout.log_file(0).write_bytes(bytes(1 << 16))
    with pytest.raises(WouldDelete) as caught:
        change_settings(layout, {"retention_hours": 12, "flush": "batch"}, [])
    assert caught.value.values["name"] == "retention_hours"
    assert settings_file.read(layout).values == {"retention_hours": 24}
    assert change_settings(layout, {"retention_hours": 12}, [], allow_deletion=True) == ["retention_hours"]
    assert kept.load(layout) == Kept(12, 0)
    assert change_settings(layout, {"retention_hours": 0}, []) == ["retention_hours"]
    kept.store(layout, Kept())
    with pytest.raises(WouldDelete):
        change_settings(layout, {}, ["retention_hours"])
    assert change_settings(layout, {"handlers": 2}, []) == ["handlers"]
    assert change_settings(layout, {"handlers": 2}, []) == []
    for name in ("name", "log_file_size", "colour"):
        with pytest.raises(SettingError):
            change_settings(layout, {name: 1}, [])


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('handlers = "x"', "handlers"),
        ("spin_us = 2000000", "spin_us"),
        ("retention-hours = 3", "retention-hours"),
        ("of_a_later_version = 3", "of_a_later_version"),
        ("name = 'x'", "name"),
        ("log_file_size = 65536", "log_file_size"),
        ("[handlers]\nx = 3", "handlers"),
        ("retention_hours = 1979-05-27", "retention_hours"),
    ],
)
def test_a_line_that_nobody_can_use_is_taken_out(layout: StoreLayout, line: str, name: str) -> None:
    """The error names file, line, setting and the command that removes it, which works."""
    layout.settings_toml.write_text(f"# mine\nflush = 'batch'\n{line}\n")
    with pytest.raises(SettingError) as caught:
        resolve(str(layout.root), {}, {})
    assert f"{layout.settings_toml}, line 3" in caught.value.message and name in caught.value.message
    assert f"orbitmq config unset {name} --store {layout.root}" in str(caught.value.hint)
    with pytest.raises(SettingError, match="line 3"):
        change_settings(layout, {"restarts": 3}, [])
    assert change_settings(layout, {}, [name, name]) == [name]
    assert layout.settings_toml.read_text() == "# mine\nflush = 'batch'\n"
    assert {each.name: each.value for each in states(resolve(str(layout.root), {}, {}).settings)}["flush"] == "batch"


def test_a_line_that_nobody_can_use_is_corrected(layout: StoreLayout) -> None:
    layout.settings_toml.write_text("handlers = 'many' # mine\nspin_us = 2000000\n")
    assert change_settings(layout, {"handlers": 2, "spin_us": "20"}, []) == ["handlers", "spin_us"]
    assert layout.settings_toml.read_text() == "handlers = 2 # mine\nspin_us = 20\n"
    for name in ("name", "log_file_size", "colour"):
        with pytest.raises(SettingError, match=f"cannot unset '{name}'"):
            change_settings(layout, {}, [name])


def test_a_damaged_line_is_shown(layout: StoreLayout) -> None:
    """If TOML itself is broken, no setting has a name any more; the line's text says what it was."""
    for text, shown in (
        ("handlers = 1\nretention_hours = o\n", "line 2, 'retention_hours = o'"),
        ("handlers = 1\nhandlers = 2\n", "line 2, 'handlers = 2'"),
        ("# \x85 one line\nflush = \x1b[2J\n", r"line 2, 'flush = \x1b[2J'"),
        ("flush = '" + "x" * 200, "line 1, \"flush = 'xxx"),
    ):
        layout.settings_toml.write_text(text)
        with pytest.raises(SettingError) as caught:
            resolve(str(layout.root), {}, {})
        assert shown in caught.value.message, caught.value
        assert len(caught.value.message) < 300 and caught.value.message.isprintable()
