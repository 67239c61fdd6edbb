"""A handler with its worker's settings: what the decorator `@client.work(...)` makes of a function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

from orbitmq.client.parameters import spelled
from orbitmq.client.work.hand import check_handler
from orbitmq.client.work.worker import Worker

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@spelled
class Work(Generic[_Parameters, _Result]):
    """The function, which can be called as before, and `run`. It opens a worker only in `run`.

    Raises: SettingError: the function cannot be called with a job alone.
    """

    def __init__(self, function: Callable[_Parameters, _Result], make: Callable[[], Worker]) -> None:
        check_handler(function)
        self._function = function
        self._make = make
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: _Parameters.args, **keywords: _Parameters.kwargs) -> _Result:
        return self._function(*arguments, **keywords)

    def run(self, *, jobs: int | None = None) -> int:
        """Makes a worker and calls its `run` with the function. See Worker.run."""
        with self._make() as worker:
            return worker.run(self if worker.settings.executor == "processes" else self._function, jobs=jobs)  # type: ignore[arg-type]

    def __reduce__(self) -> str:
        # By name, as functions are pickled: a process for jobs imports the module, and finds this object there.
        name: str = getattr(self, "__qualname__")  # noqa: B009  # update_wrapper has set it
        return name

    def __repr__(self) -> str:
        return f"<Work {self._function!r}>"


class Decorator:
    """What `Client.work` returns. make: makes a worker."""

    def __init__(self, make: Callable[[], Worker]) -> None:
        self._make = make

    def __call__(self, function: Callable[_Parameters, _Result]) -> Work[_Parameters, _Result]:
        return Work(function, self._make)
