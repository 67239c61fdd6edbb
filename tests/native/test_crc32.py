"""Goal: the CRC is zlib's for every length, alignment and implementation, and its arithmetic moves registers correctly.

Method: zlib is the reference for checksums; a bit-by-bit polynomial model is the reference for operators and products. Every
test runs with every implementation that the processor supports.
"""

import ctypes
import mmap
import random
import threading
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.native._core import ffi, lib

ONE = 0x80000000
WORDS = st.integers(0, 2**32 - 1)


def times_x(value: int) -> int:
    """One polynomial times x, mod P, reflected."""
    return value >> 1 ^ (0xEDB88320 if value & 1 else 0)


def product(a: int, b: int) -> int:
    """a * b mod P, one bit at a time."""
    total = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            total ^= b
        b = times_x(b)
    return total


def raw(register: int, data: bytes) -> int:
    """The bare register over data, through zlib."""
    return zlib.crc32(data, register ^ 0xFFFFFFFF) ^ 0xFFFFFFFF


@pytest.fixture(params=[3, 2, 1, 0], ids=["fold_wide", "fold_pairs", "fold", "tables"], autouse=True, scope="module")
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every implementation; a processor without carry-less multiplication repeats a slower one."""
    lib.crc32_use(request.param)
    yield
    lib.crc32_use(3)


def test_every_length_and_alignment() -> None:
    """Lengths around every boundary of the folding loops, at 16 alignments, with registers that are not zero."""
    data = random.Random(32).randbytes(1024)
    pointer = ffi.from_buffer("uint8_t[]", data)
    for length in range(601):
        start = length % 17
        piece = data[start : start + length]
        assert lib.crc32_update(0, pointer + start, length) == zlib.crc32(piece)
        assert lib.crc32_update(length * 0x01234567 & 0xFFFFFFFF, pointer + start, length) == zlib.crc32(
            piece, length * 0x01234567 & 0xFFFFFFFF
        )


def test_mebibytes() -> None:
    """Long runs, so that an error in a folding factor cannot hide."""
    data = random.Random(20).randbytes((1 << 20) + 13)
    to = ffi.new("uint8_t[]", len(data))
    for length in (1 << 20, (1 << 20) + 13, (1 << 19) - 1):
        assert lib.crc32_update(0, data, length) == zlib.crc32(data[:length])
        assert lib.crc32_copy(0, to, data, length) == zlib.crc32(data[:length])
        assert ffi.buffer(to, length)[:] == data[:length]


def test_nothing_outside_is_read() -> None:
    """Data that begin and end at pages without access: wide loads must stay inside, or mask what is outside."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    memory[page : 2 * page] = random.Random(7).randbytes(page)
    for barred in (0, 2):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + barred * page), ctypes.c_size_t(page), 0) == 0
    start = ffi.cast("uint8_t *", address + page)
    for length in (*range(200), 511, 512, 513, 1000, page):
        assert lib.crc32_update(0, start, length) == zlib.crc32(memory[page : page + length])
        assert lib.crc32_update(0, start + page - length, length) == zlib.crc32(memory[2 * page - length : 2 * page])


def test_copies() -> None:
    """A copy is whole, touches nothing after it, and its CRC is zlib's."""
    data = random.Random(64).randbytes(700)
    for length in range(601):
        start = length % 17
        to = ffi.new("uint8_t[]", length + 1)
        to[length] = 99
        piece = data[start : start + length]
        assert lib.crc32_copy(length, to, ffi.from_buffer(data) + start, length) == zlib.crc32(piece, length)
        assert bytes(ffi.buffer(to)) == piece + b"c"


def test_copies_of_what_changes() -> None:
    """The CRC is that of the copy even while another thread writes the source (calls into C leave it running)."""
    source = bytearray(512)
    done = threading.Event()

    def disturb() -> None:
        numbers = random.Random(1)
        while not done.is_set():
            source[numbers.randrange(512)] ^= 1

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        to = ffi.new("uint8_t[512]")
        for length in range(1, 513):
            for _ in range(8):
                crc = lib.crc32_copy(0, to, ffi.from_buffer(source), length)
                assert crc == zlib.crc32(ffi.buffer(to, length))
    finally:
        done.set()
        thread.join()


@given(st.binary(max_size=300), st.binary(max_size=300), WORDS)
def test_chains_and_combinations(first: bytes, second: bytes, start: int) -> None:
    """Calls chain, and CRCs of two pieces give that of both."""
    whole = zlib.crc32(first + second, start)
    head = lib.crc32_update(start, first, len(first))
    assert lib.crc32_update(head, second, len(second)) == whole
    moved = lib.crc32_multiply(lib.crc32_operator(len(second)), head)
    assert moved ^ zlib.crc32(second) == whole


@given(WORDS, st.binary(max_size=100))
def test_raw_register(register: int, data: bytes) -> None:
    """crc32_raw does not invert."""
    assert lib.crc32_raw(register, data, len(data)) == raw(register, data)


@given(WORDS, WORDS)
def test_multiply(a: int, b: int) -> None:
    """The product of polynomials mod P; ONE is neutral."""
    assert lib.crc32_multiply(a, b) == product(a, b) == lib.crc32_multiply(b, a)
    assert lib.crc32_multiply(a, ONE) == a


@given(WORDS, st.integers(0, 2000))
def test_operator_moves_over_zero_bytes(register: int, zeros: int) -> None:
    """Multiplying by the operator of n is reading n zero bytes."""
    assert lib.crc32_multiply(lib.crc32_operator(zeros), register) == raw(register, bytes(zeros))


@given(st.integers(0, 2**62), st.integers(0, 2**62))
def test_operators_add_up(a: int, b: int) -> None:
    """x^(8a) * x^(8b) == x^(8(a+b)), also far beyond any buffer."""
    together = lib.crc32_operator(a + b)
    assert product(lib.crc32_operator(a), lib.crc32_operator(b)) == together


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 300)), max_size=5))
def test_raw_words(placed: list[tuple[int, int]]) -> None:
    """Several words in a field of zeros give the register over the whole field."""
    size = 400
    field = 0
    for word, behind in placed:
        field ^= int.from_bytes(word.to_bytes(8, "little") + bytes(behind), "big")
    words = ffi.new("uint64_t[]", [word for word, _ in placed])
    factors = ffi.new("uint32_t[]", [lib.crc32_word_factor(behind) for _, behind in placed])
    assert lib.crc32_raw_words(words, factors, len(placed)) == raw(0, field.to_bytes(size, "big"))
