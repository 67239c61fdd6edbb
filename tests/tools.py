"""Programs of others that judge what is here: a browser, promtool, logrotate, makers of file systems. scripts/test installs
them beside the first tests, and makes the file that $ORBITMQ_TOOLS_TOLD names when that has ended, well or not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.waiting import Stuck, until

TOLD = "ORBITMQ_TOOLS_TOLD"


def tool(*names: str, package: str) -> str:
    """Path of the first of these programs that is there. If none is, the test is skipped, and says so. package: Debian's."""
    told, late = os.environ.get(TOLD), ""
    if told:
        try:
            until(Path(told).exists, "scripts/test to have installed what it can")
        except Stuck:
            late = "; scripts/test is still installing"
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        which = f"{names[0]} is not" if len(names) == 1 else f"none of {', '.join(names)} is"
        pytest.skip(f"{which} installed (Debian: {package}){late}")
    return found
