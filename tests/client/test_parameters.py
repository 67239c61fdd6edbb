"""Goal: functions whose parameters are defined once, in a dataclass, have these parameters for every tool. Method: signatures,
and wrong calls. tests/test_types.py asks type checkers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

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
        with pytest.raises(SettingError, match="Consumer with bach=3: it has no option 'bach'; did you mean batch"):
            orbitmq.Consumer(broker, "g", ["t"], bach=3)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="positional arguments"):
            orbitmq.Consumer(broker, "g", ["t"], "tag")  # type: ignore[call-arg]
        with pytest.raises(SettingError, match="Producer with windw=3: it has no option 'windw'; did you mean window"):
            orbitmq.Producer(broker, windw=3)  # type: ignore[call-arg]
        for name in ("window", "message_max"):
            with pytest.raises(SettingError, match=f"with {name}='1M': it is a whole number"):
                orbitmq.Producer(broker, **{name: "1M"})  # type: ignore[arg-type]
        with pytest.raises(SettingError, match="could not wait -1 for a broker"):
            orbitmq.Consumer(broker, "g", ["t"], wait=-1)
        with pytest.raises(SettingError, match="with wait -1"):
            orbitmq.Producer(broker, wait=-1)


MISSPELT: list[tuple[str, dict[str, Any], str]] = [
    ("producer", {"windw": 3}, "did you mean window"),
    ("consumer", {"group": "g", "topics": ["t"], "revoke_timout": 1}, "did you mean revoke_timeout"),
    ("worker", {"group": "g", "topics": ["t"], "visibilty": 3}, "did you mean visibility"),
    ("work", {"group": "g", "topics": ["t"], "concurency": 3}, "did you mean concurrency"),
    ("create_topic", {"name": "u", "queus": 3}, "did you mean queues"),
    ("create_topic", {"name": "u", "colour": "red"}, "its options are durability, name, queues, retention_hours"),
]


@pytest.mark.parametrize(("call", "options", "hint"), MISSPELT, ids=lambda each: each if isinstance(each, str) else None)
def test_a_misspelt_option_of_a_client(call: str, options: dict[str, Any], hint: str) -> None:
    """It is refused before anybody asks the broker, which need not run."""
    [wrong] = [name for name in options if name in ("windw", "revoke_timout", "visibilty", "concurency", "queus", "colour")]

    async def ask() -> None:
        made = getattr(orbitmq.aio.AsyncClient, call)(cast(Any, None), **options)
        await made

    for deed in (lambda: getattr(orbitmq.Client, call)(cast(Any, None), **options), lambda: asyncio.run(ask())):
        with pytest.raises(SettingError) as caught:
            deed()
        assert caught.value.hint == hint and caught.value.setting == wrong
        assert caught.value.message == f"could not call {call} with {wrong}={options[wrong]!r}: it has no option {wrong!r}"


def test_a_misspelt_option_of_connect_and_broker(tmp_path: Path) -> None:
    for connect in (orbitmq.connect, orbitmq.aio.connect):
        with pytest.raises(SettingError, match="connect with timout=3: it has no option 'timout'; did you mean timeout"):
            connect("none", timout=3)  # type: ignore[operator]
    for option, meant in (("timout", "timeout"), ("flsh", "flush"), ("log_levl", "log_level")):
        with pytest.raises(SettingError) as caught:
            orbitmq.Broker(tmp_path / "store", **{option: 3})  # type: ignore[arg-type]
        assert str(caught.value.hint).startswith(f"did you mean {meant}")
    assert not (tmp_path / "store").exists()
