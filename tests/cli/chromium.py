"""A browser for tests of the console's pages: Chromium without a window. Where none is installed, tests that need it are
skipped with the names that were looked for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FOUND = next(filter(None, map(shutil.which, NAMES)), None)
needs_chromium = pytest.mark.skipif(
    FOUND is None, reason=f"what the pages show cannot be looked at: none of {', '.join(NAMES)} is installed (Debian: chromium)"
)
PAGE_MS = 8000  # of the page's own clock, which stands still while it waits for an answer


def page(folder: Path, address: str, *more: str) -> str:
    """The elements of a page, as HTML, when it has drawn itself. folder: for the browser's own files."""
    assert FOUND is not None
    arguments = [FOUND, "--headless=new", "--disable-gpu", f"--user-data-dir={folder / 'chromium'}", "--no-first-run"]
    arguments += [f"--virtual-time-budget={PAGE_MS}", *more, "--dump-dom", address]
    if os.geteuid() == 0:
        arguments.insert(1, "--no-sandbox")  # root has no other way
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0 and "<main" in done.stdout, (done.stdout, done.stderr)
    return done.stdout


def text_of(html: str) -> str:
    """What a page says, without its elements."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html[html.index("<header") :]))


def elements_of(html: str) -> set[str]:
    """Names of the elements of a page."""
    return set(re.findall(r"<([a-z][a-z0-9]*)", html))
