"""The parameters of `worker()`: the settings of a worker. They are defined only here (client/parameters.py)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from orbitmq.client.argument import check_flag
from orbitmq.client.group_name import check_group_type
from orbitmq.client.work.job import check_seconds
from orbitmq.errors import SettingError
from orbitmq.errors.remedy import hint

if TYPE_CHECKING:
    from orbitmq.client.several import Several

IN_HAND_MAX = 65_536  # what the broker can remember of a queue beside its offset
CONCURRENCY_MAX = 4096
TRIES_MAX = 500  # as the broker has it


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """A worker of the group: it gets single messages of the topics, as jobs, and no other worker of the group has the same
    message at that time. There may be more workers than queues.

    Args:
        concurrency: how many jobs `run` works on at once. A `for` loop works on one.
        executor: where `run` calls a handler: in "threads" of this process, or in "processes", which it starts, and into which
            the handler must be importable. A coroutine function runs as tasks of an event loop.
        visibility: seconds until a message that is neither acked nor extended is handed to another worker.
        in_hand: most messages that this worker has at once, begun or not.
        max_tries: how often a message is handed out before it goes to the group's dead letters. It becomes a setting of the
            group; None: as the group has it, 16 for a new one.
        start: where a group begins in a queue from which it has got nothing.
        key_ordered: messages of one key (the sharding key, else the keys) are never in two hands at once, and are begun in the
            order of the log. A message that fails holds back the later ones of its key. All workers of a group must give the
            same value.
        tags: only messages with one of these tags: "a || b"; None: all messages. The group passes over the others for good. All
            workers of a group say the same for a topic.
        sql: only messages for which this RocketMQ filter is true, as of consumers; with tags, both must let them pass.
        extend: a thread moves the deadlines of begun jobs, as long as this process lives.
        timeout: seconds after which a job that is not done is nacked; None: never. A process that hangs is killed then; a
            thread is left alone, and another one takes its place.
        idle: loops and `run` end when nothing has come for so many seconds; None: they never end by themselves.
        signals: from the beginning of a `with` block, or of `run`, to its end, SIGTERM and SIGINT stop this worker gracefully,
            if this is the main thread and the program handles neither: begun jobs are finished, the others given back. A
            second signal has its usual effect.
        wait: how many seconds to wait for an absent broker; None: the client's.

    Raises: TopicNameError, UnknownTopic, NoPermission, GroupNameError, SettingError; FilterError: the place where sql is
        wrong; GroupInUse: workers of the group want other messages; BrokerNotRunning; Full: no session could be opened.
    """

    group: str
    topics: Several[str]
    _: KW_ONLY
    concurrency: int = 1
    executor: Literal["threads", "processes"] = "threads"
    visibility: float = 30.0
    in_hand: int = 1024
    max_tries: int | None = None
    start: Literal["earliest", "latest"] = "earliest"
    key_ordered: bool = False
    tags: str | None = None
    sql: str | None = None
    extend: bool = True
    timeout: float | None = None
    idle: float | None = None
    signals: bool = True
    wait: float | None = None

    def __post_init__(self) -> None:
        check_group_type(self.group)
        _check_count("concurrency", self.concurrency, CONCURRENCY_MAX)
        _check_count("in_hand", self.in_hand, IN_HAND_MAX)
        if self.max_tries is not None:
            _check_count("max_tries", self.max_tries, TRIES_MAX)
        check_seconds(self.visibility, "make a worker", "visibility", above=True)
        for flag in ("key_ordered", "extend", "signals"):
            check_flag(getattr(self, flag), "make a worker", flag)
        check_seconds(self.wait, "make a worker", "wait")
        check_seconds(self.idle, "make a worker", "idle")
        if self.timeout is not None:
            check_seconds(self.timeout, "make a worker", "timeout", above=True)
        check_executor(self.executor)
        if self.start not in ("earliest", "latest"):
            text = f"could not start at {self.start!r}: it is 'earliest' or 'latest'"
            raise SettingError(text, setting="start", value=self.start)
        if self.concurrency > self.in_hand:
            text = f"could not work on {self.concurrency} jobs at once: the worker may have only {self.in_hand} in hand"
            more = hint("raise {in_hand} || lower {concurrency}")
            raise SettingError(text, hint=more, setting="concurrency", value=self.concurrency, limit=self.in_hand)


def check_executor(executor: object) -> None:
    """Raises: SettingError."""
    if executor not in ("threads", "processes"):
        text = f"could not run handlers in {executor!r}: it is 'threads' or 'processes'"
        raise SettingError(text, setting="executor", value=executor)


def _check_count(setting: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        text = f"could not make a worker with {value!r} as {setting}: it is a number from 1 to {most:,}"
        raise SettingError(text, setting=setting, value=value, limit=most)
