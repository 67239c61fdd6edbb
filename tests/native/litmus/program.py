"""A litmus test as data, and its parser: a few threads of C11 atomics, and an outcome that must not be (or may be).

The files are herd7's, `C` dialect, so that herd7 itself can judge them too. What is understood here:

    C name                              the first line
    { x = 1; }                          what is not 0 at the beginning
    P0 (atomic_int* x, atomic_int* y) { ... }
        int r0 = atomic_load_explicit(x, memory_order_acquire);
        atomic_store_explicit(x, r0 + 1, memory_order_release);
        int r1 = atomic_exchange_explicit(x, 0, memory_order_acquire);
        int r2 = atomic_fetch_add_explicit(x, 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        int r3 = 0;   r3 = r0 + r1;   if (r0 == 0) { ... } else { ... }
    ~exists (0:r0=0 /\\ 1:r1=0)          this outcome is impossible;  exists: it is possible

A comment `//` behind an operation that ends in `needed` says that the outcome becomes possible when that one order is weakened
or that fence is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST = "relaxed", "acquire", "release", "acq_rel", "seq_cst"
ORDERS = (RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST)

Value = Callable[[Mapping[str, int]], int]


@dataclass(frozen=True, slots=True)
class Load:
    line: int
    register: str
    location: str
    order: str


@dataclass(frozen=True, slots=True)
class Store:
    line: int
    location: str
    value: Value
    order: str


@dataclass(frozen=True, slots=True)
class Modify:
    """A read-modify-write: the stored value follows from the one that was there."""

    line: int
    register: str
    location: str
    stored: Callable[[int, Mapping[str, int]], int]
    order: str


@dataclass(frozen=True, slots=True)
class Fence:
    line: int
    order: str


@dataclass(frozen=True, slots=True)
class Assign:
    register: str
    value: Value


@dataclass(frozen=True, slots=True)
class Branch:
    condition: Value
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


Statement = Load | Store | Modify | Fence | Assign | Branch
Outcome = Callable[[list[Mapping[str, int]], Mapping[str, int]], bool]


@dataclass(slots=True)
class Program:
    """threads: each a tuple of statements. forbidden: whether the outcome must not occur. needed: lines of operations whose
    order the test claims to be necessary. on_memory: whether the outcome is about final memory."""

    name: str
    text: str
    initial: dict[str, int] = field(default_factory=dict)
    threads: list[tuple[Statement, ...]] = field(default_factory=list)
    outcome: Outcome = lambda registers, memory: True
    forbidden: bool = True
    on_memory: bool = False
    needed: list[int] = field(default_factory=list)


class LitmusError(Exception):
    """The text is not a litmus test that this parser understands."""


TOKEN = re.compile(r"\s+|(?P<word>[A-Za-z_]\w*)|(?P<number>\d+)|(?P<sign>==|!=|&&|\|\||/\\|\\/|[-+*(){};:,=~\[\]])")
WEAKER = {SEQ_CST: (ACQ_REL, RELAXED), ACQ_REL: (RELAXED,), ACQUIRE: (RELAXED,), RELEASE: (RELAXED,)}


def load(path: Path) -> Program:
    return parse(path.read_text())


def parse(text: str) -> Program:
    """Raises: LitmusError: with the line."""
    return _Parser(text).program()


def weakened(program: Program, line: int) -> Iterator[tuple[str, Program]]:
    """The same test with the order on this line weakened, step by step; in the last step a fence is left out. Yields (what was
    done, program)."""
    lines = program.text.splitlines()
    here = lines[line - 1]
    order = next(order for order in sorted(ORDERS, key=len, reverse=True) if f"memory_order_{order}" in here)
    for weaker in WEAKER.get(order, ()):
        is_fence = "atomic_thread_fence" in here
        if weaker == RELAXED and is_fence:
            changed, deed = re.sub(r"atomic_thread_fence\([^)]*\);", "", here), f"without the {order} fence"
        elif is_fence or ("_load_" not in here and "_store_" not in here):
            changed, deed = here.replace(f"memory_order_{order}", f"memory_order_{weaker}"), f"{order} made {weaker}"
        else:
            one = RELAXED if weaker == RELAXED else ACQUIRE if "_load_" in here else RELEASE
            changed, deed = here.replace(f"memory_order_{order}", f"memory_order_{one}"), f"{order} made {one}"
        yield deed, parse("\n".join([*lines[: line - 1], changed, *lines[line:]]))


class _Parser:
    def __init__(self, text: str) -> None:
        self.program_ = Program("", text)
        lines = text.splitlines()
        first = lines[0].split() if lines else []
        if len(first) != 2 or first[0] != "C":
            raise LitmusError("line 1: 'C name' is expected")
        self.program_.name = first[1]
        self._tokens: list[tuple[str, int]] = []
        inside = False
        for number, line in enumerate(lines[1:], 2):
            if line.startswith("(*"):
                inside = True
            if not inside:
                code, _, comment = line.partition("//")
                if comment.rstrip().endswith("needed"):
                    self.program_.needed.append(number)
                self._scan(code, number)
            if "*)" in line:
                inside = False
        self._at = 0

    def _scan(self, code: str, number: int) -> None:
        at = 0
        while at < len(code):
            found = TOKEN.match(code, at)
            if found is None:
                raise LitmusError(f"line {number}: {code[at:]!r} is not understood")
            at = found.end()
            if found.lastgroup:
                self._tokens.append((found.group(), number))

    # ---- tokens

    @property
    def _next(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    @property
    def _line(self) -> int:
        return self._tokens[min(self._at, len(self._tokens) - 1)][1]

    def _fail(self, wanted: str) -> NoReturn:
        raise LitmusError(f"line {self._line}: {wanted} is expected, not {self._next!r}")

    def _take(self, wanted: str | None = None) -> str:
        token = self._next
        if not token or (wanted is not None and token != wanted):
            self._fail(wanted or "more")
        self._at += 1
        return token

    def _maybe(self, wanted: str) -> bool:
        if self._next == wanted:
            self._at += 1
            return True
        return False

    # ---- the parts

    def program(self) -> Program:
        self._take("{")
        while not self._maybe("}"):
            location = self._place()
            self._take("=")
            self.program_.initial[location] = int(self._take())
            self._maybe(";")
        while self._next == f"P{len(self.program_.threads)}":
            self._take()
            while self._take() != ")":
                pass
            self.program_.threads.append(self._block())
        self.program_.forbidden = self._maybe("~")
        self._take("exists")
        self.program_.outcome = self._either()
        if self._at != len(self._tokens):
            self._fail("the end")
        return self.program_

    def _place(self) -> str:
        bracket = self._maybe("[")
        name = self._take()
        if bracket:
            self._take("]")
        return name

    def _block(self) -> tuple[Statement, ...]:
        self._take("{")
        found: list[Statement] = []
        while not self._maybe("}"):
            found.append(self._statement())
        return tuple(found)

    def _statement(self) -> Statement:
        line = self._line
        if self._maybe("if"):
            self._take("(")
            condition = self._value()
            self._take(")")
            then = self._block()
            return Branch(condition, then, self._block() if self._maybe("else") else ())
        if self._next.startswith("atomic_"):
            return self._operation(line, "")
        self._maybe("int")
        register = self._take()
        self._take("=")
        if self._next.startswith("atomic_"):
            return self._operation(line, register)
        value = self._value()
        self._take(";")
        return Assign(register, value)

    def _operation(self, line: int, register: str) -> Statement:
        name = self._take().removeprefix("atomic_").removesuffix("_explicit")
        self._take("(")
        statement: Statement
        if name == "thread_fence":
            statement = Fence(line, self._order())
        else:
            location = self._take()
            self._take(",")
            if name == "load":
                statement = Load(line, register, location, self._order())
            else:
                value = self._value()
                self._take(",")
                order = self._order()
                if name == "store":
                    statement = Store(line, location, value, order)
                elif name == "exchange":
                    statement = Modify(line, register, location, lambda old, known: value(known), order)
                elif name == "fetch_add":
                    statement = Modify(line, register, location, lambda old, known: old + value(known), order)
                else:
                    raise LitmusError(f"line {line}: atomic_{name} is not understood")
        self._take(")")
        self._take(";")
        return statement

    def _order(self) -> str:
        order = self._take().removeprefix("memory_order_")
        if order not in ORDERS:
            raise LitmusError(f"line {self._line}: {order!r} is no memory order")
        return order

    def _value(self) -> Value:
        left = self._sum()
        while self._next in ("==", "!=", "&&", "||"):
            left = _binary(self._take(), left, self._sum())
        return left

    def _sum(self) -> Value:
        left = self._atom()
        while self._next in ("+", "-", "*"):
            left = _binary(self._take(), left, self._atom())
        return left

    def _atom(self) -> Value:
        if self._maybe("("):
            value = self._value()
            self._take(")")
            return value
        token = self._take()
        if token.isdigit():
            number = int(token)
            return lambda known: number
        return lambda known: known[token]

    # ---- the outcome

    def _either(self) -> Outcome:
        parts = [self._both()]
        while self._maybe("\\/"):
            parts.append(self._both())
        return lambda registers, memory: any(part(registers, memory) for part in parts)

    def _both(self) -> Outcome:
        parts = [self._fact()]
        while self._maybe("/\\"):
            parts.append(self._fact())
        return lambda registers, memory: all(part(registers, memory) for part in parts)

    def _fact(self) -> Outcome:
        if self._maybe("("):
            inner = self._either()
            self._take(")")
            return inner
        if self._next.isdigit():
            thread = int(self._take())
            self._take(":")
            register = self._take()
            self._take("=")
            wanted = int(self._take())
            return lambda registers, memory: registers[thread].get(register) == wanted
        place = self._place()
        self._take("=")
        final = int(self._take())
        self.program_.on_memory = True
        return lambda registers, memory: memory[place] == final


def _binary(sign: str, left: Value, right: Value) -> Value:
    deeds: dict[str, Callable[[int, int], int]] = {
        "==": lambda a, b: int(a == b),
        "!=": lambda a, b: int(a != b),
        "&&": lambda a, b: int(bool(a and b)),
        "||": lambda a, b: int(bool(a or b)),
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
    }
    deed = deeds[sign]
    return lambda known: deed(left(known), right(known))
