"""Goal: what is written to config files can be read back, and has RocketMQ's form. Method: any value, to text and back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.store import json_text

_SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(_VALUES)
def test_text_keys_round_trip(value: Any) -> None:
    """Strings that look like bare keys must come back as they were."""
    assert json_text.loads(json_text.dumps(value)) == value


@given(st.dictionaries(st.integers(), st.integers()))
def test_integer_keys_round_trip(value: dict[int, int]) -> None:
    assert {int(key): each for key, each in json_text.loads(json_text.dumps(value)).items()} == value


def test_the_layout_of_a_file() -> None:
    value = {"b": {10: 1, 2: "x"}, "a": [1, {}], "c": {}}
    assert json_text.dumps(value) == '{\n\t"a":[1,{}],\n\t"b":{\n\t\t2:"x",\n\t\t10:1\n\t},\n\t"c":{}\n}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{1:2, "3":4}', {"1": 2, "3": 4}),
        ("{-1 : {0:5}}", {"-1": {"0": 5}}),
        (r'{"a\"1:":2}', {'a"1:': 2}),
        ('{"a": "1:2"}', {"a": "1:2"}),
    ],
)
def test_keys_without_quotes(text: str, value: Any) -> None:
    assert json_text.loads(text) == value


@given(st.text(alphabet='0123456789{}[]:,"\\ -eINn'))
def test_any_text_is_json_or_an_error(text: str) -> None:
    with suppress(ValueError):
        json_text.loads(text)
