"""Makes the import of a package a failure of the test, wherever it is tried, even if it has been imported before."""

from __future__ import annotations

import builtins
from collections.abc import Collection
from types import ModuleType
from typing import Any

import pytest


def refuse(monkeypatch: pytest.MonkeyPatch, packages: Collection[str], why: str) -> None:
    real = builtins.__import__

    def guarded(name: str, *rest: Any, **named: Any) -> ModuleType:
        assert name.partition(".")[0] not in packages, f"this test imports {name}: {why}"
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", guarded)
