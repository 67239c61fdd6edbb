"""Goal: the model itself is right. Method: litmus tests whose verdicts are known from the literature (Lahav and
others, PLDI 2017; herd7's catalogue), each with the outcome that distinguishes it."""

import pytest

from tests.native.litmus.model import allows, runs
from tests.native.litmus.program import LitmusError, parse

SHORT = {"sc": "seq_cst", "ar": "acq_rel", "acq": "acquire", "rel": "release", "rlx": "relaxed"}


def litmus(outcome: str, *threads: str) -> str:
    """Threads in short: 'W x 1 rel' stores, 'R x a acq' loads into a, 'A x 1 a rlx' adds, 'F sc' fences."""
    lines = ["C short", "{ }"]
    for number, thread in enumerate(threads):
        lines.append(f"P{number} (atomic_int* x) {{")
        for step in thread.split(";"):
            words = step.split()
            order = f"memory_order_{SHORT[words[-1]]}"
            match words:
                case ["F", _]:
                    lines.append(f"atomic_thread_fence({order});")
                case ["W", place, value, _]:
                    lines.append(f"atomic_store_explicit({place}, {value}, {order});")
                case ["R", place, register, _]:
                    lines.append(f"int {register} = atomic_load_explicit({place}, {order});")
                case ["A", place, value, register, _]:
                    lines.append(f"int {register} = atomic_fetch_add_explicit({place}, {value}, {order});")
        lines.append("}")
    return "\n".join([*lines, f"~exists ({outcome})"])


STORE_BUFFERING = "0:a=0 /\\ 1:a=0"
MESSAGE_PASSING = "1:a=1 /\\ 1:b=0"
FOUR = "2:a=1 /\\ 2:b=0 /\\ 3:a=1 /\\ 3:b=0"


@pytest.mark.parametrize(
    ("possible", "outcome", "threads"),
    [
        # Store buffering: only full fences, or seq_cst everywhere, forbid it.
        (True, STORE_BUFFERING, ("W x 1 rlx; R y a rlx", "W y 1 rlx; R x a rlx")),
        (True, STORE_BUFFERING, ("W x 1 rel; R y a acq", "W y 1 rel; R x a acq")),
        (True, STORE_BUFFERING, ("W x 1 rlx; F ar; R y a rlx", "W y 1 rlx; F ar; R x a rlx")),
        (True, STORE_BUFFERING, ("W x 1 rlx; F sc; R y a rlx", "W y 1 rlx; R x a rlx")),
        (True, STORE_BUFFERING, ("W x 1 sc; R y a acq", "W y 1 sc; R x a acq")),
        (False, STORE_BUFFERING, ("W x 1 rlx; F sc; R y a rlx", "W y 1 rlx; F sc; R x a rlx")),
        (False, STORE_BUFFERING, ("W x 1 sc; R y a sc", "W y 1 sc; R x a sc")),
        # The seq_cst of a read-modify-write does not order what is around it.
        (True, STORE_BUFFERING, ("A x 1 z sc; R y a acq", "W y 1 rel; F sc; R x a rlx")),
        # Message passing.
        (True, MESSAGE_PASSING, ("W x 1 rlx; W y 1 rlx", "R y a acq; R x b rlx")),
        (True, MESSAGE_PASSING, ("W x 1 rlx; W y 1 rel", "R y a rlx; R x b rlx")),
        (False, MESSAGE_PASSING, ("W x 1 rlx; W y 1 rel", "R y a acq; R x b rlx")),
        (False, MESSAGE_PASSING, ("W x 1 rlx; F rel; W y 1 rlx", "R y a rlx; F acq; R x b rlx")),
        (False, MESSAGE_PASSING, ("W x 1 rlx; F rel; W y 1 rlx", "R y a acq; R x b rlx")),
        # A release sequence passes through read-modify-writes of other threads, not through their plain stores.
        (False, "2:a=2 /\\ 2:b=0", ("W x 1 rlx; A y 1 z rel", "A y 1 z rlx", "R y a acq; R x b rlx")),
        (True, "2:a=2 /\\ 2:b=0 /\\ 1:a=1", ("W x 1 rlx; W y 1 rel", "R y a rlx; W y 2 rlx", "R y a acq; R x b rlx")),
        # Load buffering: aarch64 has it.
        (True, "0:a=1 /\\ 1:a=1", ("R x a rlx; W y 1 rlx", "R y a rlx; W x 1 rlx")),
        (False, "0:a=1 /\\ 1:a=1", ("R x a acq; W y 1 rel", "R y a acq; W x 1 rel")),
        # Coherence of one location.
        (False, "1:a=1 /\\ 1:b=0", ("W x 1 rlx", "R x a rlx; R x b rlx")),
        (False, "0:a=0 /\\ 1:a=0", ("A x 1 a rlx", "A x 1 a rlx")),
        # Writes, reads and causality over three threads.
        (False, "1:a=1 /\\ 2:a=1 /\\ 2:b=0", ("W x 1 rlx", "R x a acq; W y 1 rel", "R y a acq; R x b rlx")),
        (True, "1:a=1 /\\ 2:a=1 /\\ 2:b=0", ("W x 1 rlx", "R x a rlx; W y 1 rlx", "R y a acq; R x b rlx")),
        # Independent reads of independent writes.
        (True, FOUR, ("W x 1 rel", "W y 1 rel", "R x a acq; R y b acq", "R y a acq; R x b acq")),
        (False, FOUR, ("W x 1 sc", "W y 1 sc", "R x a sc; R y b sc", "R y a sc; R x b sc")),
        (False, FOUR, ("W x 1 rlx", "W y 1 rlx", "R x a rlx; F sc; R y b rlx", "R y a rlx; F sc; R x b rlx")),
        # Two writes each, crosswise.
        (True, "x=1 /\\ y=1", ("W x 1 rel; W y 2 rel", "W y 1 rel; W x 2 rel")),
        (False, "x=1 /\\ y=1", ("W x 1 rlx; F sc; W y 2 rlx", "W y 1 rlx; F sc; W x 2 rlx")),
    ],
)
def test_known_verdicts(possible: bool, outcome: str, threads: tuple[str, ...]) -> None:
    program = parse(litmus(outcome, *threads))
    assert runs(program)
    assert allows(program) is possible


def test_a_model_without_load_buffering_can_be_asked_for() -> None:
    program = parse(litmus("0:a=1 /\\ 1:a=1", "R x a rlx; W y 1 rlx", "R y a rlx; W x 1 rlx"))
    assert not allows(program, thin_air=False)


@pytest.mark.parametrize(
    "text",
    ["", "D x\n{ }", "C x\n{ }\nP0 (atomic_int* x) { atomic_swap_explicit(x, 1, memory_order_relaxed); }\nexists (x=0)",
     "C x\n{ }\nP0 (atomic_int* x) { atomic_store_explicit(x, 1, memory_order_consume); }\nexists (x=0)",
     "C x\n{ }\nP0 (atomic_int* x) { int a = 1; }\nexists (x=0) more"],
)  # fmt: skip
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(LitmusError):
        parse(text)
