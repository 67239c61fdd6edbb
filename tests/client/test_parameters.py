"""Goal: functions whose parameters are defined once, in a dataclass, have these parameters for every tool. Method: signatures,
and wrong calls. tests/test_types.py asks type checkers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import orbitmq
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.producer.settings import ProducerSettings
from orbitmq.client.receipt import Receipts
from orbitmq.errors import SettingError, UnknownOption
from orbitmq.store.commit_log.record import encode
from tests.client.test_help import TYPES, members
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
        with pytest.raises(SettingError, match="Consumer with bach=3: there is no such option; did you mean batch"):
            orbitmq.Consumer(broker, "g", ["t"], bach=3)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="positional arguments"):
            orbitmq.Consumer(broker, "g", ["t"], "tag")  # type: ignore[call-arg]
        with pytest.raises(SettingError, match="Producer with windw=3: there is no such option; did you mean window"):
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
        assert caught.value.message == f"could not call {call} with {wrong}={options[wrong]!r}: there is no such option"
        assert isinstance(caught.value, UnknownOption) and isinstance(caught.value, TypeError)


def test_a_misspelt_option_of_connect_and_broker(tmp_path: Path) -> None:
    for connect in (orbitmq.connect, orbitmq.aio.connect):
        with pytest.raises(SettingError, match="connect with timout=3: there is no such option; did you mean timeout"):
            connect("none", timout=3)  # type: ignore[operator]
    for option, meant in (("timout", "timeout"), ("flsh", "flush"), ("log_levl", "log_level")):
        with pytest.raises(SettingError) as caught:
            orbitmq.Broker(tmp_path / "store", **{option: 3})  # type: ignore[arg-type]
        assert str(caught.value.hint).startswith(f"did you mean {meant}")
    assert not (tmp_path / "store").exists()


def calls() -> Iterator[Any]:
    """Methods in Python whose arguments can be given by name."""
    for kind in [each for each in TYPES if each is not Receipts]:  # `first` is not for programs
        for name, member in members(kind):
            if inspect.isfunction(member) and len(inspect.signature(member).parameters) > 1:
                yield pytest.param(kind, name, id=f"{kind.__name__}.{name}")


@pytest.mark.parametrize(("kind", "name"), list(calls()))
def test_no_call_takes_what_it_does_not_have(kind: type, name: str) -> None:
    """Goal: every method names the option that may be meant. Method: each is called with a slip of its last one, on an object
    that was never made, so that a method that does anything before fails."""
    made = kind.__new__(kind)
    parameters = list(inspect.signature(getattr(kind, name)).parameters.values())[1:]
    meant = next((each for each in reversed(parameters) if each.kind is not inspect.Parameter.POSITIONAL_ONLY), None)
    assert meant is not None and meant.kind is not inspect.Parameter.VAR_KEYWORD
    wrong = f"{meant.name}_"
    needed = [None for each in parameters if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]

    async def call() -> None:
        result = getattr(made, name)(*needed, **{wrong: 1})
        if inspect.isawaitable(result):
            await result

    with pytest.raises(UnknownOption) as caught:
        asyncio.run(call())
    assert caught.value.setting == wrong and caught.value.value == 1
    assert (caught.value.hint or "").startswith("did you mean ") and meant.name in str(caught.value.hint), caught.value
    assert caught.value.message == f"could not call {name} with {wrong}=1: there is no such option"


SLIPS: list[tuple[str, dict[str, Any], str]] = [
    ("send", {"tag": "new"}, "could not send with tag='new': there is no such option; did you mean tags"),
    ("send_async", {"propertys": {}}, "could not send with propertys={}: there is no such option; did you mean properties"),
    ("send_oneway", {"delays": 3}, "could not send with delays=3: there is no such option; did you mean delay"),
    ("send_batch", {"key": ["a"]}, "could not send a batch with key=['a']: there is no such option; did you mean keys"),
    ("send_batch_async", {"durabilty": "flushed"}, "durabilty='flushed': there is no such option; did you mean durability"),
    ("send_batch", {"flag": 3}, "could not send a batch with flag=3: there is no such option; its options are bodies, dedup,"),
]


@pytest.mark.parametrize(("call", "options", "text"), SLIPS)
def test_a_misspelt_option_of_a_send(tmp_path: Path, call: str, options: dict[str, Any], text: str) -> None:
    with ThreadBroker(tmp_path) as broker:
        broker.topic("orders", 1)
        with orbitmq.Producer(broker) as producer:
            body = [b"body"] if "batch" in call else b"body"
            with pytest.raises(UnknownOption) as caught:
                getattr(producer, call)("orders", body, **options)
            assert text in str(caught.value) and "_own" not in str(caught.value)
            assert caught.value.values["setting"] in options and isinstance(caught.value, TypeError)
            assert producer.in_flight == 0 and not broker.log()


def test_a_misspelt_topic_body_and_timeout(tmp_path: Path) -> None:
    with ThreadBroker(tmp_path) as broker:
        broker.topic("orders", 1)
        with orbitmq.Producer(broker) as producer:
            send, batch = cast(Any, producer.send), cast(Any, producer.send_batch)
            with pytest.raises(UnknownOption, match="with topik='orders': there is no such option; did you mean topic"):
                send(topik="orders", body=b"body")
            with pytest.raises(UnknownOption, match="with bodys=b'body': there is no such option; did you mean body"):
                send("orders", bodys=b"body")
            with pytest.raises(UnknownOption, match=r"with body=.*: there is no such option; did you mean bodies"):
                batch("orders", body=[b"body"])
            with pytest.raises(TypeError, match="expected two arguments, topic and body, and keywords"):
                send("orders", topic="orders")
            for pending in (producer.send_async("orders", b"body"), producer.send_batch_async("orders", [b"body"])):
                with pytest.raises(UnknownOption, match=r"could not wait for a result with timout=3: .* did you mean timeout"):
                    pending.result(timout=3)  # type: ignore[call-arg]
                assert pending.result(timeout=30)


def test_a_misspelt_option_of_a_reply() -> None:
    message: Any = orbitmq.Message.from_record(encode("orders", b"body"))
    with pytest.raises(UnknownOption, match=r"could not call reply with propertis=1: .*; did you mean properties"):
        message.reply(b"body", propertis=1)
