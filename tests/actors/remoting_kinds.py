"""Clients of the gateway with TLS, and such as sign what they ask."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

from tests.actors.remoting_client import Remote
from tests.native import acl_model
from tests.native.remoting_model import JSON

CERTIFICATES = Path(__file__).parent / "certificates"


def copied_certificate(folder: Path) -> dict[str, str]:
    """Settings of a broker: a copy of the first certificate, which a test may replace."""
    for kind in "pem", "key":
        shutil.copy(CERTIFICATES / f"first.{kind}", folder / f"server.{kind}")
    return {"tls_cert": str(folder / "server.pem"), "tls_key": str(folder / "server.key")}


class Secure(Remote):
    """A client with TLS, which believes this certificate alone. shows: a certificate of its own."""

    def __init__(self, listens: str, name: str = "first", host: str = "127.0.0.1", shows: str | None = None) -> None:
        super().__init__(listens, host=host)
        context = ssl.create_default_context(cafile=str(CERTIFICATES / f"{name}.pem"))
        if shows is not None:
            context.load_cert_chain(CERTIFICATES / f"{shows}.pem", CERTIFICATES / f"{shows}.key")
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        except BaseException:
            self.socket.close()
            raise


class Signing(Remote):
    """A client that signs what it asks."""

    def __init__(self, listens: str, access: str, secret: str, form: int = JSON) -> None:
        super().__init__(listens, form)
        self._access, self._secret = access, secret

    def frame(self, code: int, body: bytes = b"", *, mark: int = 0, **fields: object) -> bytes:
        return super().frame(code, body, mark=mark, **signed(self._access, self._secret, body, fields))


class SecureSigning(Secure):
    """Both."""

    def __init__(self, listens: str, access: str, secret: str) -> None:
        super().__init__(listens)
        self._access, self._secret = access, secret

    def frame(self, code: int, body: bytes = b"", *, mark: int = 0, **fields: object) -> bytes:
        return super().frame(code, body, mark=mark, **signed(self._access, self._secret, body, fields))


def signed(access: str, secret: str, body: bytes, fields: dict[str, object]) -> dict[str, object]:
    """The fields with the signature of a request."""
    texts = {name: value.decode() if isinstance(value, bytes) else str(value) for name, value in fields.items()}
    texts["AccessKey"] = access
    return {**texts, "Signature": acl_model.signature(secret, texts, body)}
