"""A readable model of RocketMQ's access rules (4.9 PlainAccessValidator, PlainPermissionManager), for tests of
native/remoting/acl/acl.h. It works on what the file says, not on what OrbitMQ makes of it."""

from __future__ import annotations

import base64
import hmac
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field

PUB, SUB = "PUB", "SUB"
ADMIN = {50, 51, 52, 53, 54, 17, 25, 200, 401, 207, 215, 100, 102, 205, 216, 318, 327}
OPEN = {105, 106}
RETRY = "%RETRY%"
NOT_SIGNED = ("Signature", "_UNIQUE_KEY_QUERY")


@dataclass
class Account:
    """networks: from which it need not sign. topics, groups: texts of permissions by name; None: the default."""

    access: str
    secret: str
    admin: bool = False
    networks: list[str] = field(default_factory=list)
    topics: dict[str | None, str] = field(default_factory=dict)
    groups: dict[str | None, str] = field(default_factory=dict)


@dataclass
class Model:
    networks: list[str]
    accounts: list[Account]

    def verdict(self, peer: str, code: int, fields: dict[str, str], body: bytes) -> tuple[str, str]:
        """Of a request, and which key, topic or group it is about."""
        if code in OPEN or _within(peer, self.networks):
            return "ALLOWED", ""
        access = fields.get("AccessKey")
        if access is None:
            return "NO_KEY", ""
        account = self.account(access)
        if account is None:
            return "UNKNOWN_KEY", access
        return ("ALLOWED", "") if _within(peer, account.networks) else self._of(account, code, fields, body)

    def _of(self, account: Account, code: int, fields: dict[str, str], body: bytes) -> tuple[str, str]:
        """Of a request in the name of this account."""
        access = account.access
        if fields.get("Signature") != signature(account.secret, fields, body):
            return "BAD_SIGNATURE", access
        if code in ADMIN and not account.admin:
            return "NOT_ADMIN", access
        for kind, name, wanted in needs(code, fields):
            if not may(account, kind, name, wanted):
                return f"NO_{kind}", name
        return "ALLOWED", ""

    def permits(self, peer: str, fields: dict[str, str], kind: str, name: str) -> bool:
        account = self.account(fields.get("AccessKey", ""))
        if _within(peer, self.networks):
            return True
        if account is None:
            return False
        return _within(peer, account.networks) or all(may(account, *each) for each in _need(kind, name, SUB))

    def account(self, access: str) -> Account | None:
        return next((each for each in self.accounts if each.access == access), None)


def signature(secret: str, fields: dict[str, str], body: bytes) -> str:
    content = "".join(value for name, value in sorted(fields.items()) if name not in NOT_SIGNED).encode() + body
    return base64.b64encode(hmac.digest(secret.encode(), content, "sha1")).decode()


def needs(code: int, fields: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Topics and groups that a request names in its fields, and what it needs to be allowed with each."""
    wanted = {10: PUB, 310: PUB, 320: PUB, 11: SUB, 12: SUB, 15: SUB}
    if code in wanted:
        yield from _need("TOPIC", fields.get("b" if code in (310, 320) else "topic"), wanted[code])
    if code in (11, 15, 35, 36, 38):
        yield from _need("GROUP", fields.get("group" if code == 36 else "consumerGroup"), SUB)


def _need(kind: str, name: str | None, wanted: str) -> Iterator[tuple[str, str, str]]:
    if name is not None and kind == "TOPIC" and name.startswith(RETRY) and name != RETRY:
        yield "GROUP", name.removeprefix(RETRY), SUB
    elif name is not None:
        yield kind, name, wanted


def may(account: Account, kind: str, name: str, wanted: str) -> bool:
    named = {each for each in (*account.topics, *account.groups) if each is not None}
    if account.admin and not named:
        return True
    has = account.topics if kind == "TOPIC" else account.groups
    return wanted in has.get(name, has.get(None, "DENY")).split("|")


def _within(peer: str, networks: list[str]) -> bool:
    host = ipaddress.ip_address(peer.rpartition(":")[0].strip("[]"))
    mapped = getattr(host, "ipv4_mapped", None) or host
    return any(mapped in ipaddress.ip_network(each) for each in networks)
