"""The token that the console's API wants: a new one for each start, or one that a file keeps."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from orbitmq.errors import SettingError

BYTES = 32
LENGTH_MIN = 16


def new_token() -> str:
    return secrets.token_urlsafe(BYTES)


def token_of(file: Path | None) -> str:
    """The file's token; a file that does not exist is made, with a new one. None: a new one for this start.

    Raises: SettingError: others may read the file, or what it holds is no token. OSError: it cannot be read.
    """
    if file is None:
        return new_token()
    with suppress(FileExistsError), os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
        made.write(f"{new_token()}\n")
    with file.open() as kept:
        if os.fstat(kept.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            text = f"could not use the token in {str(file)!r}: other users may read or change the file"
            raise SettingError(text, hint=f"chmod 600 {file}", setting="token", value=str(file))
        token = kept.read().strip()
    if len(token) < LENGTH_MIN or not token.isascii() or not token.isprintable() or " " in token:
        text = f"could not use the token in {str(file)!r}: it is one word of at least {LENGTH_MIN} ASCII characters"
        raise SettingError(text, hint="remove the file, and a new one is made", setting="token", value=str(file))
    return token
