"""No test here asks what a sync does."""

from tests.fast import tmp_path, warm

__all__ = ["tmp_path", "warm"]
