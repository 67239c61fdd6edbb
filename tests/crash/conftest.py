"""Processes die here, not the machine: what they have written stays without a sync."""

from tests.fast import tmp_path, warm

__all__ = ["tmp_path", "warm"]
