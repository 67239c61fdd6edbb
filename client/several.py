"""Several values, as opposed to one text.

Python treats a str as a sequence of its letters, and so as a list of names. `Several[str]` is a type that lists, tuples, sets
and the like have, and str does not have: every collection can be asked whether it contains any object, and a str only whether
it contains a text. Type checkers compare just this. For programs that are not type-checked, `not_one_text` refuses a text at
run time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

from orbitmq.errors import SettingError

_Value_co = TypeVar("_Value_co", covariant=True)


class Several(Protocol[_Value_co]):
    """A list, tuple, set, deque, or the keys of a dict: anything that has values and accepts any object in `object in it`. A
    str does not."""

    def __iter__(self) -> Iterator[_Value_co]: ...

    def __contains__(self, value: object, /) -> bool: ...


class Ordered(Several[_Value_co], Protocol[_Value_co]):
    """A list or tuple, or another sequence; again not a str."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> _Value_co: ...


def not_one_text(values: object, doing: str, parameter: str) -> None:
    """Raises: SettingError: `values` is one text, whose letters would be taken for values. doing: what could not be done."""
    if isinstance(values, str | bytes | bytearray):
        raise SettingError(
            f"could not {doing} {values!r}: a list of names is needed",
            hint=f"write {parameter}=[{values!r}]",
            setting=parameter,
            value=values,
        )
