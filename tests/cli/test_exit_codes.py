"""Goal: every error has an exit code, and the code means what the documentation says."""

from __future__ import annotations

import inspect

import pytest

from orbitmq import errors
from orbitmq.cli import exit_codes
from orbitmq.cli.exit_codes import code_of

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.OrbitError)]


@pytest.mark.parametrize("kind", ALL)
def test_every_error_has_a_code(kind: type[errors.OrbitError]) -> None:
    """Never that of success, nor one that means something else."""
    assert code_of(kind("x")) in (
        exit_codes.FAILED,
        exit_codes.NOT_UNDERSTOOD,
        exit_codes.NOT_RUNNING,
        exit_codes.WOULD_DELETE,
    )


def test_what_they_mean() -> None:
    assert code_of(errors.BrokerNotRunning("x")) == code_of(errors.BrokerStopped("x")) == 3
    assert code_of(errors.WouldDelete("x")) == 6, "though it is about a setting"
    assert code_of(errors.TopicNameError("x")) == code_of(errors.SettingError("x", name="handlers")) == 2
    assert code_of(errors.SettingError("cannot trust the runtime folder")) == 1, "no option would help"


def test_codes_are_told_apart() -> None:
    names = ("DONE", "FAILED", "NOT_UNDERSTOOD", "NOT_RUNNING", "DEGRADED", "REFUSING", "WOULD_DELETE", "INTERRUPTED")
    codes = [getattr(exit_codes, name) for name in names]
    assert len(set(codes)) == len(codes)
