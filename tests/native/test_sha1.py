"""Goal: SHA-1 and HMAC are those of the standards.

Method: Python's, for every size up to some blocks, in any pieces, by each
implementation that the processor has."""

from __future__ import annotations

import hashlib
import hmac
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.native._core import ffi, lib


@pytest.fixture(params=[0, 1], ids=["words", "extensions"], autouse=True, scope="module")
def way(request: pytest.FixtureRequest) -> Iterator[int]:
    """The implementation; without its instructions, the other one once more."""
    yield lib.sha1_use(request.param)
    lib.sha1_use(1)


def digest_of(pieces: list[bytes]) -> bytes:
    state, digest = ffi.new("struct sha1 *"), ffi.new("uint8_t[20]")
    lib.sha1_begin(state)
    for piece in pieces:
        lib.sha1_add(state, ffi.from_buffer(piece), len(piece))
    lib.sha1_end(state, digest)
    return bytes(ffi.buffer(digest))


def hmac_of(key: bytes, data: bytes) -> bytes:
    made, digest = ffi.new("struct hmac_key *"), ffi.new("uint8_t[20]")
    lib.hmac_key(made, ffi.from_buffer(key), len(key))
    inner = ffi.new("struct sha1 *", made.inner)
    lib.sha1_add(inner, ffi.from_buffer(data), len(data))
    lib.hmac_end(made, inner, digest)
    return bytes(ffi.buffer(digest))


def test_every_size() -> None:
    data = random.Random(1).randbytes(300)
    for size in range(len(data)):
        assert digest_of([data[:size]]) == hashlib.sha1(data[:size]).digest(), size


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_in_pieces(pieces: list[bytes]) -> None:
    assert digest_of(pieces) == hashlib.sha1(b"".join(pieces)).digest()


@given(st.binary(max_size=150), st.binary(max_size=300))
def test_hmac(key: bytes, data: bytes) -> None:
    assert hmac_of(key, data) == hmac.digest(key, data, "sha1")


def test_a_large_one() -> None:
    data = random.Random(2).randbytes(5 << 20)
    assert digest_of([data[:1], data[1:]]) == hashlib.sha1(data).digest()


def test_the_fastest_is_used(way: int) -> None:
    """If the kernel says that the processor has the instructions, they are used."""
    with open("/proc/cpuinfo") as file:  # noqa: PTH123
        has = " sha_ni " in file.read().replace("\n", " ")
    assert lib.sha1_use(1) == has
    lib.sha1_use(way)
