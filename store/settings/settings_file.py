"""orbitmq/settings.toml: the settings that a store was given, so that the next start need not be given them again.

It has one `name = value` a line, and comments; no tables. The process that holds the store writes it: a broker at its start and
in its coordinator, or `orbitmq config` while no broker runs. It is replaced whole, so a crash leaves the old file or the new
one. If the file cannot be read, that is an error; the defaults are not used instead, because they may delete messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from orbitmq.errors import SettingError, StoreUnsupported
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import atomic_file
from orbitmq.store.file_places import misplaced
from orbitmq.store.layout import StoreLayout

HEAD = "Settings of this store, as its broker was last told. `orbitmq config set` changes them, or an editor and a restart."
_PLACE = re.compile(r"^(.*) \(at (?:line (\d+), column (\d+)|end of document)\)$", re.DOTALL)


class SettingsFile(NamedTuple):
    """What the file says. `path` need not exist; `text` is then empty."""

    path: Path
    text: str
    values: Mapping[str, Any]

    def place(self, name: str) -> str:
        """The line of a setting, for errors."""
        for number, line in enumerate(self.text.split("\n"), 1):
            if re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*[=.\]]|\s*\[+\s*[\"']?{re.escape(name)}", line):
                return f"{self.path}, line {number}"
        return str(self.path)


def read(layout: StoreLayout) -> SettingsFile:
    """Raises: SettingError: the file is not TOML; has .path and .line. StoreUnsupported: it cannot be read."""
    path = layout.settings_toml
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return SettingsFile(path, "", {})
    except UnicodeDecodeError as error:
        lines = path.read_bytes().split(b"\n")
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise _damaged(path, line, lines[line - 1].decode(errors="replace"), "it is not UTF-8") from None
    except IsADirectoryError:
        raise misplaced(layout.root, layout.files(), path) from None
    except OSError as error:
        raise StoreUnsupported(
            f"cannot read {path}: {error.strerror}", hint="run the broker as the owner of the store", path=str(path)
        ) from error
    import tomllib  # here: most stores have no such file

    try:
        return SettingsFile(path, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.match(str(error))
        line = int(found[2]) if found is not None and found[2] else _first_bad_line(text)
        why = found[1] if found is not None else str(error)
        raise _damaged(path, line, text.split("\n")[line - 1], why[:1].lower() + why[1:]) from None


def change(layout: StoreLayout, values: Mapping[str, Any], forget: Collection[str] = ()) -> bool:
    """Puts the values into the file, and removes those to be forgotten; comments and order stay. True if the file changed. The
    caller holds the store.

    Raises: SettingError, StoreUnsupported: as read; OSError: the file cannot be written, and is as it was."""
    before = read(layout)
    gone = [name for name in forget if name in before.values]
    fresh = {name: value for name, value in values.items() if not _same(before.values.get(name), value)}
    if not fresh and not gone:
        return False
    text = _changed(before.text, fresh, gone) if before.text else _made(fresh)
    try:
        atomic_file.replace(before.path, text.encode())
    except OSError:
        # A part of it must not take up what room there is.
        before.path.with_name(before.path.name + ".tmp").unlink(missing_ok=True)
        raise
    crash_point("settings_file_changed")
    return True


def _made(values: Mapping[str, Any]) -> str:
    """The text of a new file."""
    return "".join([f"# {HEAD}\n\n", *(f"{name} = {_written(values[name])}\n" for name in sorted(values))])


def _written(value: bool | int | float | str) -> str:
    """As TOML. JSON's strings are TOML's, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str | bool) else repr(value)


def _changed(text: str, fresh: Mapping[str, Any], gone: Collection[str]) -> str:
    # Imported here, because most starts change nothing, or make the file: the import takes as long as the rest of a start.
    import tomlkit

    document = tomlkit.parse(text)
    for name in gone:
        document.remove(name)
    for name in sorted(fresh):
        document[name] = fresh[name]
    return tomlkit.dumps(document)


def _first_bad_line(text: str) -> int:
    """If a text ends in the middle of something, this is where the reason is."""
    import tomllib

    lines = text.removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        try:
            tomllib.loads(line)
        except tomllib.TOMLDecodeError:
            return number
    return max(1, len(lines))


def _same(stored: object, value: object) -> bool:
    return type(stored) is type(value) and stored == value


def _damaged(path: Path, line: int, content: str, why: str) -> SettingError:
    return SettingError(
        f"cannot read the settings of the store: {path}, line {line}, {content.strip()[:60]!r}: {why}",
        hint="correct the line; without the file the store is run with the defaults, which may delete messages",
        path=str(path),
        line=line,
    )
