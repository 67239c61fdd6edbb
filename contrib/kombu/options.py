"""What `broker_transport_options` may say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from orbitmq.errors import SettingError
from orbitmq.shm.durability import Durability

OF_OTHERS = frozenset({"max_retries"})  # of kombu's connections; it looks like one of ours


@dataclass(frozen=True, slots=True)
class Options:
    """Args:
    visibility_timeout: seconds until a message comes again that is with a process which hangs. What dies gives it back at
        once, and what works keeps it as long as it lives.
    queues: of a new topic. Each remembers up to 65,536 messages behind one that takes long; 1: strictly in order.
    max_tries: how often a message is handed out before it goes to the dead letters; None: as its group has it, 16.
    durability: what a publish waits for: "appended" or "flushed"; None: what the topic says.
    message_max: largest message in bytes.
    timeout: seconds that a publish waits for room, a question to the broker for its answer, and `get` and `purge` for messages
        that are there and not handed out.
    broadcast_hours: how long broadcasts, replies and events are kept.
    delay: have the broker keep tasks until their eta.
    """

    visibility_timeout: float = 30.0
    queues: int = 4
    max_tries: int | None = None
    durability: Durability | None = None
    message_max: int = 1 << 20
    timeout: float = 30.0
    broadcast_hours: int = 1
    delay: bool = True


def options_of(given: Mapping[str, Any]) -> Options:
    """Those of ours; kombu and Celery have others. Raises: SettingError: one that looks like a typing error in one of ours."""
    ours = [field.name for field in fields(Options)]
    for name in given.keys() - OF_OTHERS - set(ours):
        for near in get_close_matches(name, ours, 1, 0.8):
            text = f"could not use the transport option {name!r}: there is no such option"
            raise SettingError(text, hint=f"did you mean {near}?", setting=name, value=given[name])
    return Options(**{name: value for name, value in given.items() if name in ours})
