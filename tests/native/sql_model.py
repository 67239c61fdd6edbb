"""RocketMQ's SQL92 filters in plain Python: a tree of closures made from a list of tokens, and random filters and messages.

It follows RocketMQ's grammar and classes and docs/filters.md, and shares nothing with native/format."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any

Properties = dict[str, str]
Eval = Callable[[Properties], Any]

TOKENS = re.compile(
    r"""(?P<skip>[ \t\n\r\f]+|--[^\n\r]*|/\*.*?\*/)
    |(?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    |(?P<integer>(?:0|[1-9][0-9]*)[lL]?)
    |(?P<text>'(?:[^']|'')*')
    |(?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
    |(?P<sign><>|<=|>=|[=<>(),+-])""",
    re.VERBOSE | re.DOTALL,
)
KEYWORDS = {"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH"}
DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?", re.ASCII)
HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?", re.ASCII)
SPECIAL = {"NaN": math.nan, "Infinity": math.inf}
DEPTH = 64


class Refused(Exception):
    """The text is no filter."""


class Failed(Exception):
    """RocketMQ's expression throws for this message."""


class Int(int):
    """Java's Integer, beside which a text is read as one."""


def tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(text):
        match = TOKENS.match(text, at)
        if not match or match.end() == at:
            raise Refused(f"{at}")
        kind = str(match.lastgroup)
        if kind in ("float", "integer") and re.match(r"[A-Za-z0-9_$]", text[match.end() :]):
            raise Refused("a number runs into something")
        value = match.group()
        if kind == "word" and value.upper() in KEYWORDS:
            kind, value = "key", value.upper()
        if kind != "skip":
            found.append((kind, value))
        at = match.end()
    return [*found, ("end", "")]


def java_double(text: str) -> float:
    text = text.strip("".join(map(chr, range(33))))
    sign = -1.0 if text.startswith("-") else 1.0
    if text.lstrip("+-") in SPECIAL and len(text) - len(text.lstrip("+-")) < 2:
        return sign * SPECIAL[text.lstrip("+-")]
    if HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(text.rstrip("fFdD"))
        except OverflowError:
            return sign * math.inf
    if DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    raise Failed(text)


def java_integer(text: str, bits: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise Failed(text)
    value = int(text) if len(text) < 4000 else (0 if not text.strip("+-0") else 1 << 99)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise Failed(text)
    return value


def sorted_reals(a: float, b: float) -> int:
    """Double.compare."""
    x, y = ((math.isnan(each), 0 if math.isnan(each) else each, math.copysign(1, each)) for each in (a, b))
    if x[0] or y[0]:
        return x[0] - y[0]
    return (x > y) - (x < y)


def compared(a: Any, b: Any) -> int:
    """-1, 0, 1; 2 if they have no order. Neither is None."""
    if isinstance(a, bool) or isinstance(b, bool):
        if isinstance(a, str):
            a = a.lower() == "true" and a.isascii()
        return 0 if isinstance(a, bool) and isinstance(b, bool) and a is b else 2
    if isinstance(a, str) and isinstance(b, str):
        return 0 if a == b else 2
    if isinstance(a, str):
        a = number_like(a, b)
    if isinstance(b, str):
        b = number_like(b, a)
    if isinstance(a, float) or isinstance(b, float):
        return sorted_reals(float(a), float(b))
    return (a > b) - (a < b)


def number_like(text: str, like: Any) -> Any:
    if isinstance(like, float):
        return java_double(text)
    return java_integer(text, 32 if isinstance(like, Int) else 64)


def ordering(test: Callable[[int], bool], a: Eval, b: Eval) -> Eval:
    def run(of: Properties) -> Any:
        x, y = a(of), b(of)
        if x is None or y is None:
            return None
        if isinstance(x, str) and isinstance(y, str):
            return test(sorted_reals(java_double(x), java_double(y)))
        return test(compared(x, y))

    return run


ORDERS: dict[str, Callable[[int], bool]] = {
    "<": lambda sign: sign < 0, "<=": lambda sign: sign <= 0, ">": lambda sign: sign > 0, ">=": lambda sign: sign >= 0,
}  # fmt: skip


def equality(a: Eval, b: Eval) -> Eval:
    def run(of: Properties) -> Any:
        x, y = a(of), b(of)
        if x is None:
            return True if y is None else None
        return False if y is None else compared(x, y) == 0

    return run


def inverted(a: Eval) -> Eval:
    return lambda of: None if (x := a(of)) is None else not x


def both(a: Eval, b: Eval) -> Eval:
    def run(of: Properties) -> Any:
        x = a(of)
        if x is False:
            return False
        y = b(of)
        return False if y is False else None if x is None or y is None else True

    return run


def either(a: Eval, b: Eval) -> Eval:
    def run(of: Properties) -> Any:
        x = a(of)
        if x is True:
            return True
        y = b(of)
        return True if y is True else None if x is None or y is None else False

    return run


def tested(a: Eval, word: str, part: str, wanted: bool) -> Eval:
    tests: dict[str, Callable[[str], bool]] = {
        "CONTAINS": lambda text: part in text,
        "STARTSWITH": lambda text: text.startswith(part),
        "ENDSWITH": lambda text: text.endswith(part),
    }

    def run(of: Properties) -> Any:
        x = a(of)
        return isinstance(x, str) and part != "" and tests[word](x) is wanted

    return run


class Node:
    """kind: property, number, text, null, constant (TRUE, FALSE) or truth. bare: it begins with NOT, outside parentheses."""

    def __init__(self, kind: str, run: Eval, value: Any = None, bare: bool = False) -> None:
        self.kind, self.run, self.value, self.bare = kind, run, value, bare

    def truth(self) -> Eval:
        if self.kind in ("number", "text"):
            raise Refused("neither true nor false")
        run = self.run
        return (lambda of: None if run(of) is None else False) if self.kind == "property" else run

    def order(self) -> Eval:
        if self.bare or self.kind not in ("property", "number"):
            raise Refused("no order")
        return self.run


class Parser:
    def __init__(self, text: str) -> None:
        self.rest = tokens(text)[::-1]
        self.depth = 0

    def take(self, *wanted: str) -> str | None:
        kind, value = self.rest[-1]
        return self.rest.pop()[1] if kind in ("key", "sign") and value in wanted else None

    def need(self, *wanted: str) -> str:
        found = self.take(*wanted)
        if found is None:
            raise Refused(f"no {wanted}")
        return found

    def text(self) -> str:
        kind, value = self.rest.pop()
        if kind != "text":
            raise Refused("no text")
        return value[1:-1].replace("''", "'")

    def whole(self) -> Eval:
        run = self.any().truth()
        if self.rest[-1][0] != "end":
            raise Refused("there is more")
        return run

    def any(self) -> Node:
        left = self.all()
        while self.take("OR"):
            left = Node("truth", either(left.truth(), self.all().truth()))
        return left

    def all(self) -> Node:
        left = self.equal()
        while self.take("AND"):
            left = Node("truth", both(left.truth(), self.equal().truth()))
        return left

    def equal(self) -> Node:
        left = self.compare()
        while word := self.take("=", "<>", "IS"):
            if left.bare:
                raise Refused("NOT")
            if word == "IS":
                negated = bool(self.take("NOT"))
                self.need("NULL")
                run = equality(left.run, lambda _: None)
            else:
                negated = word == "<>"
                right = self.compare()
                kinds = (left.kind, right.kind)
                truths = tuple(kind in ("constant", "truth") for kind in kinds)
                if "null" in kinds or (truths[0] and not truths[1]) or (truths[1] and kinds[0] == "number"):
                    raise Refused("never equal")
                run = equality(left.run, right.run)
            left = Node("truth", inverted(run) if negated else run)
        return left

    def compare(self) -> Node:
        left = self.unary()
        while True:
            if word := self.take("<", "<=", ">", ">="):
                left = Node("truth", ordering(ORDERS[word], left.order(), self.unary().order()))
                continue
            wanted = self.take("NOT") is None
            word = self.take("BETWEEN", "IN", "CONTAINS", "STARTSWITH", "ENDSWITH")
            if word is None:
                if wanted:
                    return left
                raise Refused("NOT what?")
            if word == "BETWEEN":
                left = self.between(left, wanted)
            elif left.bare:
                raise Refused("NOT")
            elif word == "IN":
                left = self.listed(left, wanted)
            else:
                left = Node("truth", tested(left.run, word, self.text(), wanted))

    def between(self, value: Node, wanted: bool) -> Node:
        run = value.order()
        low = self.unary()
        low.order()
        self.need("AND")
        high = self.unary()
        high.order()
        if wanted and low.kind == high.kind == "number" and low.value > high.value:
            raise Refused("bounds")
        if wanted:
            return Node("truth", both(ordering(ORDERS[">="], run, low.run), ordering(ORDERS["<="], run, high.run)))
        return Node("truth", either(ordering(ORDERS["<"], run, low.run), ordering(ORDERS[">"], run, high.run)))

    def listed(self, value: Node, wanted: bool) -> Node:
        if value.kind != "property":
            raise Refused("IN of no property")
        self.need("(")
        texts = {self.text()}
        while self.need(",", ")") == ",":
            texts.add(self.text())
        run = value.run
        return Node("truth", lambda of: None if (x := run(of)) is None else (x in texts) is wanted)

    def unary(self) -> Node:
        self.depth += 1
        if self.depth > DEPTH:
            raise Refused("too deep")
        found = self.signed()
        self.depth -= 1
        return found

    def signed(self) -> Node:
        if self.take("+"):
            return self.unary()
        if self.take("-"):
            found = self.unary()
            if found.kind != "number":
                raise Refused("minus what?")
            return constant("number", type(found.value)(-found.value))
        if self.take("NOT"):
            return Node("truth", inverted(self.unary().truth()), bare=True)
        if self.take("("):
            found = self.any()
            self.need(")")
            return Node(found.kind, found.run, found.value)
        return self.primary()

    def primary(self) -> Node:
        kind, value = self.rest.pop()
        if kind == "word":
            return Node("property", lambda of: of.get(value))
        if kind == "text":
            return constant("text", value[1:-1].replace("''", "'"))
        if kind == "integer":
            number = int(value.rstrip("lL"))
            if number >= 1 << 63:
                raise Refused("too large")
            return constant("number", Int(number) if number < 1 << 31 else number)
        if kind == "float":
            if math.isinf(real := float(value)):
                raise Refused("too large")
            return constant("number", real)
        if kind == "key" and value in ("TRUE", "FALSE"):
            return constant("constant", value == "TRUE")
        if kind == "key" and value == "NULL":
            return constant("null", None)
        raise Refused(value)


def constant(kind: str, value: Any) -> Node:
    return Node(kind, lambda _: value, value)


def compiled(text: str) -> Eval:
    """Raises: Refused."""
    return Parser(text).whole()


def result(run: Eval, of: Properties) -> str:
    """FALSE, TRUE, NULL or ERROR."""
    try:
        return {True: "TRUE", False: "FALSE", None: "NULL"}[run(of)]
    except Failed:
        return "ERROR"


# ---- at random

NAMES = ["a", "b", "price", "region", "TAGS", "KEYS", "$x_1"]
TEXTS = ["eu", "us", "it's", "true", "TRUE", "1", "100", "", "e", "grün", "100.0", "NaN"]
VALUES = [
    "0", "1", "-1", "+5", "100", "100.0", "1e2", "99.9", "2147483647", "2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", " 7 ", "7f", "0x1p3", "0x.8p1", "0x1", "NaN", "-NaN", "Infinity",
    "-Infinity", "-0", "0.0", "1e", ".", ".5", "5.", "1e400", "1e-400", "true", "TRUE", "false", "eu", "us", "it's",
    "grün", "e", "123456789012345678901234567890", "0.1", "0.30000000000000004", "2.2250738585072012e-308",
    "179769313486231580793e289", "0x1.fffffffffffff8p1023", "1" * 900, "0." + "0" * 850 + "1", "9007199254740993",
    "9007199254740993" + "0" * 850 + "1", "+", "-", "--1", "1_000", "\u0661",
]  # fmt: skip
NUMBERS = [
    "0", "1", "5", "100", "100L", "2147483647", "2147483648", "9223372036854775807", "1.5", "100.0", ".5", "5.", "1e2", "0.1",
    "3e9", "7", "9007199254740992.0",
]  # fmt: skip
NOISE = [
    *sorted(KEYWORDS), "=", "<>", "<", ">", "<=", ">=", "(", ")", ",", "+", "-", "'", "''", "'x'", "1", "0", ".", "a", "--",
    "/*", "*/", "\n", '"', "\u00fc", "\0", "1e", "01",
]  # fmt: skip


def any_message(rng: random.Random) -> Properties:
    return {name: rng.choice(VALUES) for name in NAMES if rng.random() < 0.7}


def any_text(rng: random.Random) -> str:
    """A filter that is mostly good; one of five has some noise in it."""
    text = _truth(rng, rng.randrange(5))
    if rng.random() < 0.2:
        words = re.split(r"( )", text)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(words))
            words[at : at + rng.randrange(2)] = [rng.choice(NOISE)]
        text = rng.choice(["", " "]).join(words)
    return text


def _quoted(rng: random.Random) -> str:
    return "'" + rng.choice(TEXTS + VALUES[:20]).replace("'", "''") + "'"


def _ordered(rng: random.Random) -> str:
    sign = rng.choice(["", "", "", "-", "+", "- "])
    return rng.choice(NAMES) if rng.random() < 0.5 else sign + rng.choice(NUMBERS)


def _case(rng: random.Random, word: str) -> str:
    return rng.choice([word, word.lower(), word.title()])


def _truth(rng: random.Random, depth: int) -> str:
    if depth > 0:
        kind = rng.randrange(4)
        if kind < 2:
            return f"{_truth(rng, depth - 1)} {_case(rng, ('AND', 'OR')[kind])} {_truth(rng, depth - 1)}"
        return f"({_truth(rng, depth - 1)})" if kind == 2 else f"{_case(rng, 'NOT')} ({_truth(rng, depth - 1)})"
    return rng.choice([_order, _equal, _between, _in, _null, _part, _other])(rng)


def _not(rng: random.Random) -> str:
    return rng.choice(["", _case(rng, "NOT") + " "])


def _order(rng: random.Random) -> str:
    return f"{_ordered(rng)} {rng.choice(['<', '<=', '>', '>='])} {_ordered(rng)}"


def _equal(rng: random.Random) -> str:
    left = rng.choice([rng.choice(NAMES), _quoted(rng), _ordered(rng)])
    right = rng.choice([_quoted(rng), _ordered(rng), "TRUE", "false", "(b > 1)"])
    return f"{left} {rng.choice(['=', '<>'])} {right}"


def _between(rng: random.Random) -> str:
    return f"{_ordered(rng)} {_not(rng)}BETWEEN {_ordered(rng)} and {_ordered(rng)}"


def _in(rng: random.Random) -> str:
    return f"{rng.choice(NAMES)} {_not(rng)}{_case(rng, 'IN')} ({', '.join(_quoted(rng) for _ in range(rng.randrange(1, 14)))})"


def _null(rng: random.Random) -> str:
    return f"{rng.choice(NAMES)} {_case(rng, 'IS')} {_not(rng)}NULL"


def _part(rng: random.Random) -> str:
    word = _case(rng, rng.choice(["CONTAINS", "STARTSWITH", "ENDSWITH"]))
    return f"{rng.choice([rng.choice(NAMES), _quoted(rng)])} {_not(rng)}{word} {_quoted(rng)}"


def _other(rng: random.Random) -> str:
    name = rng.choice(NAMES)
    return rng.choice(["TRUE", "FALSE", "NULL", name, f"NOT {name}", f"({name} = 1) = (b > 1)", f"{name} = 1 is null"])
