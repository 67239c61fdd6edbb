"""Parameters that several functions have, defined once as the fields of a dataclass.

    @dataclass(frozen=True, slots=True)
    class ConsumerSettings:
        group: str | None = None
        ...

    @called_with(ConsumerSettings)
    def consumer(self, *arguments: Any, **settings: Any) -> Consumer: ...

Then `consumer` has the parameters `group`, ... with their types and defaults: for type checkers and editors, for `help()` and
`inspect.signature`. Editors show the docstring of the dataclass for it; `help()` does so if the function has none of its own.
At run time the function is called as written, and passes its arguments on. The dataclass refuses those that it does not
know."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Self = TypeVar("_Self")
_First = TypeVar("_First")
_Result = TypeVar("_Result")


def called_with(
    kind: Callable[_Parameters, object],
) -> Callable[[Callable[Concatenate[_Self, ...], _Result]], Callable[Concatenate[_Self, _Parameters], _Result]]:
    """For a method: besides `self` it has the parameters of this dataclass."""

    def decorate(function: Callable[Concatenate[_Self, ...], _Result]) -> Callable[Concatenate[_Self, _Parameters], _Result]:
        _sign(function, kind)
        return function

    return decorate


def made_with(
    kind: Callable[_Parameters, object],
) -> Callable[
    [Callable[Concatenate[_Self, _First, ...], _Result]], Callable[Concatenate[_Self, _First, _Parameters], _Result]
]:
    """For an __init__: after `self` and one more argument, it has the parameters of this dataclass."""

    def decorate(
        function: Callable[Concatenate[_Self, _First, ...], _Result],
    ) -> Callable[Concatenate[_Self, _First, _Parameters], _Result]:
        _sign(function, kind)
        return function

    return decorate


def _sign(function: Any, kind: Callable[..., object]) -> None:
    own = signature(function)
    first = [each for each in own.parameters.values() if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    function.__doc__ = function.__doc__ or kind.__doc__
    function.__signature__ = own.replace(parameters=[*first, *signature(kind).parameters.values()])
