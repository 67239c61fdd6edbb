"""The parameters of `consumer()`: the settings of a consumer. They are defined only here (client/parameters.py)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from orbitmq.client.group_name import check_group_type
from orbitmq.errors import SettingError
from orbitmq.errors.remedy import hint

if TYPE_CHECKING:
    from orbitmq.client.consumer.listener import QueuesCallback
    from orbitmq.client.several import Several


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """A consumer of the topics, as a member of the group. Without a group (None) it reads all their queues, and no offsets
    are stored.

    Args:
        tags: only messages with one of these tags: "a || b"; None: all messages.
        sql: only messages for which this RocketMQ filter is true, such as "price > 100 AND region IN ('eu', 'us')", where names
            are properties, and TAGS and KEYS; None: all messages. docs/filters.md has the grammar.
        start: where a group begins in a queue from which it has consumed nothing.
        batch: number of messages that iteration and poll fetch at once.
        verify: check each body against its CRC before it is delivered; a damaged body raises CorruptRecord. Without the
            check a drain is some 10 % faster, and a damaged body is delivered as if it were good.
        removed: what happens if retention removes messages before they are read. "skip" continues after them, counts them,
            and warns in the log `orbitmq`; "raise" raises OffsetOutOfRange first.
        on_assigned, on_revoked, on_lost: called with (consumer, queues): when queues have come; before they go to another
            member, or by `close`; when they have gone already (if on_lost is None, on_revoked is called). They are called
            inside calls of the consumer, in their thread. `on_revoked` may commit; all of them may seek, pause and ask for
            positions.
        max_poll_interval: a member that makes no call for so many seconds counts as hung, and the group continues without
            it. A call that waits counts as calling. At least 1; None: never.
        revoke_timeout: how many seconds a queue that is to go to another member may stay here until its messages are
            committed. It goes earlier once they are, or when on_revoked has returned.
        spin: how many seconds a call that waits looks for messages by itself before it sleeps; math.inf: it never sleeps. That
            keeps a core busy, and gets a message some 20 us sooner than being woken. It has no effect where this process has
            only one core. docs/performance.md, "Spinning", has numbers.
        broadcast: every instance of the group gets every message, and has offsets of its own, which the broker keeps.
        instance: with broadcast: the name of this instance. It must be the same whenever the program starts again, and one
            consumer at a time may have it.
        wait: how many seconds to wait for an absent broker, from the first call that found none; None: the client's.
            Reading then continues where it was; in a group, at the committed offsets. The `timeout` of a call runs on.

    Raises: TopicNameError, UnknownTopic, NoPermission, GroupNameError, SettingError; BrokerNotRunning; Full: no session
        could be opened; GroupInUse: another consumer has the name of this instance.
    """

    group: str | None = None
    topics: Several[str] = ()
    _: KW_ONLY
    tags: str | None = None
    sql: str | None = None
    start: Literal["earliest", "latest"] = "earliest"
    batch: int = 1000
    verify: bool = True
    removed: Literal["skip", "raise"] = "skip"
    on_assigned: QueuesCallback | None = None
    on_revoked: QueuesCallback | None = None
    on_lost: QueuesCallback | None = None
    max_poll_interval: float | None = 300.0
    revoke_timeout: float = 5.0
    spin: float = 0.0
    broadcast: bool = False
    instance: str | None = None
    wait: float | None = None

    def __post_init__(self) -> None:
        if self.group is not None:
            check_group_type(self.group)
        start, batch, removed = self.start, self.batch, self.removed
        if start not in ("earliest", "latest"):
            raise SettingError(f"could not start at {start!r}: it is 'earliest' or 'latest'", setting="start", value=start)
        if batch < 1:
            text = f"could not make a consumer with a batch of {batch} messages: the number must be at least 1"
            raise SettingError(text, setting="batch", value=batch)
        if isinstance(self.spin, bool) or not isinstance(self.spin, int | float) or not self.spin >= 0:
            why = "it is a number of seconds, 0 or more; math.inf: never sleep"
            raise SettingError(f"could not spin for {self.spin!r}: {why}", setting="spin", value=self.spin)
        self._check_instance()
        if removed not in ("skip", "raise"):
            text = f"could not make a consumer with {removed!r} for removed messages: it must be 'skip' or 'raise'"
            raise SettingError(text, setting="removed", value=removed)

    def _check_instance(self) -> None:
        if self.broadcast and self.group is None:
            text = "could not broadcast without a group: a consumer without one gets every message anyway"
            raise SettingError(text, hint=hint("use {group} too"), setting="broadcast", value=True)
        if self.broadcast and not self.instance:
            text = f"could not broadcast to {self.group!r} without the name of an instance, under which its offsets are kept"
            way = hint("use {instance}, with a name that stays the same when the program starts again")
            raise SettingError(text, hint=way, setting="instance", value=self.instance)
        if self.instance is not None and not self.broadcast:
            text = f"could not take the instance {self.instance!r}: only broadcast groups have instances"
            raise SettingError(text, hint=hint("use {broadcast=True} too"), setting="instance", value=self.instance)

    @property
    def keeper(self) -> str | None:
        """The name under which the offsets are kept; None without a group."""
        return f"{self.group}@{self.instance}" if self.broadcast else self.group
