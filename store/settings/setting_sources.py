"""Where a setting's value comes from. Each of these sources overrides those below it:

    given         to this start: on the command line, or as a keyword of orbitmq.Broker
    environment   ORBITMQ_<SETTING>
    file          orbitmq/settings.toml of the store: what earlier starts were given, and `orbitmq config set`
    store         the files themselves, whose sizes never change
    default       of this program, on this machine

The store remembers what a start is given, and what its environment says, once the broker runs: both go into its file. So a
setting holds until somebody changes it, whoever starts the broker next, and in whatever environment.
"""

from __future__ import annotations

import grp
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import environment
from orbitmq.errors.remedy import settings_file as as_keys
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings import settings_file
from orbitmq.store.settings.setting_text import from_environment, located, refused, value_of, variable_of
from orbitmq.store.settings.settings import FILE_SETTINGS, StoreSettings
from orbitmq.store.settings.settings_file import SettingsFile
from orbitmq.store.settings.tree_settings import KINDS, OF_ONE_START, REMEMBERED, TreeSettings, tree_settings

GIVEN, ENVIRONMENT, FILE, STORE, DEFAULT = "given", "environment", "file", "store", "default"
# The broker's name has a variable of its own, ORBITMQ_BROKER, and a pid does not belong into an environment.
VARIABLES = {name: kind for name, kind in KINDS.items() if name not in ("name", "owner")}

OF_ONE_START_WHY = "it belongs to one start, and no store remembers it"
OF_FILES_WHY = "it is fixed when the store is made"


class Resolved(NamedTuple):
    """settings: with `sources` filled. told: what this start was told beyond its file, and what the store is to remember."""

    settings: TreeSettings
    told: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SettingState:
    """One setting and its value; None if there is none."""

    name: str
    value: Any
    source: str


def resolve(store: str, given: Mapping[str, Any], environ: Mapping[str, str]) -> Resolved:
    """The settings that a start with these would have. A given None counts as not given. A given text is converted to the
    setting's type.

    Raises: SettingError: a setting does not exist, or its value is not valid, with the source of the value; or the store's file
        is damaged. StoreVersion, StoreUnsupported.
    """
    layout = StoreLayout.at(store)
    file = settings_file.read(layout)
    stored = file_values(file)
    told = {name: value_for(name, value) for name, value in given.items() if value is not None}
    around = from_environment(VARIABLES, environ)
    found = layout.sizes()
    # What the environment says about file sizes is for new stores; those of this store are fixed.
    around = {name: value for name, value in around.items() if name not in found}
    options = {**stored, **around, **told}
    sources = dict.fromkeys(stored, FILE) | dict.fromkeys(around, ENVIRONMENT) | dict.fromkeys(told, GIVEN)
    try:
        settings = tree_settings(store, options)
    except SettingError as error:
        name = str(error.name)
        source = sources.get(name)
        if source == FILE:
            raise in_file(error, file, name) from None
        if source == ENVIRONMENT:
            raise located(error, f"the environment's {variable_of(name)}", environment) from None
        raise
    sources = dict.fromkeys(found, STORE) | sources
    remember = {name: value for name, value in {**around, **told}.items() if name in REMEMBERED}
    return Resolved(replace(settings, sources=sources), remember)


def file_values(file: SettingsFile, without: Collection[str] = ()) -> dict[str, Any]:
    """What the file sets, converted to each setting's type, without these settings. Raises: SettingError: it contains something
    that a store does not remember."""
    values = {}
    for name, value in file.values.items():
        if name in without:
            continue
        try:
            if name not in KINDS:
                from difflib import get_close_matches

                close = get_close_matches(name, REMEMBERED, cutoff=0.5)
                meant = f"did you mean {' or '.join(close)}" if close else ""
                raise refused(name, value, "this version of OrbitMQ has no such setting", meant)
            if name in OF_ONE_START:
                raise refused(name, value, OF_ONE_START_WHY)
            if name in FILE_SETTINGS:
                raise refused(name, value, OF_FILES_WHY)
            values[name] = value_for(name, value)
        except SettingError as error:
            raise in_file(error, file, name) from None
    return values


def in_file(error: SettingError, file: SettingsFile, name: str) -> SettingError:
    """The same error, with the line of the file, and how to correct it."""
    command = f"orbitmq config unset {shlex.quote(name)} --store {shlex.quote(str(file.path.parents[1]))}"
    return located(error, file.place(name), as_keys, f"correct the line, or remove it: {command}")


def states(settings: TreeSettings) -> list[SettingState]:
    """Every setting that is meant for people, by name."""
    values: dict[str, Any] = {each.name: getattr(settings.files, each.name) for each in fields(StoreSettings)}
    values |= {name: getattr(settings, name) for name in KINDS if name not in values and name != "owner"}
    values["group"] = _group_name(settings.group)
    return [SettingState(name, values[name], settings.sources.get(name, DEFAULT)) for name in sorted(values)]


def value_for(name: str, value: Any) -> Any:
    """The value in the setting's type; a text is converted. Raises: SettingError: it cannot be."""
    kind = KINDS.get(name)
    return value_of(name, kind, value) if isinstance(value, str) and kind not in (None, str) else value


def _group_name(number: int | None) -> str:
    if number is None:
        return ""
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
