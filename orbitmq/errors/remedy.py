"""What would help, as data: an error names the setting or argument to change (the knob), and each face of OrbitMQ spells it as
its users write it.

    hint("raise {timeout} || raise {window of producer}")

    library       raise timeout=, or raise window= of producer()
    command       raise --timeout                 it has no option for a window, so that way is left out
    Spark         raise option timeout

`||` separates the ways that would help. Within one, braces hold a knob by its name in the library: `{timeout}`; with a value
that would work: `{full=True}`; with the call that takes the argument, if the failed call does not: `{window of producer}`. The
owner `broker` means the broker's settings, and `spark` means options of the data source for which the library has no argument.
`{}` takes the next of the values that follow the text: a knob, or text that is not searched for knobs.

A face is a function that spells a knob, or returns None if its users cannot turn it. The library's is here, and so are those of
the places that settings come from. The others are with their face: cli/spelling.py, spark/spelling.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

_KNOB = re.compile(r"\{(?:(?P<name>\w+)(?:=(?P<value>\{\}|[^{} ]+))?(?: of (?P<of>\w+))?)?\}")
_WORDS = {"True": True, "False": False}


class Knob(NamedTuple):
    """name: of a setting or an argument, as in the library. value: one that would work; None: none is known. of: the call that
    takes the argument, or "broker" for one of its settings; "" for the call that failed."""

    name: str
    value: str | int | bool | None = None
    of: str = ""


Face: TypeAlias = Callable[[Knob], str | None]
Way: TypeAlias = tuple[str | Knob, ...]


class Hint(NamedTuple):
    """Ways that would help, each of words and knobs. then: what is assured besides, such as that repeating is safe."""

    ways: tuple[Way, ...]
    then: str = ""

    def spelled(self, face: Face) -> str | None:
        """The hint for the users of a face, without the ways that they do not have. None: they have none of them."""
        spelled = (_spelled(way, face) for way in self.ways)
        ways = ", or ".join(way for way in spelled if way is not None)
        return "; ".join(filter(None, (ways, self.then))) or None

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return tuple(part for way in self.ways for part in way if isinstance(part, Knob))

    def assuring(self, then: str) -> Hint:
        """The same ways, with this said after them."""
        return self._replace(then=then)

    def plain(self) -> list[Any]:
        """Lists and text only; `of_plain` understands them."""
        return [self.then, *([list(part) if isinstance(part, Knob) else part for part in way] for way in self.ways)]


def hint(text: str, *values: object) -> Hint:
    """Reads the notation above."""
    left = iter(values)
    return Hint(tuple(tuple(_parts(way, left)) for way in text.split(" || ")))


def all_of(*hints: Hint | str | None) -> Hint | None:
    """One hint after the other, if several places know something about it."""
    found = [each for each in map(as_hint, hints) if each]
    ways = tuple(way for each in found for way in each.ways)
    then = "; ".join(each.then for each in found if each.then)
    return Hint(ways, then) if found else None


def as_hint(given: Hint | str | None) -> Hint | None:
    """A text is one way without knobs."""
    if isinstance(given, str):
        return Hint(((given,),)) if given else None
    return given


def of_plain(content: Any) -> Hint | None:
    """Raises: TypeError, ValueError: `plain` did not make it."""
    if content is None:
        return None
    then, *ways = content
    return Hint(tuple(tuple(part if isinstance(part, str) else Knob(*part) for part in way) for way in ways), then)


# Calls for which the library has a method, and the command an option.
_DEEDS = {"skip_damaged": "consumer.seek()"}


def library(knob: Knob) -> str:
    """Spells it as a keyword of a Python call."""
    if knob.name in _DEEDS:
        return _DEEDS[knob.name]
    if knob.of == "spark":
        return f"option {knob.name}" if knob.value is None else f"option {knob.name} = {knob.value}"
    if knob.of == "broker":
        return f"{knob.name} of the broker" if knob.value is None else f"{knob.name}={knob.value!r}"
    keyword = f"{knob.name}=" if knob.value is None else f"{knob.name}={knob.value!r}"
    return f"{keyword} of {knob.of}()" if knob.of else keyword


def settings_file(knob: Knob) -> str | None:
    """Spells it as a key of the store's orbitmq/settings.toml."""
    if knob.of not in ("", "broker"):
        return None
    value = str(knob.value).lower() if isinstance(knob.value, bool) else repr(knob.value)
    return knob.name if knob.value is None else f"{knob.name} = {value}"


def environment(knob: Knob) -> str | None:
    """Spells it as an environment variable."""
    if knob.of not in ("", "broker"):
        return None
    variable = f"ORBITMQ_{knob.name.upper()}"
    return variable if knob.value is None else f"{variable}={knob.value}"


# Those that an error keeps when it comes from another process.
FACES: dict[str, Face] = {"library": library, "file": settings_file, "environment": environment}


def _spelled(way: Way, face: Face) -> str | None:
    parts = [face(part) if isinstance(part, Knob) else part for part in way]
    return "".join(part for part in parts if part is not None) if None not in parts else None


def _parts(way: str, values: Iterator[object]) -> Iterator[str | Knob]:
    end = 0
    for found in _KNOB.finditer(way):
        if found.start() > end:
            yield way[end : found.start()]
        end = found.end()
        if found["name"] is None:
            value = next(values)
            yield value if isinstance(value, Knob) else str(value)
        else:
            value = next(values) if found["value"] == "{}" else _value(found["value"])
            yield Knob(found["name"], value if isinstance(value, int | None) else str(value), found["of"] or "")
    if end < len(way):
        yield way[end:]


def _value(text: str | None) -> str | int | bool | None:
    if text is None:
        return None
    return int(text) if text.isdecimal() else _WORDS.get(text, text)
