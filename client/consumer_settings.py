"""What a consumer is told when it is made."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from orbitmq.errors import SettingError

if TYPE_CHECKING:
    from orbitmq.client.listener import QueuesCallback
    from orbitmq.client.several import Several


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The parameters of `consumer()`; `Client.consumer` documents them.

    Raises: SettingError: a setting is not valid."""

    group: str | None = None
    topics: Several[str] = ()
    _: KW_ONLY
    tags: str | None = None
    start: Literal["earliest", "latest"] = "earliest"
    batch: int = 1000
    verify: bool = True
    removed: Literal["skip", "raise"] = "skip"
    on_assigned: QueuesCallback | None = None
    on_revoked: QueuesCallback | None = None
    on_lost: QueuesCallback | None = None
    max_poll_interval: float | None = 300.0
    revoke_timeout: float = 5.0
    wait: float | None = None

    def __post_init__(self) -> None:
        start, batch, removed = self.start, self.batch, self.removed
        if start not in ("earliest", "latest"):
            raise SettingError(f"could not start at {start!r}: it is 'earliest' or 'latest'", setting="start", value=start)
        if batch < 1:
            raise SettingError(f"could not fetch {batch} messages at once: 1 is the least", setting="batch", value=batch)
        if removed not in ("skip", "raise"):
            raise SettingError(f"could not {removed!r} removed messages: 'skip' or 'raise'", setting="removed", value=removed)
