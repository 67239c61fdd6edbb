"""These tests kill nobody and ask for no sync."""

from __future__ import annotations

from tests.fast import tmp_path, warm

__all__ = ["tmp_path", "warm"]
