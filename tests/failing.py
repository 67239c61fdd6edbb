"""Says which test failed when it fails: a whole run goes on for a quarter of an hour, and says why at its end."""

from __future__ import annotations

import pytest


class Failing:
    """A pytest plugin."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write(f"\nfailed: {report.nodeid} ({report.when})\n")
