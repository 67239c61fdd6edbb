"""The gateway's certificate, and those that vouch for its clients': read at the start, and again when their files have changed,
as they do every few months."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path

from orbitmq.actors.interval import Interval
from orbitmq.errors import SettingError
from orbitmq.store.settings.setting_text import refused
from orbitmq.store.settings.tree_settings import TreeSettings

LOOK_S = 1.0
FILES = ("tls_cert", "tls_key", "tls_trust")
CLIENTS = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}


def context(settings: TreeSettings) -> ssl.SSLContext:
    """For connections of clients who speak TLS. Raises: SettingError: the files hold no certificate and its key, or none that
    vouch for clients'."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.options |= ssl.OP_NO_RENEGOTIATION
    made.num_tickets = 0  # a client that ends before it has read them resets the connection, and what it had said is lost
    for name in FILES:
        path = str(getattr(settings, name))
        try:
            if path and not Path(path).read_bytes().strip():
                raise refused(name, path, "the file is empty")
        except OSError as error:
            raise refused(name, path, f"it cannot be read: {error.strerror or error}") from None
    try:
        made.load_cert_chain(settings.tls_cert, settings.tls_key or None, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        why = f"this file and that of tls_key must hold a certificate and its key, in PEM and without a password: {error}"
        raise refused("tls_cert", settings.tls_cert, why) from None
    if settings.tls_trust:
        try:
            made.load_verify_locations(settings.tls_trust)
        except ssl.SSLError as error:
            why = f"the file must hold the certificates that vouch for clients', in PEM: {error}"
            raise refused("tls_trust", settings.tls_trust, why) from None
        made.verify_mode = CLIENTS[settings.tls_client_auth]
    return made


def _no_password() -> str:
    """OpenSSL would ask for one at the terminal."""
    raise ValueError("the key has a password")


class Certificate:
    """The context for new connections. say: takes a line for the broker's log. If the files cannot be used any more, the last
    context is. Raises: SettingError, at the start."""

    def __init__(
        self, settings: TreeSettings, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._say = say
        self._interval = Interval(LOOK_S, clock)
        self._interval.due()  # now: the files are read here
        self._mark = self._marks()
        self._context = context(settings)

    @property
    def context(self) -> ssl.SSLContext:
        if self._interval.due():
            self._look()
        return self._context

    def _look(self) -> None:
        mark = self._marks()
        if mark == self._mark:
            return
        self._mark = mark
        try:
            self._context = context(self._settings)
        except SettingError as error:
            self._say(f"the certificate changed, but the one before is still used: {error.message}")
        else:
            self._say(f"certificate read from {self._settings.tls_cert}")

    def _marks(self) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for name in FILES:
            try:
                seen = Path(getattr(self._settings, name)).stat()
                found.append((seen.st_mtime_ns, seen.st_size, seen.st_ino))
            except OSError:
                found.append(())
        return found
