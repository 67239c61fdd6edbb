"""plain_acl.yml: RocketMQ's file of accounts and what they may do. Read as RocketMQ 4.9 PlainPermissionManager does. But what
that passes over in silence is an error here, because the file would mean something else than it says: an unknown key, an
unknown permission, an account that occurs twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbitmq.native._core import lib
from orbitmq.remoting.address_pattern import Range, ranges

if TYPE_CHECKING:
    from yaml.nodes import Node

DENY, PUB, SUB = lib.ACL_DENY, lib.ACL_PUB, lib.ACL_SUB
PERMISSIONS = {"PUB": PUB, "SUB": SUB, "PUB|SUB": PUB | SUB, "SUB|PUB": PUB | SUB, "DENY": DENY}
RETRY = "%RETRY%"  # before a group's name: RocketMQ's name for the group among topics
KEY_MIN = 7  # characters of access and secret keys
OF_ACCOUNT = {
    "accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm", "topicPerms", "groupPerms",
}  # fmt: skip
WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class AclError(ValueError):
    """Why a text gives no rules, with the line, and what to change."""


@dataclass(frozen=True, slots=True)
class Account:
    """addresses: from which it need not sign. topics, groups: what it may do with those that `named` lacks. named: by whether
    it is a group, and name."""

    access_key: str
    secret_key: str = field(repr=False)
    addresses: tuple[Range, ...] = ()
    admin: bool = False
    topics: int = DENY
    groups: int = DENY
    named: dict[tuple[bool, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rules:
    """addresses: from which everything is allowed."""

    addresses: tuple[Range, ...] = ()
    accounts: tuple[Account, ...] = ()


def read(path: Path) -> Rules:
    """Raises: AclError: the file cannot be read, or gives no rules."""
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise AclError(f"it cannot be read: {error.strerror or error}") from None


def parse(text: bytes) -> Rules:
    """Raises: AclError."""
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise AclError(f"it needs {error.name}, which is not installed: pip install 'orbitmq[acl]'") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise AclError(f"line {mark.line + 1 if mark else 1}: it is no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise AclError(f"it is no YAML: {' '.join(str(error).split()) or 'it is nested too deeply'}") from None
    top = _entries(node, "the file", {"globalWhiteRemoteAddresses", "accounts", "dataVersion"}) if node is not None else {}
    addresses = [found for each in _items(top, "globalWhiteRemoteAddresses") for found in _ranges(each)]
    accounts: dict[str, Account] = {}
    for each in _items(top, "accounts"):
        account = _account(each)
        if account.access_key in accounts:
            raise _wrong(each, f"the accessKey {account.access_key!r} occurs a second time; give each account one entry")
        accounts[account.access_key] = account
    return Rules(tuple(addresses), tuple(accounts.values()))


def _account(node: Node) -> Account:
    entries = _entries(node, "an account", OF_ACCOUNT)
    access, secret = (_key(node, entries.get(name), name) for name in ("accessKey", "secretKey"))
    white, admin, topics, groups = (
        entries.get(name) for name in ("whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm")
    )
    return Account(
        access,
        secret,
        tuple(_ranges(white)) if white is not None else (),
        _flag(admin) if admin is not None else False,
        _permission(topics, _text(topics)) if topics is not None else DENY,
        _permission(groups, _text(groups)) if groups is not None else DENY,
        dict(_named(entries)),
    )


def _named(entries: dict[str, Node]) -> Iterator[tuple[tuple[bool, str], int]]:
    """Topics and groups with their permissions. A topic of retries is its group."""
    seen = set()
    for kind in ("topicPerms", "groupPerms"):
        for node in _items(entries, kind):
            text = _text(node)
            name, equals, permission = (part.strip() for part in text.partition("="))
            what = kind.removesuffix("Perms")
            if not name or not equals or "=" in permission:
                raise _wrong(node, f"{text!r:.80} in {kind} is not of the form {what}=PERMISSION, such as {what}=PUB|SUB")
            group = kind == "groupPerms" or (name.startswith(RETRY) and name != RETRY)
            resource = group, name.removeprefix(RETRY) if kind == "topicPerms" and group else name
            if resource in seen:
                raise _wrong(node, f"the {what} {name!r:.80} occurs a second time in this account; leave one of the two")
            seen.add(resource)
            yield resource, _permission(node, permission)


def _permission(node: Node, text: str) -> int:
    if text.strip() not in PERMISSIONS:
        raise _wrong(node, f"{text!r:.80} is no permission; write one of {', '.join(PERMISSIONS)}")
    return int(PERMISSIONS[text.strip()])


def _key(account: Node, node: Node | None, name: str) -> str:
    text = "" if node is None else _text(node)
    if len(text) < KEY_MIN:
        shown = f" {text!r}" if text and name == "accessKey" else ""
        why = f"the account's {name}{shown} is missing or too short; it needs at least {KEY_MIN} characters"
        raise _wrong(node or account, why)
    return text


def _ranges(node: Node) -> list[Range]:
    text = _text(node)
    return _read(node, lambda: ranges(text))


def _flag(node: Node) -> bool:
    text = _text(node)
    if text.lower() not in WORDS:
        raise _wrong(node, f"admin is {text!r:.40}; write true or false")
    return WORDS[text.lower()]


def _read(node: Node, reading: Callable[[], list[Range]]) -> list[Range]:
    try:
        return reading()
    except ValueError as error:
        raise _wrong(node, f"{error}; write an address such as 192.168.1.5, 192.168.1.*, 192.168.1.10-20 or fe80::*") from None


# ---- YAML


def _entries(node: Any, what: str, known: set[str]) -> dict[str, Node]:
    """Of a mapping with these keys; those without a value are left out."""
    if node.id != "mapping":
        raise _wrong(node, f"{what} must be a mapping of {', '.join(sorted(known))}")
    found: dict[str, Node] = {}
    for key, value in node.value:
        name = _text(key)
        if name not in known:
            close = get_close_matches(name, sorted(known), n=1, cutoff=0.5)
            raise _wrong(key, f"{what} has the unknown key {name!r:.60}; {f'perhaps {close[0]}' if close else 'remove it'}")
        if name in found:
            raise _wrong(key, f"{what} has the key {name} a second time; leave one of the two")
        if not _is_null(value):
            found[name] = value
    return found


def _items(entries: dict[str, Node], name: str) -> list[Node]:
    node: Any = entries.get(name)
    if node is None:
        return []
    if node.id != "sequence":
        raise _wrong(node, f"{name} must be a list, whose lines begin with a dash")
    return [each for each in node.value if not _is_null(each)]


def _text(node: Any) -> str:
    """As it is written: secretKey: 12345678 is a text, too."""
    if node.id != "scalar":
        raise _wrong(node, "a single value is expected here; put it into quotes if it has brackets or colons")
    return str(node.value)


def _is_null(node: Any) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


def _wrong(node: Any, why: str) -> AclError:
    return AclError(f"line {node.start_mark.line + 1}: {why}")
