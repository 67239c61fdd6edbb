"""Entry of the `orbitmq` command, whose own libraries only the extra `cli` brings: without them it says so, in one line."""

from __future__ import annotations

import sys


def main() -> None:
    """See main.py."""
    try:
        from orbitmq.cli.main import main as command
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"error: the orbitmq command needs {error.name}, which is not installed\n  hint: pip install 'orbitmq[cli]'")
    command()


if __name__ == "__main__":
    main()
