"""Goal: a backup shares closed log files with its store where the file system can, and then neither notices what is written
into the other. Method: the whole drill on real file systems, each in a mount that ends with the process (reflink_drill.py)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.sources import ROOT
from tests.tools import tool
from tests.waiting import WATCHDOG_S

# Each with the smallest image that it takes, MiB, and Debian's package.
MAKERS = {
    "btrfs": (["mkfs.btrfs", "--quiet", "--mixed"], 128, "btrfs-progs"),
    "xfs": (["mkfs.xfs", "-q"], 320, "xfsprogs"),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_shared_until_written(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp(kind)  # on a disk: a file system in memory may not hold another one
    (name, *options), size, package = MAKERS[kind]
    maker = tool(name, package=package)
    image, mount = folder / "image", folder / "mount"
    with image.open("wb") as file:
        file.truncate(size << 20)
    mount.mkdir()
    subprocess.run([maker, *options, image], check=True, capture_output=True)
    private = ["unshare", "--mount", "sh", "-c"]
    tried = subprocess.run([*private, f"mount -o loop {image} {mount}"], check=False, capture_output=True, text=True)
    if tried.returncode:
        image.unlink()
        pytest.skip(f"this user or this kernel may not mount {kind}: {tried.stderr.strip()}")
    program = [sys.executable, "-m", "tests.store.reflink_drill", str(mount)]
    inside = f'mount -o loop {image} {mount} && exec "$0" "$@"'
    command = [*private, inside, *program]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=WATCHDOG_S)
    image.unlink()
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stdout + done.stderr
