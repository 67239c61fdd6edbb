"""Goal: lost queues are reported to on_lost if the program gave it, or else like queues that go."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.client.consumer.listener import Listener, QueuesEvent


def told(name: str) -> Any:
    return lambda consumer, queues: name


@pytest.mark.parametrize(
    ("names", "calls"),
    [
        ((), {"assigned": None, "revoked": None, "lost": None}),
        (("on_assigned",), {"assigned": "on_assigned", "revoked": None, "lost": None}),
        (("on_revoked",), {"assigned": None, "revoked": "on_revoked", "lost": "on_revoked"}),
        (("on_lost",), {"assigned": None, "revoked": None, "lost": "on_lost"}),
        (("on_revoked", "on_lost"), {"assigned": None, "revoked": "on_revoked", "lost": "on_lost"}),
    ],
)
def test_who_is_told(names: tuple[str, ...], calls: dict[Any, str | None]) -> None:
    listener = Listener(**{name: told(name) for name in names})
    assert listener.hears is bool(names)
    for kind, name in calls.items():
        callback = listener.callback(QueuesEvent(kind, []))
        assert (callback and callback(None, [])) == name
