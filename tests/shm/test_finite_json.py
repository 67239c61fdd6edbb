"""Goal: the content of a damaged file is JSON or a ValueError, and every number in it can be converted to an int."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orbitmq.shm import finite_json

_SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


@given(_VALUES)
def test_json_comes_back(value: Any) -> None:
    assert finite_json.loads(json.dumps(value)) == value
    assert finite_json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) == value


@pytest.mark.parametrize(
    "content",
    ["Infinity", "-Infinity", "NaN", "1e999", "[-1e999]", '{"a": [1, NaN]}', "[" * 100_000, b"\xff", "", "{", "9" * 5000],
)
def test_what_is_refused(content: str | bytes) -> None:
    with pytest.raises(ValueError):
        finite_json.loads(content)


@given(st.binary() | st.text('0123456789eE+-.[]{},:"InfityNa '))
@example(b"1e308")
def test_any_text_is_json_or_an_error(content: str | bytes) -> None:
    try:
        found = finite_json.loads(content)
    except ValueError:
        return
    assert not isinstance(found, float) or math.isfinite(found)
