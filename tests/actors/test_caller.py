"""Goal: no user takes more than its part of a table, all of them together leave the operator's part free, and nobody changes
what another made. Method: any users and any numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.actors.sessions.caller import OPERATOR, OTHERS_PERCENT, Caller, Share, require_maker
from orbitmq.errors import Full, NoPermission

USERS = st.integers(1, 4)


@given(st.integers(1, 60), st.integers(1, 100), st.lists(st.tuples(USERS | st.none(), st.integers(1, 5)), max_size=60))
def test_shares(capacity: int, percent: int, wishes: list[tuple[int | None, int]]) -> None:
    """Whichever users come, in whatever order, none gets more than its part; and a refused user would have."""
    share, held = Share("topics", capacity, percent), dict[int | None, int]()
    most, together = max(1, capacity * percent // 100), max(1, capacity * OTHERS_PERCENT // 100)
    for user, wanted in wishes:
        mine, others = held.get(user, 0), sum(count for who, count in held.items() if who is not None)
        try:
            share.check(Caller.marked(user), held, wanted)
        except Full as error:
            assert user is not None and (mine + wanted > most or others + wanted > together)
            assert error.limit in ("user_share_percent", "topics") and error.hint
            continue
        assert user is None or (mine + wanted <= most and others + wanted <= together)
        held[user] = mine + wanted


@pytest.mark.parametrize(
    ("caller", "maker", "may"),
    [
        (OPERATOR, None, True),
        (OPERATOR, 7, True),
        (Caller(7, rules=False), 7, True),
        (Caller(7, rules=False), 8, False),
        (Caller(7, rules=False), None, False),
    ],
)
def test_who_may_change_what(caller: Caller, maker: int | None, may: bool) -> None:
    assert caller.may_change(maker) is may
    if may:
        require_maker(caller, maker, "change the topic 't'")
    else:
        with pytest.raises(NoPermission, match=r"cannot change the topic 't' for uid 7: only .*, which made it, and root may"):
            require_maker(caller, maker, "change the topic 't'", "or to set shared_groups")


def test_marks() -> None:
    """What is stored is read back as the same user; what the operator made has no mark."""
    assert OPERATOR.mark is None and Caller.marked(None) is OPERATOR
    assert Caller.marked(7) == Caller(7, rules=False) and Caller(7, rules=False).mark == 7
