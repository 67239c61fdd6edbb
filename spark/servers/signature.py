"""Signatures of requests, as RocketMQ's AclClientRPCHook makes them: HMAC-SHA1 over the values of all fields, in the order of
their names, and the body."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping


def signed(fields: Mapping[str, str], body: bytes, access: str, secret: str) -> dict[str, str]:
    """The fields with those of the signature."""
    told = {**fields, "AccessKey": access}
    content = b"".join(told[name].encode() for name in sorted(told)) + body
    digest = hmac.digest(secret.encode(), content, "sha1")
    return {**told, "Signature": base64.b64encode(digest).decode()}
