"""The parameters of `producer()`: the settings of a producer. They are defined only here (client/parameters.py)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from orbitmq.client.argument import seconds, whole
from orbitmq.client.group_name import check_producer_group
from orbitmq.client.transaction.check_function import Check, check_function
from orbitmq.errors import SettingError
from orbitmq.native._core import lib
from orbitmq.shm.durability import Durability

WINDOW_MAX: int = lib.SESSION_WINDOW_MAX
MESSAGE_MAX = (16 << 20) - (64 << 10)
MESSAGE_MIN = 1024
MESSAGE_USUAL = 256 << 10
NAME_MAX = 128


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """A producer with a session of its own. Several threads may share it.

    Args:
        window: most messages in flight; rounded up to a power of two.
        message_max: largest record in bytes: body, properties, topic and about 111 bytes around them. It determines the
            size of the session's ring.
        on_full: what a send does when window or ring are full: wait up to its timeout, or raise Full at once.
        timeout: default time, in seconds, that a send waits.
        durability: default of what a receipt waits for: "appended" or "flushed"; None: what the topic of the message says
            (see create_topic).
        wait: seconds that this call, and each send, waits for an absent broker, as long as nothing of the send is on its
            way; None: the client's. Messages that were on their way when the broker went still end in PerhapsStored, unless
            the producer has a name.
        name: makes it a named producer: each message gets an id, and what was on its way when the broker went is sent again to
            the next one, and stored once (docs/idempotent-producers.md). The ids contain the name, which has 1 to 128 bytes. If
            neither the producer nor the client says how long to wait, a named producer waits for `timeout`.
        group: name of the producer group, for transactions: its members know how they end (docs/transactions.md).
        check: a function that decides how an open transaction of the group ends, whichever process began it. It gets an
            OpenTransaction and returns "commit", "rollback", or None for not known yet. A thread calls it.

    Raises: SettingError; GroupNameError; BrokerNotRunning; Full: no session could be opened.
    """

    _: KW_ONLY
    window: int = 32768
    message_max: int = MESSAGE_USUAL
    on_full: Literal["wait", "error"] = "wait"
    timeout: float = 30.0
    durability: Durability | None = None
    wait: float | None = None
    group: str = "DEFAULT_PRODUCER"
    check: Check | None = None
    name: str | None = None

    @property
    def patience(self) -> float:
        """Seconds to wait for an absent broker."""
        return self.wait if self.wait is not None else self.timeout if self.name is not None else 0.0

    def __post_init__(self) -> None:
        for name in ("window", "message_max"):
            whole(getattr(self, name), "make a producer", name)
        if not 1 <= self.window <= WINDOW_MAX:
            raise _impossible("window", self.window, f"it must be 1 to {WINDOW_MAX} messages")
        if not MESSAGE_MIN <= self.message_max <= MESSAGE_MAX:
            raise _impossible("message_max", self.message_max, f"it must be {MESSAGE_MIN} to {MESSAGE_MAX} bytes")
        check_producer_group(self.group)
        if self.check is not None:
            check_function(self.check)
        if self.on_full not in ("wait", "error"):
            raise _impossible("on_full", self.on_full, "it is 'wait' or 'error'")
        if self.name is not None:
            check_producer_name(self.name)
        if self.durability not in (None, "appended", "flushed"):
            why = "it is 'appended' or 'flushed', or None for what the topic says"
            raise _impossible("durability", self.durability, why)
        for name in ("timeout", "wait"):
            value = getattr(self, name)
            if not (name == "wait" and value is None) and seconds(value, "make a producer", setting=name) < 0:
                raise _impossible(name, value, "it must be a number of seconds from 0")


def check_producer_name(name: object) -> None:
    """Raises: SettingError."""
    if not isinstance(name, str):
        raise _impossible("name", name, "a name is a str")
    if not 1 <= len(name.encode(errors="surrogatepass")) <= NAME_MAX:
        raise _impossible("name", name, f"it must be 1 to {NAME_MAX} bytes")
    if not name.isprintable():
        raise _impossible("name", name, "it must consist of characters that can be printed")


def _impossible(setting: str, value: object, why: str) -> SettingError:
    return SettingError(f"could not make a producer with {setting} {value!r}: {why}", setting=setting, value=value)
