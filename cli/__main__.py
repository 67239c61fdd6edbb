"""Entry of the `orbitmq` command. Only the extra `cli` installs the libraries of the command; without them, one line says
so."""

from __future__ import annotations

import sys


def main() -> None:
    """See main.py."""
    try:
        from orbitmq.cli.main import main_process as command
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"error: the orbitmq command needs {error.name}, which is not installed\n  hint: pip install 'orbitmq[cli]'")
    command()


if __name__ == "__main__":
    main()
