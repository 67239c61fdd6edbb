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

An option that there is not, such as a misspelt one, is an UnknownOption that names the one that may be meant. Functions whose
parameters are written out get the same by `@known_options`, and all methods of a class by `@spelled`: those look at the names
only after Python has refused them. A method that is called so often that a function around it would be felt takes `**unknown`,
and begins with

    if unknown:
        refuse_unknown(self.poll, unknown)

`@spelled` leaves such a method as it is, and hides `unknown` from `inspect.signature`. What C parses refuses in C."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from functools import wraps
from inspect import CO_VARKEYWORDS, Parameter, iscoroutinefunction, signature
from types import FunctionType
from typing import Any, Concatenate, Never, NoReturn, ParamSpec, TypeVar

from orbitmq.errors import UnknownOption
from orbitmq.errors.option import unknown_option

Unknown = Never  # the type of what no caller may give

_Kind = TypeVar("_Kind", bound=type)
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
    checked: Any
    called: Any = function
    if iscoroutinefunction(function):

        @wraps(function)
        async def later(*arguments: Any, **given: Any) -> Any:
            try:
                coroutine = called(*arguments, **given)
            except TypeError:
                _check(called, given)
                raise
            return await coroutine

        checked = later
    else:

        @wraps(function)
        def now(*arguments: Any, **given: Any) -> Any:
            try:
                return called(*arguments, **given)
            except TypeError:
                _check(called, given)
                raise

        checked = now
    result: Callable[_Parameters, _Result] = checked
    return result


def spelled(kind: _Kind) -> _Kind:
    """For a class: all public methods that it defines and that have parameters."""
    for name, member in tuple(vars(kind).items()):
        if name[0] == "_" or not isinstance(member, FunctionType) or hasattr(member, "__wrapped__"):
            continue
        code = member.__code__
        if code.co_flags & CO_VARKEYWORDS:
            if code.co_varnames[code.co_argcount + code.co_kwonlyargcount] == "unknown":
                own = signature(member)
                member.__signature__ = own.replace(parameters=_named(own.parameters))  # type: ignore[attr-defined]
        elif code.co_argcount + code.co_kwonlyargcount > 1:
            setattr(kind, name, known_options(member))
    return kind


def refuse_unknown(method: Callable[..., Any], unknown: Mapping[str, object]) -> NoReturn:
    """Raises: UnknownOption, for the first of these."""
    option, value = next(iter(unknown.items()))
    names = [each.name for each in _named(signature(method).parameters)]
    raise refuse_option(method.__name__, option, value, names) from None


def refuse_option(call: str, option: str, value: object, known: Iterable[str]) -> UnknownOption:
    """The error for an option that there is not. call: the name of what was called."""
    return unknown_option(f"call {call}", option, value, known)


def _check(function: Callable[..., Any], given: Mapping[str, object]) -> None:
    """After a TypeError: it may be of something inside the call, or of too many arguments."""
    names = {each.name for each in _named(signature(function).parameters)} - {"self"}
    unknown = {name: value for name, value in given.items() if name not in names}
    if unknown:
        option, value = next(iter(unknown.items()))
        raise refuse_option(function.__name__, option, value, names) from None


def _named(parameters: Mapping[str, Parameter]) -> list[Parameter]:
    return [each for each in parameters.values() if each.kind is not Parameter.VAR_KEYWORD]


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
