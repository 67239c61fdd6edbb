"""Changes of plain_acl.yml, as RocketMQ 4.9 PlainPermissionManager makes them: the file is read, changed, and replaced whole,
with a version that counts the changes. Comments are lost, as there. What would not be read back is refused, and changes
nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orbitmq.remoting.plain_acl import KEY_MIN, PERMISSIONS, WORDS, AclError, parse
from orbitmq.store import atomic_file

ACCOUNTS, ADDRESSES, VERSION = "accounts", "globalWhiteRemoteAddresses", "dataVersion"
TEXTS = ("secretKey", "whiteRemoteAddress", "defaultTopicPerm", "defaultGroupPerm")
LISTS = ("topicPerms", "groupPerms")
ORDER = ("accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm", *LISTS)


class AclFile:
    """What the file holds, as plain values: every scalar is the text that it is written as. Raises: AclError, OSError."""

    def __init__(self, path: Path) -> None:
        self._path = Path(os.path.realpath(path))  # a link stays one
        self._found = self._path.stat()
        text = self._path.read_bytes()
        parse(text)
        self._content: dict[str, Any] = _plain_text(text) or {}

    @property
    def path(self) -> Path:
        return self._path

    @property
    def accounts(self) -> list[dict[str, Any]]:
        return list(self._content.get(ACCOUNTS, []))

    @property
    def addresses(self) -> list[str]:
        return list(self._content.get(ADDRESSES, []))

    @property
    def version(self) -> dict[str, int]:
        """How often it was changed so, and when last: counter, timestamp in ms."""
        kept = self._content.get(VERSION) or [{}]
        when_ms = self._found.st_mtime_ns // 1_000_000
        try:
            return {"counter": int(kept[0].get("counter", 0)), "timestamp": int(kept[0].get("timestamp", when_ms))}
        except (ValueError, AttributeError, LookupError, TypeError):
            return {"counter": 0, "timestamp": when_ms}

    def put(self, told: Mapping[str, str | None]) -> None:
        """Makes an account, or changes what is told of it; it becomes the last one. admin is always told. Raises: AclError."""
        access, secret = told.get("accessKey"), told.get("secretKey")
        if min(len(access or ""), len(secret or "")) < KEY_MIN:
            shown = (f"{key}={told.get(key) or 'null'}" for key in ("accessKey", "secretKey"))
            raise AclError(f"The {' and '.join(shown)} cannot be null and length should longer than {KEY_MIN - 1}")
        lists = {name: [each for each in (told.get(name) or "").split(",") if each] for name in LISTS}
        for each in (each for items in lists.values() for each in items):
            _check_permission(each)
        accounts = self.accounts
        account = dict[str, Any](next((each for each in accounts if each.get("accessKey") == access), {"accessKey": access}))
        account |= {name: told[name] for name in TEXTS if told.get(name)}
        account |= {name: items for name, items in lists.items() if items}
        account["admin"] = told.get("admin") == "true"
        others = [each for each in accounts if each.get("accessKey") != access]
        self._change(ACCOUNTS, [*others, {name: account[name] for name in ORDER if name in account}])

    def delete(self, access: str | None) -> bool:
        """False: there is no such account."""
        others = [each for each in self.accounts if each.get("accessKey") != access]
        if len(others) == len(self.accounts):
            return False
        self._change(ACCOUNTS, others)
        return True

    def put_addresses(self, addresses: Sequence[str]) -> None:
        """Those from which everything is allowed, instead of the ones until now. Raises: AclError."""
        self._change(ADDRESSES, list(addresses))

    def _change(self, name: str, value: object) -> None:
        import yaml  # the file was read, so it is there

        now = {"counter": self.version["counter"] + 1, "timestamp": time.time_ns() // 1_000_000}
        content = {**self._content, name: value, VERSION: [now]}
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=False).encode()
        parse(text)
        atomic_file.replace(self._path, text, like=self._found)
        self._content = content


def _check_permission(text: str) -> None:
    parts = text.split("=")
    if len(parts) != 2:
        example = "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
        raise AclError(f"Parse Resource format error for {text}.\n{example}")
    if parts[1].strip() not in PERMISSIONS:
        expected = "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
        raise AclError(f"Parse resource permission error for {text}.\n{expected}")


def _plain_text(text: bytes) -> Any:
    import yaml

    node = yaml.compose(text, Loader=yaml.SafeLoader)
    return None if node is None else _plain(node)


def _plain(node: Any) -> Any:
    """What has no value is left out. admin is a flag, so that it is written without quotes."""
    if node.id == "sequence":
        return [each for each in map(_plain, node.value) if each is not None]
    if node.id == "mapping":
        pairs = ((key.value, _plain(value)) for key, value in node.value)
        return {key: WORDS[value.lower()] if key == "admin" else value for key, value in pairs if value is not None}
    return None if node.tag == "tag:yaml.org,2002:null" else str(node.value)
