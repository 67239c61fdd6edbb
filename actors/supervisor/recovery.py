"""Runs the store's recovery in a process of its own, once, before any actor, so that a crash in it, and the memory that it
took, end with it. The report comes back through a pipe, after lines about the progress."""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
from collections.abc import Callable
from typing import Any

from orbitmq.actors import signals
from orbitmq.actors.supervisor.child_output import ChildOutput
from orbitmq.actors.supervisor.children import child_process
from orbitmq.actors.supervisor.starter import Starter
from orbitmq.errors import BrokerBroken
from orbitmq.shm.crash_point import crash_point
from orbitmq.store.commit_log.mapped_file import allocate
from orbitmq.store.recovery.recover import recover
from orbitmq.store.recovery.report import RecoveryReport
from orbitmq.store.settings.tree_settings import TreeSettings

_LENGTH = struct.Struct(">Q")


def run_recovery(
    settings: TreeSettings,
    lock: int,
    wakes: tuple[int | Starter, ...],
    stopping: Callable[[], bool],
    progress: Callable[[str], None],
    output: ChildOutput,
) -> RecoveryReport | None:
    """The report; None if the tree was told to stop meanwhile.

    lock: the descriptor that holds the store; the child holds it as well. wakes: one of them becomes readable when it is time
        to ask whether the tree is `stopping`. output: takes what the process says.
    Raises: what recovery raised; BrokerBroken: the process died.
    """
    reader, writer = os.pipe()
    pid = child_process(lambda: _recover(settings, writer), keep={writer, lock}, output=output)
    os.close(writer)
    try:
        return _receive(pid, reader, wakes, stopping, progress, output)
    finally:
        os.close(reader)
        output.end()


def _recover(settings: TreeSettings, writer: int) -> int:
    def send(kind: str, value: Any) -> None:
        content = pickle.dumps((kind, value))
        frame = memoryview(_LENGTH.pack(len(content)) + content)
        while frame:
            frame = frame[os.write(writer, frame) :]

    signals.hear()  # each of them ends it, at any moment
    try:
        report = recover(settings.layout, settings.files, lambda text: send("progress", text), read_only=settings.read_only)
        # The first file is made here, while an error about a full disk can still be reported to the starter of the broker.
        size = settings.files.log_file_size
        if not report.read_only:
            allocate(settings.layout, report.end - report.end % size, size)
        crash_point("recovery_done")
        send("report", report)
    except Exception as error:
        send("error", error)
    return 0


def _receive(
    pid: int,
    reader: int,
    wakes: tuple[int | Starter, ...],
    stopping: Callable[[], bool],
    progress: Callable[[str], None],
    output: ChildOutput,
) -> RecoveryReport | None:
    content, heard = bytearray(), True
    while True:
        while len(content) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(content)
            end = _LENGTH.size + size
            if len(content) < end:
                break
            kind, value = pickle.loads(content[_LENGTH.size : end])
            del content[:end]
            if kind == "progress":
                progress(value)
                continue
            os.waitpid(pid, 0)
            if kind == "error":
                raise value
            report: RecoveryReport = value
            return report
        listened = [each for each in wakes if isinstance(each, int) or each.listens]
        ready, _, _ = select.select([reader, *listened, *([output] if heard else [])], [], [])
        if output in ready:
            heard = output.hear()
        if stopping():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        if reader in ready:
            piece = os.read(reader, 1 << 16)
            if not piece:
                _, status = os.waitpid(pid, 0)
                raise BrokerBroken(
                    f"could not recover the store: the process that recovers it died ({os.waitstatus_to_exitcode(status)})",
                    hint="its log says why; it is safe to start the broker again",
                )
            content += piece
