"""Who asks the broker, and how much of what all users share each user may take.

The broker's own user and root may do anything. Other users, whom the setting `group` lets in, change only what they made. Of
each table (sessions, topics, queues, groups) each of them may take a part that is set, `user_share_percent`. All of them
together leave a tenth free, so that the operator always gets in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from orbitmq.errors import Full, NoPermission
from orbitmq.errors.remedy import hint

OTHERS_PERCENT = 90  # of a table, for all users together except the broker's own and root


class Caller(NamedTuple):
    """A user. rules: this is the broker's own user, or root."""

    uid: int
    rules: bool

    @classmethod
    def marked(cls, mark: int | None) -> Caller:
        return OPERATOR if mark is None else cls(mark, False)

    @property
    def mark(self) -> int | None:
        """The mark that is stored with everything this user makes: the uid; None for the broker's own user and root."""
        return None if self.rules else self.uid

    def may_change(self, maker: int | None) -> bool:
        """True if this user may change what `maker` made. What no other user made belongs to the broker's own user."""
        return self.rules or (maker is not None and maker == self.uid)


OPERATOR = Caller(os.geteuid(), True)


def require_maker(caller: Caller, maker: int | None, doing: str, otherwise: str = "") -> None:
    """doing: what the caller wants, as in "change the topic 'orders'". otherwise: what else an operator could do.

    Raises: NoPermission."""
    if not caller.may_change(maker):
        whose = f"uid {maker}" if maker is not None else f"the broker's own user, uid {os.geteuid()}"
        operator = f"ask the broker's operator to do it{otherwise and ' ' + otherwise}"
        raise NoPermission(
            f"cannot {doing} for uid {caller.uid}: only {whose}, which made it, and root may",
            hint=f"use one of your own, under another name, or {operator}",
            uid=caller.uid,
            maker=maker,
        )


class Share(NamedTuple):
    """The part of one table that each other user may take. what: sessions, topics, queues or groups; percent: the setting."""

    what: str
    capacity: int
    percent: int

    def check(self, caller: Caller, held: Mapping[int | None, int], wanted: int = 1) -> None:
        """held: how much each user has, by its mark. Raises: Full: the user would have more than its part, or all others
        together would."""
        if caller.rules:
            return
        most = max(1, self.capacity * self.percent // 100)
        mine = held.get(caller.uid, 0)
        if mine + wanted > most:
            raise Full(
                f"cannot give uid {caller.uid} {wanted} more {self.what}: it has {mine} and the limit for one user is {most}",
                hint=hint(
                    "give back {} that are not needed || ask the operator to raise {user_share_percent of broker}", self.what
                ),
                limit="user_share_percent",
                value=mine,
                most=most,
            )
        others = sum(count for user, count in held.items() if user is not None)
        together = max(1, self.capacity * OTHERS_PERCENT // 100)
        if others + wanted > together:
            raise Full(
                f"cannot give uid {caller.uid} {wanted} more {self.what}: all users but the broker's own have {others} and the "
                f"limit for them is {together}",
                hint=f"give back {self.what} that are not needed; the rest is kept for the broker's operator",
                limit=self.what,
                value=others,
                most=together,
            )
