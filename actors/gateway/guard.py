"""The gateway's access rules: the file is read, given to the loop in C (native/remoting/acl/acl.h), and read again when it
has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from orbitmq.actors.gateway.piece import Piece
from orbitmq.actors.interval import Interval
from orbitmq.native._core import ffi, lib
from orbitmq.remoting import assignments, heartbeat, pops
from orbitmq.remoting.address_pattern import Range
from orbitmq.remoting.assignments import QUERY
from orbitmq.remoting.plain_acl import AclError, Rules, parse, read
from orbitmq.remoting.pops import BATCH_ACK
from orbitmq.remoting.request import Request
from orbitmq.store.settings.setting_text import refused

LOOK_S = 0.5
HEARTBEAT = 34
GROUPS_OF = {BATCH_ACK: pops.groups_of, QUERY: assignments.groups_of}
YOUNG_NS = 2_000_000_000  # a file that was changed so short a time ago may change again without a newer time

_REFUSED = "org.apache.rocketmq.acl.common.AclException: No default permission for"


def check_rules(path: str) -> None:
    """For a start; an empty path names no file. Raises: SettingError: the file gives no rules."""
    try:
        if path:
            read(Path(path))
    except AclError as error:
        raise refused("acl", path, str(error)) from None


class Guard:
    """say: takes a line for the broker's log. Without rules that can be read, at first everything is refused, and later the
    last ones hold."""

    def __init__(
        self, gateway: Any, path: Path, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._gateway = gateway
        self._path = path
        self._say = say
        self._interval = Interval(LOOK_S, clock)
        self._mark: tuple[int, ...] | None = None
        self._text: bytes | None = None
        self._trouble = ""
        self._held = False
        self._load(Rules())
        self.look()

    def look(self) -> None:
        """Reads the file if it has changed; looks at most every LOOK_S."""
        if not self._interval.due():
            return
        try:
            found = self._path.stat()
            mark = found.st_mtime_ns, found.st_size, found.st_ino
            if mark == self._mark and time.time_ns() - found.st_mtime_ns > YOUNG_NS:
                return
            text = self._path.read_bytes()
        except OSError as error:
            self._mark = self._text = None
            self._complain(f"it cannot be read: {error.strerror or error}")
            return
        self._mark = mark
        if text == self._text:
            return
        self._text = text
        try:
            rules = parse(text)
        except AclError as error:
            self._complain(str(error))
            return
        self._load(rules)
        self._held = True
        self._trouble = ""
        self._say(f"access rules read from {self._path}: accounts: {len(rules.accounts)}")

    def refusal(self, asked: Any, request: Request) -> str | None:
        """Why a request may not be answered, for what its body names; None: it may. asked: it, as the loop gave it."""
        if request.code in GROUPS_OF:
            groups = GROUPS_OF[request.code](request.body)
            bad = next((group for group in groups if not self._permits(asked, True, group)), None)
            return None if bad is None else f"{_REFUSED} group:{bad:.255}"
        if request.code != HEARTBEAT:
            return None
        for each in heartbeat.read(request.body).consumers:
            if not self._permits(asked, True, each.group):
                return f"{_REFUSED} group:{each.group:.255}"
            for subscription in each.subscriptions:
                if not self._permits(asked, False, subscription.topic):
                    return f"{_REFUSED} topic:{subscription.topic:.255}"
        return None

    def _permits(self, asked: Any, group: bool, name: str) -> bool:
        piece = Piece(name)
        return bool(lib.gateway_permits(self._gateway, asked, group, piece.slice))

    def _load(self, rules: Rules) -> None:
        lib.gateway_guard(self._gateway, table(rules))

    def _complain(self, why: str) -> None:
        """Once for each reason."""
        if why != self._trouble:
            self._trouble = why
            now = "those read before still hold" if self._held else "until it can be used, every request is refused"
            self._say(f"cannot use {self._path} as access rules: {why}; {now}")


def table(rules: Rules) -> Any:
    """The rules as C has them. Raises: MemoryError."""
    acl = lib.acl_open()
    made = acl != ffi.NULL and _add_ranges(acl, rules.addresses)
    for each in rules.accounts:
        access, secret = Piece(each.access_key), Piece(each.secret_key)
        made = made and lib.acl_add_account(acl, access.slice, secret.slice, each.admin, each.topics, each.groups)
        for (group, name), permission in each.named.items():
            piece = Piece(name)
            made = made and lib.acl_add_permission(acl, group, piece.slice, permission)
        made = made and _add_ranges(acl, each.addresses)
    if not made:
        lib.acl_free(acl)
        raise MemoryError("no memory for access rules")
    lib.acl_seal(acl)
    return acl


def _add_ranges(acl: Any, ranges: Iterable[Range]) -> bool:
    told = ({"parts": len(each.least), "least": each.least, "most": each.most} for each in ranges)
    return all(lib.acl_add_range(acl, ffi.new("struct acl_range *", each)) for each in told)

