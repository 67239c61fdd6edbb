"""The process that test_backup_kills.py kills: `python backup_program.py <store> <target>` makes one backup."""

from __future__ import annotations

import sys

from orbitmq.store.backup.backup import back_up
from orbitmq.store.layout import StoreLayout

if __name__ == "__main__":
    back_up(StoreLayout.at(sys.argv[1]), sys.argv[2])
