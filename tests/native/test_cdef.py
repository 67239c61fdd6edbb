"""Goal: a struct of native/cdef equals the header's. Method: cffi compares the two when a declaration is first used, so all are
used here. For constants it takes the compiler's values."""

from __future__ import annotations

import pytest

from orbitmq.native._core import ffi, lib

TYPEDEFS, STRUCTS, UNIONS = ffi.list_types()


@pytest.mark.parametrize("name", STRUCTS)
def test_struct(name: str) -> None:
    try:
        assert ffi.sizeof(f"struct {name}") > 0
    except ffi.error as error:
        assert "don't know the size" in str(error)  # only its name is declared


def test_constants_and_functions() -> None:
    assert not TYPEDEFS and not UNIONS, "compare them too"
    names = dir(lib)
    assert len(names) > 100
    for name in names:
        assert getattr(lib, name) is not None
