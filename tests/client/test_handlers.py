"""Goal: a handler that cannot take a job alone is refused when it is given, and costs no job a try; any other is let through.
Method: such callables, given to `run`, to the decorator, and to their forms for asyncio."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from orbitmq.client.aio.worker import AsyncDecorator, AsyncWorker
from orbitmq.client.work.function import Decorator
from orbitmq.errors import SettingError
from tests.client import work_handlers
from tests.client.awaitable import run_watched
from tests.client.work_model import WorkModel


def nothing() -> None: ...


def two(_job: object, _account: object) -> None: ...


def by_name(_job: object, *, _account: object) -> None: ...


async def two_awaited(_job: object, _account: object) -> None: ...


def defaults(_job: object, _account: object = None, *, _more: object = None) -> None: ...


def anything(*_: object, **__: object) -> None: ...


async def awaited(_job: object) -> None: ...


class Till:
    def charge(self, _job: object) -> None: ...

    def __call__(self, _job: object) -> None: ...


class Unreadable:
    """Says nothing that can be understood about its parameters."""

    __signature__ = "none"

    def __call__(self, _job: object) -> None: ...


def given_an_account(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def with_account(job: object) -> object:
        return function(job, 7)

    return with_account


WRONG: dict[str, Any] = {
    "nothing": nothing,
    "two": two,
    "by_name": by_name,
    "two_awaited": two_awaited,
    "method": Till.charge,
    "partial": functools.partial(defaults, 1, 2),
}
RIGHT: dict[str, Any] = {
    "defaults": defaults,
    "anything": anything,
    "awaited": awaited,
    "bound method": Till().charge,
    "object": Till(),
    "partial": functools.partial(two, _account=7),
    "awaited partial": functools.partial(two_awaited, _account=7),
    "wrapped": given_an_account(two),
    "unreadable": Unreadable(),
    "of C": [].append,
}


@pytest.fixture
def model() -> WorkModel:
    model = WorkModel()
    model.send(b"a")
    return model


@pytest.mark.parametrize("executor", ["threads", "processes"])
@pytest.mark.parametrize("name", WRONG)
def test_one_that_cannot_take_a_job_is_refused(model: WorkModel, name: str, executor: str) -> None:
    handler = WRONG[name]

    async def run() -> None:
        await AsyncWorker(worker).run(handler, executor=executor)

    with model.worker(idle=0) as worker:
        calls: list[Callable[[], object]] = [
            lambda: worker.run(handler, executor=executor),
            lambda: Decorator(work_handlers.nobody)(handler),
            lambda: AsyncDecorator(lambda: pytest.fail("it makes a worker"))(handler),
            lambda: run_watched(run()),
        ]
        for call in calls:
            with pytest.raises(SettingError, match=r"cannot take a job as its only argument: .*; give a") as caught:
                call()
            assert caught.value.setting == "handler" and caught.value.value is handler
            assert str(caught.value).startswith(f"could not run {handler!r:.200}")
        assert not model.entry(b"a").deliveries and not model.dead


@pytest.mark.parametrize("name", RIGHT)
def test_any_other_is_let_through(model: WorkModel, name: str) -> None:
    with model.worker(idle=0) as worker:
        assert worker.run(RIGHT[name]) == 1
    assert model.done == [b"a"]
    Decorator(work_handlers.nobody)(RIGHT[name])
