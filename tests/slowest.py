"""The table of the slowest tests at the end of a run: seconds on the clock beside seconds of the processor.

If a test takes much longer on the clock than on the processor, it waits for something; if that is an interval, a setting can
often shorten it. Processor time is that of the test's process and of its ended children, with theirs: a broker that the test
stopped counts, a JVM that other tests use too does not.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest

LONGEST = 25
PROCESSOR = "processor_s"


class Slowest:
    """A pytest plugin. With pytest-xdist each worker measures, and the process that reports makes the table."""

    def __init__(self) -> None:
        self._began = 0.0
        self._clock: dict[str, float] = defaultdict(float)
        self._processor: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        self._began = _processor_s()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        try:
            return (yield)
        finally:
            item.user_properties.append((PROCESSOR, round(_processor_s() - self._began, 3)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._clock[report.nodeid] += report.duration
        if report.when == "teardown":
            self._processor[report.nodeid] = float(dict(report.user_properties).get(PROCESSOR, 0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._clock) <= LONGEST:
            return
        write = terminalreporter.write_line
        terminalreporter.section("slowest")
        write(f"{'clock':>8}  {'processor':>9}")
        for test in sorted(self._clock, key=lambda test: -self._clock[test])[:LONGEST]:
            write(_line(self._clock[test], self._processor[test], test))
        folders: dict[str, list[str]] = defaultdict(list)
        for test in self._clock:
            folders[test.partition("::")[0].rpartition("/")[0]].append(test)
        times = {name: sum(map(self._clock.__getitem__, tests)) for name, tests in folders.items()}
        for name in sorted(folders, key=lambda name: -times[name]):
            processor = sum(self._processor[test] for test in folders[name])
            write(_line(times[name], processor, f"{name} ({len(folders[name])} tests)"))
        write(_line(sum(self._clock.values()), sum(self._processor.values()), f"all {len(self._clock)} tests"))


def _line(clock: float, processor: float, what: str) -> str:
    return f"{clock:7.2f}s  {processor:8.2f}s  {what}"


def _processor_s() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system
