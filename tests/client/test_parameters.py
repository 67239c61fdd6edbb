"""Goal: functions whose parameters are defined once, in a dataclass, have these parameters for every tool. Method: signatures,
and wrong calls. tests/test_types.py asks type checkers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import orbitmq
from orbitmq.client.consumer_settings import ConsumerSettings
from orbitmq.client.producer_settings import ProducerSettings
from orbitmq.errors import SettingError
from tests.client.thread_broker import ThreadBroker

CALLS: list[tuple[Callable[..., Any], type, list[str]]] = [
    (orbitmq.Client.consumer, ConsumerSettings, ["self"]),
    (orbitmq.Broker.consumer, ConsumerSettings, ["self"]),
    (orbitmq.aio.AsyncClient.consumer, ConsumerSettings, ["self"]),
    (orbitmq.Consumer, ConsumerSettings, ["opener"]),
    (orbitmq.Client.producer, ProducerSettings, ["self"]),
    (orbitmq.Broker.producer, ProducerSettings, ["self"]),
    (orbitmq.aio.AsyncClient.producer, ProducerSettings, ["self"]),
    (orbitmq.Producer, ProducerSettings, ["opener"]),
]


@pytest.mark.parametrize(("function", "kind", "first"), CALLS, ids=lambda each: getattr(each, "__qualname__", None))
def test_the_parameters_are_those_of_the_dataclass(function: Callable[..., Any], kind: type, first: list[str]) -> None:
    found = inspect.signature(function)
    assert list(found.parameters)[: len(first)] == first
    assert list(found.parameters.values())[len(first) :] == list(inspect.signature(kind).parameters.values())
    assert inspect.iscoroutinefunction(function) == ("Async" in function.__qualname__)


def test_every_parameter_is_documented() -> None:
    """Goal: help(client.consumer) says what each is for. Method: its name is before a colon, or in the first sentence."""
    for function, kind, _ in (CALLS[0], CALLS[4]):
        text = inspect.getdoc(function) or ""
        assert text == inspect.getdoc(kind), "editors show the docstring of the dataclass"
        told = {word.strip() for line in text.splitlines() if ":" in line for word in line.partition(":")[0].split(",")}
        assert set(inspect.signature(kind).parameters) - {"group", "topics"} <= told


def test_what_there_is_not_is_refused(tmp_path: Path) -> None:
    with ThreadBroker(tmp_path) as broker:
        with pytest.raises(TypeError, match="unexpected keyword argument 'bach'"):
            orbitmq.Consumer(broker, "g", ["t"], bach=3)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="positional arguments"):
            orbitmq.Consumer(broker, "g", ["t"], "tag")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="unexpected keyword argument 'windw'"):
            orbitmq.Producer(broker, windw=3)  # type: ignore[call-arg]
        with pytest.raises(SettingError, match="could not wait -1 for a broker"):
            orbitmq.Consumer(broker, "g", ["t"], wait=-1)
        with pytest.raises(SettingError, match="with wait -1"):
            orbitmq.Producer(broker, wait=-1)
