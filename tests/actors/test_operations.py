"""Goal: whatever a client asks, the coordinator answers with an error of OrbitMQ's, before anything is done. Method: any
question, on operations that have nothing behind them. What operations do: tests/actors/test_sessions.py, test_groups.py and
others, on trees. What a hostile client asks: tests/crash/test_hostile.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.actors.coordinator.operations import _OPERATIONS, Operations, _check_fields
from orbitmq.errors import ProtocolError


class Peer:
    pid = 42
    greeted = False
    offered = None


def operations() -> Operations:
    nothing: Any = None
    return Operations(nothing, nothing, nothing, nothing, nothing, nothing)


def ask(question: dict[Any, Any]) -> None:
    peer: Any = Peer()
    with pytest.raises(ProtocolError) as caught:
        operations().perform(peer, question)
    assert len(caught.value.message) < 300


PLAIN = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text() | st.binary()
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3), max_leaves=6
)


@given(st.dictionaries(st.text() | st.integers(), VALUES, max_size=5))
def test_any_question_before_hello(question: dict[Any, Any]) -> None:
    ask(question)


@given(VALUES)
def test_an_operation_that_is_none(name: Any) -> None:
    if name not in list(_OPERATIONS):
        ask({"op": name})


@pytest.mark.parametrize("name", ["perform", "_session", "__init__", "", None, ["hello"], {"op": "hello"}])
def test_nothing_else_of_the_object_can_be_called(name: Any) -> None:
    ask({"op": name})


@pytest.mark.parametrize("name", sorted(set(_OPERATIONS) - {"hello"}))
def test_hello_comes_first(name: str) -> None:
    ask({"op": name, "id": 1})


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("pid", ["1", None, -1, 1 << 63, 1.0]),
        ("slot", ["0", -1]),
        ("epoch", [None, []]),
        ("perm", [-1]),
        ("poll_ms", [0.5, -1]),
        ("group", [5, b"g"]),
        ("topics", ["t", [5], None, {"t": 1}]),
        ("values", [[], None, {5: 1}]),
        ("forget", ["x", [5], None]),
        ("released", ["x", [["t", 0]], [["t", "0", 1]], [[1, 0, 1]], [None]]),
    ],
)
def test_a_field_of_another_type(name: str, wrong: list[Any]) -> None:
    for value in wrong:
        with pytest.raises(ProtocolError, match=f"with {name} "):
            _check_fields("join_group", {"op": "join_group", name: value})


def test_fields_as_clients_send_them() -> None:
    _check_fields("x", {"pid": 1, "group": "g", "topics": ["t"], "values": {"a": 1}, "forget": [], "released": [["t", 0, 3]]})
    _check_fields("x", {})
