"""The root of all errors, and what each of them carries."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Self, TypedDict, TypeVar, Unpack

from orbitmq.errors.remedy import Face, Hint, Knob, as_hint, library

Kind = TypeVar("Kind", bound="OrbitError")

_OWN = ("message", "remedy", "face")
_HANDLES = ("pending", "receipts")  # of this process alone: they are not sent to another one


class Retry(Enum):
    """Whether the same call may be repeated."""

    SAFE = "yes"  # nothing was done, and the call can succeed later by itself
    AFTER_CHANGE = "after a change"  # nothing was done, and the call fails again until somebody changes what the error names
    LOOK_FIRST = "look first"  # it may have been done, and a second call may do it twice
    NO = "no"  # this producer, consumer or message can never do it


class Common(TypedDict, total=False):
    """The arguments that every error accepts. sent, pending: see OrbitError."""

    hint: Hint | str | None
    sent: int | None
    pending: Any


class OrbitError(Exception):
    """Root of the tree in orbitmq.errors.

    message: what could not be done, with which value, and why. remedy: what would help, as data; None: nothing is known. face:
        the spelling that `hint` and str() use.

    An error of a batch, whatever its class is, says how far the batch came. If all messages were sent, it has receipts
    (`receipts[i]` is the receipt of message i, or raises why it has none), index (of the first message that was refused) and
    failed (how many were). If the call ended before that, it has sent (how many were sent) and pending (the Pending or
    PendingBatch of what is on its way).
    """

    def __init__(self, message: str, **common: Unpack[Common]) -> None:
        super().__init__(message)
        self.message = message
        self.remedy: Hint | None = as_hint(common.get("hint"))
        self.face: Face = library
        self.receipts: Sequence[Any] | None = None
        self.index: int | None = None
        self.failed: int | None = None
        self.sent: int | None = common.get("sent")
        self.pending: Any = common.get("pending")
        self._done_once = False

    def of_call_done_once(self) -> None:
        """The call that raises this finds out itself what it did before, so that it does nothing twice if it is repeated."""
        self._done_once = True

    @property
    def retry(self) -> Retry:
        """Whether the same call may be repeated. After a batch of which messages were sent: look first, whatever ended it."""
        if self._done_once:
            return Retry.SAFE if self._retry is Retry.LOOK_FIRST else self._retry
        return Retry.LOOK_FIRST if self.sent or self.receipts is not None else self._retry

    @property
    def _retry(self) -> Retry:
        """The same for a call that is not a batch."""
        return Retry.AFTER_CHANGE

    @property
    def hint(self) -> str | None:
        """What would help, as the users of `face` write it; None: nothing is known."""
        return self.remedy.spelled(self.face) if self.remedy else None

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The settings and arguments that the hint names."""
        return self.remedy.knobs if self.remedy else ()

    @property
    def knob(self) -> str | None:
        """Name of the first of them, as the library has it."""
        return self.knobs[0].name if self.knobs else None

    @property
    def values(self) -> dict[str, Any]:
        """The other attributes, as far as they apply."""
        return {name: value for name, value in vars(self).items() if value is not None and name not in _OWN and name[0] != "_"}

    def reworded(self, message: str, remedy: Hint | None = None) -> Self:
        """The same error with another text, and with another remedy if one is given."""
        return made(type(self), message, vars(self) | {"message": message, "remedy": remedy or self.remedy})

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __copy__(self) -> Self:
        return made(type(self), self.message, vars(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (made, (type(self), self.message, vars(self) | dict.fromkeys(_HANDLES)))


def made(kind: type[Kind], message: str, values: dict[str, Any]) -> Kind:
    """An error of this kind with these attributes, as far as it has them: another version may know more."""
    error = kind(message)
    vars(error).update({name: value for name, value in values.items() if name in vars(error) or name == "__notes__"})
    return error
