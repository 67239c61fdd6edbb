"""A job: one message in the hand of one worker."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Literal, Protocol, Self

from orbitmq.client.message import Message
from orbitmq.client.parameters import spelled
from orbitmq.client.producer.body import Body
from orbitmq.client.receipt import Receipt
from orbitmq.client.unclosed import Shown
from orbitmq.client.work.failure import Failure, bounded, failure_of
from orbitmq.client.work.handed import HandOut
from orbitmq.errors import JobLost, SettingError, UsageError
from orbitmq.errors.remedy import hint
from orbitmq.native._core import lib
from orbitmq.shm.durability import Durability

State = Literal["open", "acked", "nacked", "given back", "lost"]
SECONDS_MAX: float = lib.WORK_WAIT_MS_MAX / 1000  # of a delay and of a visibility
TOO_LATE = hint("if its work takes so long, raise {visibility of worker} || raise {timeout of worker}").assuring(
    "a reset of the group takes jobs back too; do not repeat it"
)
RETRY_TOPIC = "RETRY_TOPIC"  # property of a message that comes again: the topic to which it was sent


class Settler(Protocol):
    """Where jobs are settled, each at most once."""

    def ack(self, jobs: Sequence[Job]) -> int:
        """Returns how many of them were still open."""

    def nack(self, job: Job, delay: float | None, failure: Failure) -> bool:
        """False: it was not open any more."""

    def extend(self, job: Job, seconds: float) -> bool: ...


@spelled
class Job(Shown):
    """A message that this worker, and no other, has until `deadline`. Workers make jobs.

    Attributes:
        message: the Message, with properties, keys and all else.
        state: "open"; "acked", "nacked" or "given back" by this worker; "lost": its time was over.
    """

    __slots__ = ("_settler", "hand_out", "message", "state", "thread")

    def __init__(self, hand_out: HandOut, settler: Settler) -> None:
        self.hand_out = hand_out
        self.message: Message = hand_out.message
        self.state: State = "open"
        self.thread: int | None = None  # the identifier of the one that works on it
        self._settler = settler

    @property
    def body(self) -> bytes:
        """A copy of the body. `message.body` is a view, without a copy."""
        return bytes(self.message)

    @property
    def topic(self) -> str:
        """The topic to which the message was sent, also if it comes from the group's retry topic."""
        message = self.message
        topic = message.topic
        return message.properties.get(RETRY_TOPIC, topic) if topic[0] == "%" else topic

    @property
    def delivery(self) -> int:
        """How often the message has been handed out, this time included: 1 for the first."""
        return self.hand_out.delivery

    @property
    def deadline(self) -> float:
        """When the broker gives it to another worker, in seconds of time.monotonic(). The worker moves it by itself as long as
        the job is open, unless it was made with extend=False."""
        return self.hand_out.deadline

    def ack(self) -> None:
        """The job is done: its message does not come again. Returns without waiting for the broker; Worker.flush waits. Doing
        it again does nothing.

        Raises: JobLost: the job's time was over before. UsageError: it was nacked.
        """
        if not self._settler.ack((self,)) and self.state != "acked":
            raise self._refusal("ack")

    def nack(self, delay: float | None = None, reason: str = "") -> None:
        """The job is not done: its message comes again, to any worker. Doing it again does nothing.

        Args:
            delay: seconds until then; 0: at once; None: as RocketMQ does it, 10 s after the first try, up to 2 h.
            reason: for people; one line, cut to 500 bytes. It is stored nowhere yet.

        Raises: JobLost: the job's time was over before. UsageError: it was acked. SettingError: the delay is no number of
            seconds, or above 12 hours; the reason is no text. The job is still open then.
        """
        check_seconds(delay, "nack", "delay", most=SECONDS_MAX)
        if not isinstance(reason, str):
            raise SettingError(f"could not nack with the reason {reason!r}: it is no text", setting="reason", value=reason)
        if not self._settler.nack(self, delay, Failure(bounded(reason), "")) and self.state != "nacked":
            raise self._refusal("nack")

    def extend(self, seconds: float) -> None:
        """Moves the deadline to so many seconds from now. The worker does this by itself, unless it was made with extend=False.

        Raises: JobLost: the job's time was over before. UsageError: it was settled. SettingError: not above 0, or above 12
            hours.
        """
        check_seconds(seconds, "extend a job", "seconds", above=True, most=SECONDS_MAX)
        if not self._settler.extend(self, seconds):
            raise self._refusal("extend")

    def reply(
        self,
        body: Body,
        *,
        keys: str | Sequence[str] | None = (),
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Durability | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Replies to the job's message, which must be a request; see Message.reply. The job stays open: it is acked afterwards,
        so that the request comes again if this worker dies before it has replied."""
        return self.message.reply(
            body, keys=keys, properties=properties, flag=flag, durability=durability, timeout=timeout
        )

    def fail(self, error: BaseException) -> None:
        """What an error that leaves a loop's body, a `with job:` block or a handler does: nacks the job with the error's type
        and text as the reason and a digest of its traceback, unless the job is settled. After an error that is not an
        Exception, such as KeyboardInterrupt, the message comes again at once."""
        self._settler.nack(self, None if isinstance(error, Exception) else 0.0, failure_of(error))

    def give_up(self, delay: float | None, failure: Failure) -> None:
        """Nacks the job with this failure, unless it is settled."""
        self._settler.nack(self, delay, failure)

    def done(self) -> None:
        """What leaving a body normally does: acks the job, unless it is settled."""
        self._settler.ack((self,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.done() if error is None else self.fail(error)

    def _refusal(self, doing: str) -> JobLost | UsageError:
        message = self.message
        place = f"{message.topic}/{message.queue}@{message.offset}"
        if self.state == "lost":
            return JobLost(
                f"could not {doing} the job {place}: its time was over, and its message comes again",
                hint=TOO_LATE,
                ids=[message.id],
            )
        return UsageError(f"could not {doing} the job {place}: it was {self.state}", id=message.id)

    def _words(self) -> str:
        message = self.message
        return f"{message.topic}/{message.queue}@{message.offset}, delivery {self.delivery}, {self.state}"


def check_seconds(value: float | None, doing: str, setting: str, *, above: bool = False, most: float = math.inf) -> None:
    """Raises: SettingError: not a number of seconds from 0 (above: above 0) to `most`, or None where that may be left out."""
    if value is None and not above:
        return
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if (number > 0 if above else number >= 0) and number <= most:
        return
    least = "above 0" if above else "0 or more"
    limit = "" if most == math.inf else f", and {most:,.0f} at most"
    text = f"could not {doing} with {setting}={value!r}: it is a number of seconds, {least}{limit}"
    raise SettingError(text, setting=setting, value=value)
