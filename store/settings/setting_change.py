"""Changes the settings that a store remembers: for `orbitmq config` while no broker runs, for the coordinator while one does.
They count from the next start on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from orbitmq.errors import SettingError, WouldDelete
from orbitmq.errors.remedy import hint
from orbitmq.store import kept
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings import settings_file
from orbitmq.store.settings.setting_sources import OF_FILES_WHY, OF_ONE_START_WHY, file_values, in_file, value_for
from orbitmq.store.settings.setting_text import refused
from orbitmq.store.settings.settings import FILE_SETTINGS
from orbitmq.store.settings.settings_file import SettingsFile
from orbitmq.store.settings.tree_settings import KINDS, OF_ONE_START, tree_settings, unknown

LIMITS = ("retention_hours", "retention_bytes")


def change_settings(
    layout: StoreLayout, values: Mapping[str, Any], forget: Collection[str], *, allow_deletion: bool = False
) -> list[str]:
    """Checks the values as the next start would, and puts them into the store's file. Settings to forget go back to their
    defaults. Returns the names of those that have changed. The caller holds the store.

    The file may contain settings that no start would accept; this is how such a line is corrected or removed.

    Raises: SettingError: a setting is not valid, or a store does not remember it; nothing has changed then. WouldDelete:
        messages would be kept for a shorter time, or in less room, than until now, and nobody has allowed it. OSError: the file
        cannot be written."""
    file = settings_file.read(layout)
    gone = {name if name in file.values else name.replace("-", "_") for name in forget}
    for name in gone - file.values.keys():
        _check_name(name, None, "unset")
    for name, value in values.items():
        _check_name(name, value, "set")
    touched = {*values, *gone}
    before = file_values(file, touched)
    after = {**before, **{name: value_for(name, value) for name, value in values.items()}}
    after = {name: value for name, value in after.items() if name not in gone}
    before |= _readable(file, touched)
    limits, so_far = _limits(layout, file, after, touched), kept.load(layout)
    # A change of something else asks no question: the next start will ask if it has to.
    other = any(after.get(name) != before.get(name) for name in LIMITS)
    if other and limits.less_than(so_far) and any(layout.commitlog.glob("*")):
        if not allow_deletion:
            raise WouldDelete(
                f"cannot keep the messages of {layout.root} for {limits}: until now they are kept for {so_far}, and what is "
                "older would be deleted at the next start",
                hint=hint("to have it deleted, use {allow_deletion=True}; nothing has changed"),
                name="retention_hours" if limits.hours != so_far.hours else "retention_bytes",
                value=limits.hours if limits.hours != so_far.hours else limits.size,
            )
        # So that the next start, which may be unattended, does not ask again.
        kept.store(layout, limits)
    settings_file.change(layout, {name: after[name] for name in values if name in after}, gone)
    changed = {name for name in values if before.get(name) != after.get(name)}
    return sorted(changed | (gone & file.values.keys()))


def _readable(file: SettingsFile, names: Collection[str]) -> dict[str, Any]:
    """What the file says about these settings, as far as it can be read."""
    found = {}
    for name in set(names) & file.values.keys():
        with suppress(SettingError):
            found[name] = value_for(name, file.values[name])
    return found


def _limits(layout: StoreLayout, file: SettingsFile, options: dict[str, Any], given: Collection[str]) -> kept.Kept:
    """What a start with these settings would keep. Raises: SettingError: a setting is not valid; the error names its source if
    it was not given."""
    try:
        settings = tree_settings(str(layout.root), options)
    except SettingError as error:
        name = str(error.name)
        raise in_file(error, file, name) if name in options and name not in given else error from None
    return kept.Kept(settings.retention_hours, settings.retention_bytes)


def _check_name(name: str, value: Any, deed: str) -> None:
    if name not in KINDS:
        raise unknown(name, value, deed)
    if name in OF_ONE_START:
        raise refused(name, value, OF_ONE_START_WHY, "give it to `orbitmq up` or to orbitmq.Broker", deed)
    if name in FILE_SETTINGS:
        raise refused(name, value, OF_FILES_WHY, "give it when you make a store", deed)
