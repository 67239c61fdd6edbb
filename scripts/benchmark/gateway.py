"""RocketMQ's own Java client with OrbitMQ's gateway and with RocketMQ's own broker: rates, latency, and processor time.
`gateway_bare_*` are sends by a client in C, which leaves more of the processors to the broker.

Of a sample, what other measures call its ceiling is RocketMQ's value of the same round.
"""

from __future__ import annotations

from collections.abc import Callable

from scripts.benchmark.gateway_sides import BACKLOG, VERSION, in_turns
from scripts.benchmark.result import Measure, Sample

MS = 3000  # of a job that ends by the clock
WINDOW = 256  # async sends at once
PACE = 1000  # messages a second


def _rate(name: str, job: str, *sizes: int) -> Callable[[], tuple[Sample | None, ...]]:
    def run() -> tuple[Sample | None, ...]:
        found = in_turns(name, job, *sizes)
        if found is None:
            return None, None, None
        ours, theirs = found
        return (
            Sample(ours.rate, theirs.rate),
            Sample(ours.broker_ns, theirs.broker_ns),
            Sample(ours.client_ns, theirs.client_ns),
        )

    return run


def _latency(name: str, job: str) -> Callable[[], tuple[Sample | None, ...]]:
    def run() -> tuple[Sample | None, ...]:
        found = in_turns(name, job, PACE, MS)
        if found is None:
            return None, None, None
        ours, theirs = found
        return (
            Sample(ours.p50_us, theirs.p50_us),
            Sample(ours.p99_us, theirs.p99_us),
            Sample(ours.broker_ns, theirs.broker_ns),
        )

    return run


_JOBS: dict[str, tuple[str, str, tuple[int, ...]]] = {  # unit; the client's job
    "gateway_send_1": ("sends/s", "sync", (1, MS)),
    "gateway_send_64": ("sends/s", "sync", (64, MS)),
    "gateway_send_async": ("sends/s", "async", (WINDOW, MS)),
    "gateway_bare_1": ("sends/s", "bare", (1, 1, MS)),
    "gateway_bare_64": ("sends/s", "bare", (64, 1, MS)),
    "gateway_bare_pipelined": ("sends/s", "bare", (4, 64, MS)),
    "gateway_batch": ("batches/s", "batch", (32, MS)),
    "gateway_commit": ("transactions/s", "commit", (16, MS)),
    "gateway_drain": ("messages/s", "drain", (BACKLOG,)),
    "gateway_live": ("messages/s", "live", (WINDOW, MS)),
}
_BESIDE = f"RocketMQ {VERSION}"
_FLUSH = "flushed by the clock"

MEASURES = (
    *(
        Measure(
            (name, f"{name}_broker_ns", f"{name}_client_ns"), unit, _rate(name, job, *sizes), _FLUSH, 6,
            broker=False, beside=_BESIDE,
        )
        for name, (unit, job, sizes) in _JOBS.items()
    ),
    *(
        Measure(
            (f"{name}_p50_us", f"{name}_p99_us", f"{name}_broker_ns"), "us", _latency(name, job), _FLUSH, 6,
            broker=False, beside=_BESIDE,
        )
        for name, job in (("gateway_send_1k", "paced"), ("gateway_live_1k", "delay"))
    ),
)  # fmt: skip
