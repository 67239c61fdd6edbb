"""Goal: what fails in a task of an export is the same error for the caller of the export. Method: a task that fails, and its
stack trace as text, which is all that Spark passes on."""

from __future__ import annotations

import traceback
from typing import Any, cast

import pytest

from orbitmq import errors
from orbitmq.errors.remedy import hint
from orbitmq.spark import export as export_job


def test_an_error_of_a_task_keeps_its_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = errors.CorruptRecord(
        "could not read message 7: a strange\nbody", hint=hint("look || give {by}"), topic="orders", queue=1, queue_offset=7
    )

    def fail(*_: object) -> None:
        raise failing

    monkeypatch.setattr(export_job, "run_task", fail)
    try:
        export_job._run(cast(Any, None), (0, ()))
    except errors.OrbitError:
        text = "Job aborted:\n" + traceback.format_exc() + "\n\tat org.apache.spark.Anything"
    told = export_job._told_by_task(text)
    assert told is not None and type(told) is errors.CorruptRecord
    assert (told.message, told.hint, told.knob) == (failing.message, "look, or give by=", "by")
    assert told.values == {name: value for name, value in failing.values.items() if name != "__notes__"}
    assert export_job._told_by_task("org.apache.spark.SparkException: no memory") is None
