"""Goal: type checkers know the same settings as the broker. Method: the typed dictionaries against the tables of the store."""

from __future__ import annotations

from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import pytest

from orbitmq.client.setting_types import BrokerSettings, Remembered
from orbitmq.shm.event import LEVELS
from orbitmq.store.settings.settings import AFTER_FAILED_SYNC, FLUSH_MODES
from orbitmq.store.settings.tree_settings import CLIENT_CERTIFICATES, KINDS, LOG_FORMATS, PLACEMENTS, REMEMBERED, TLS_MODES

CHOICES = {"flush": FLUSH_MODES, "after_failed_sync": AFTER_FAILED_SYNC, "placement": PLACEMENTS, "tls": TLS_MODES}
CHOICES |= {"tls_client_auth": CLIENT_CERTIFICATES}
CHOICES |= {"log_level": tuple(LEVELS), "log_format": LOG_FORMATS}
# `name` is a parameter of its own, and orbitmq.Broker sets `owner`.
SAID_OTHERWISE = {"name", "owner"}


def kinds(dictionary: Any) -> dict[str, tuple[type, tuple[str, ...]]]:
    """For each key the type, and the choices if there are some."""
    found = {}
    for name, hint in get_type_hints(dictionary).items():
        (kind,) = (each for each in get_args(hint) if each is not NoneType and not isinstance(each, TypeVar))
        found[name] = (str, get_args(kind)) if get_origin(kind) is Literal else (kind, ())
    return found


@pytest.mark.parametrize(("dictionary", "table"), [(BrokerSettings, KINDS), (Remembered, REMEMBERED)])
def test_the_types_are_those_of_the_table(dictionary: Any, table: dict[str, type]) -> None:
    wanted = {name: (kind, CHOICES.get(name, ())) for name, kind in table.items() if name not in SAID_OTHERWISE}
    assert kinds(dictionary) == wanted
    assert dictionary.__optional_keys__ == wanted.keys()
