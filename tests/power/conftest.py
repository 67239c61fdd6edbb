"""The program that cuts the power is forked from a process that has imported it; what it changes of the code, and its shim's
hooks, are its own."""

from __future__ import annotations

from tests.fast import warm

__all__ = ["warm"]
