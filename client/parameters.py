"""Parameters that several functions have, defined once as the fields of a dataclass.

    @dataclass(frozen=True, slots=True)
    class ConsumerSettings:
        group: str | None = None
        ...

    @called_with(ConsumerSettings)
    def consumer(self, *arguments: Any, **settings: Any) -> Consumer: ...

Then `consumer` has the parameters `group`, ... with their types and defaults: for type checkers and editors, for `help()` and
`inspect.signature`. Editors show the docstring of the dataclass for it; `help()` does so if the function has none of its own.
At run time the function is called as written, and passes its arguments on.

An option that there is not, such as a misspelt one, is a SettingError that names the one that may be meant. Functions whose
parameters are written out get the same by `@known_options`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, iscoroutinefunction, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from orbitmq.errors import SettingError

_Parameters = ParamSpec("_Parameters")
_Self = TypeVar("_Self")
_First = TypeVar("_First")
_Result = TypeVar("_Result")


def called_with(
    kind: Callable[_Parameters, object],
) -> Callable[[Callable[Concatenate[_Self, ...], _Result]], Callable[Concatenate[_Self, _Parameters], _Result]]:
    """For a method: besides `self` it has the parameters of this dataclass."""

    def decorate(function: Callable[Concatenate[_Self, ...], _Result]) -> Callable[Concatenate[_Self, _Parameters], _Result]:
        signed: Callable[Concatenate[_Self, _Parameters], _Result] = _signed(function, kind, function.__name__)
        return signed

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
        signed: Callable[Concatenate[_Self, _First, _Parameters], _Result]
        signed = _signed(function, kind, function.__qualname__.rpartition(".")[0])
        return signed

    return decorate


def known_options(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """For a function or method with parameters of its own."""
    checked: Callable[_Parameters, _Result]
    checked = _checked(function, function.__name__, signature(function).parameters.keys() - {"self"})
    return checked


def refuse_option(call: str, option: str, value: object, known: Iterable[str]) -> SettingError:
    """The error for an option that there is not. call: the name of what was called."""
    names = sorted(known)
    close = get_close_matches(option, names, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}" if close else f"its options are {', '.join(names)}"
    text = f"could not call {call} with {option}={value!r:.100}: it has no option {option!r}"
    return SettingError(text, hint=hint, name=option, setting=option, value=value)


def _signed(function: Any, kind: Callable[..., object], call: str) -> Any:
    own, options = signature(function), signature(kind).parameters
    first = [each for each in own.parameters.values() if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    made = _checked(function, call, options.keys(), {each.name for each in first})
    made.__doc__ = function.__doc__ or kind.__doc__
    made.__signature__ = own.replace(parameters=[*first, *options.values()])
    return made


def _checked(function: Any, call: str, options: Set[str], others: Set[str] = frozenset()) -> Any:
    names = {*options, *others}

    def check(given: dict[str, Any]) -> None:
        for name in given.keys() - names:
            raise refuse_option(call, name, given[name], options)

    if iscoroutinefunction(function):

        @wraps(function)
        async def later(*arguments: Any, **given: Any) -> Any:
            check(given)
            return await function(*arguments, **given)

        return later

    @wraps(function)
    def now(*arguments: Any, **given: Any) -> Any:
        check(given)
        return function(*arguments, **given)

    return now
