"""Ports for RocketMQ's clients: those of the store's settings, or, if there are none, those that --gateway would take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from orbitmq.cli.doctor.finding import Finding
from orbitmq.errors import OrbitError, SettingError, StoreError
from orbitmq.store import lock
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.listen_place import ListenPlace, listen_places
from orbitmq.store.settings.setting_sources import resolve

NOUN = "ports"


def look(layout: StoreLayout) -> list[Finding]:
    try:
        settings = resolve(str(layout.root), {}, os.environ).settings
    except SettingError as error:
        return [Finding.of_error("settings", error)]
    except (StoreError, OSError):
        return []  # it is a finding of the store
    places = listen_places(settings)
    if not places:
        return [of_unasked(listen_places(replace(settings, gateway=True)))]
    if layout.root.is_dir() and lock.is_held(layout):
        return [Finding(NOUN, f"{_named(places)}: the broker that runs on the store has them")]
    wrong = [Finding.of_error(NOUN, error) for error in map(taken, places) if error is not None]
    return wrong or [Finding(NOUN, f"{_named(places)}: free")]


def of_unasked(places: Sequence[ListenPlace]) -> Finding:
    """Nobody has asked for them, so it is no advice if they are taken."""
    errors = [error for error in map(taken, places) if error is not None]
    if not errors:
        return Finding(NOUN, f"{_named(places)}: free, for --gateway")
    return Finding(NOUN, "; ".join(["without --gateway none is needed", *(error.message for error in errors)]))


def taken(place: ListenPlace) -> OrbitError | None:
    """What a start would say."""
    try:
        place.bind().close()
    except SettingError as error:
        return error
    return None


def _named(places: Sequence[ListenPlace]) -> str:
    return ", ".join(str(each.address) for each in places)
