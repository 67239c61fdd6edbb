"""The exit codes of commands, for scripts; docs/operations.md has the table."""

from __future__ import annotations

from orbitmq.errors import (
    BrokerNotRunning,
    BrokerStopped,
    GroupNameError,
    OrbitError,
    PropertyError,
    SettingError,
    TopicNameError,
    WouldDelete,
)

DONE = 0
FAILED = 1
NOT_UNDERSTOOD = 2  # as in typer
NOT_RUNNING = 3
DEGRADED = 4
REFUSING = 5
WOULD_DELETE = 6
HEALTH_CODES = {"degraded": DEGRADED, "refusing": REFUSING}
INTERRUPTED = 130  # 128 + SIGINT, as in shells


def code_of(error: OrbitError) -> int:
    """The code of a command that ended with this error."""
    if isinstance(error, WouldDelete):
        return WOULD_DELETE
    # A setting without a name is about the machine, such as a runtime folder that nobody can trust.
    if isinstance(error, SettingError):
        return NOT_UNDERSTOOD if error.name is not None else FAILED
    if isinstance(error, TopicNameError | GroupNameError | PropertyError):
        return NOT_UNDERSTOOD
    if isinstance(error, BrokerNotRunning | BrokerStopped):
        return NOT_RUNNING
    return FAILED
