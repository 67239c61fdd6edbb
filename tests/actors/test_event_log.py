"""Goal: no line is lost while a log file is replaced, and a reader that does not read, or a full disk, stops nobody. Method:
processes that write as fast as they can while the file is moved again and again; outputs into pipes that are full."""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import signal
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from orbitmq.actors import events
from orbitmq.actors.supervisor import event_log
from orbitmq.actors.supervisor.child_output import ChildOutput
from orbitmq.actors.supervisor.children import child_process
from orbitmq.actors.supervisor.event_log import EventLog, Output
from orbitmq.errors import SettingError
from orbitmq.shm.event import Event

WRITERS, LINES = 3, 2000
EVERY = 400  # lines between two times that the file is moved


def event(text: str) -> Event:
    return Event(0.0, 30, "flush", 7, text)


def as_supervisor(deed: Callable[[], None]) -> None:
    """Does it in a process whose error output may become another file. Raises: AssertionError: it failed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            deed()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def write_numbers(writer: int) -> int:
    for number in range(LINES):
        events.warn("line", writer=writer, number=number)
    return 0


def rotate_while_they_write(path: Path) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    log = EventLog("b", "json", str(path))
    taken, moved = 0, 0
    selector = selectors.DefaultSelector()

    def take(told: Event) -> None:
        nonlocal taken, moved
        log.write(told)
        taken += 1
        if taken % EVERY == 0:
            moved += 1
            path.rename(f"{path}.{moved}")
            log.reopen()

    outputs = [ChildOutput(f"writer {number}", take) for number in range(WRITERS)]
    pids = []
    for number, output in enumerate(outputs):
        pids.append(child_process(lambda number=number: write_numbers(number), {output.writer}, output))  # type: ignore[misc]
        selector.register(output, selectors.EVENT_READ)
    while selector.get_map():
        for key, _ in selector.select():
            if not key.fileobj.hear():  # type: ignore[union-attr]
                selector.unregister(key.fileobj)
    for output, pid in zip(outputs, pids, strict=True):
        os.waitpid(pid, 0)
        output.end()
    log.finish()
    os.write(2, b"the supervisor's own\n")


def test_rotation_loses_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line once, in order, in files of which each has its share. What is no event goes on in the new file, too."""
    monkeypatch.setattr(events, "PATIENCE_MS", 240_000)  # the reader may get no processor for a while
    as_supervisor(lambda: rotate_while_they_write(tmp_path / "b.log"))
    names = [f"b.log.{number}" for number in range(1, WRITERS * LINES // EVERY + 1)]
    assert {path.name for path in tmp_path.iterdir()} == {"b.log", *names}
    assert (tmp_path / "b.log").read_text() == "the supervisor's own\n"
    files = [[json.loads(line) for line in (tmp_path / name).read_text().splitlines()] for name in names]
    assert {len(lines) for lines in files} == {EVERY}
    told = [(line["fields"]["writer"], line["fields"]["number"]) for lines in files for line in lines]
    assert Counter(writer for writer, _ in told) == dict.fromkeys(range(WRITERS), LINES)
    for writer in range(WRITERS):
        assert [number for each, number in told if each == writer] == list(range(LINES))


def test_a_file_that_cannot_be_reopened(tmp_path: Path) -> None:
    """The old one goes on."""
    path = tmp_path / "folder" / "b.log"
    path.parent.mkdir()

    def deed() -> None:
        log = EventLog("b", "text", str(path))
        path.parent.rename(tmp_path / "moved")
        with pytest.raises(FileNotFoundError):
            log.reopen()
        log.write(event("still here"))

    as_supervisor(deed)
    assert (tmp_path / "moved" / "b.log").read_text().endswith("flush[7]: still here\n")


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="could not write the log file") as caught:
        EventLog("b", "text", str(tmp_path / "none" / "b.log"))
    assert caught.value.values["name"] == "log_file" and "make the folder" in str(caught.value.hint)


def test_a_named_pipe_as_the_file(tmp_path: Path) -> None:
    """One that nobody reads is refused at once. A reader that does not read does not stop the supervisor; what waits comes
    when it reads."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(SettingError, match="could not write the log file") as caught:
        EventLog("b", "text", str(path))
    assert "start what reads" in str(caught.value.hint)
    count = 2000  # more than a pipe has room for

    def deed() -> None:
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        log = EventLog("b", "text", str(path))
        for number in range(count):
            log.write(event(f"{number} {60 * '.'}"))
        read = b""
        while read.count(b"\n") < count:
            log.flush()
            read += os.read(reader, 1 << 16)
        assert [int(line.split()[-2]) for line in read.splitlines()] == list(range(count))

    as_supervisor(deed)


def test_a_program_that_embeds_it_gets_all(tmp_path: Path) -> None:
    """Beside the file, which is not the error output then."""
    reader, writer = os.pipe()
    path = tmp_path / "b.log"

    def deed() -> None:
        os.dup2(writer, 2)
        log = EventLog("b", "text", str(path), records=True)
        log.write(event("one"))
        path.rename(tmp_path / "old.log")
        log.reopen()
        log.write(event("two"))

    as_supervisor(deed)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        records = pipe.read().splitlines()
    assert [json.loads(line[1:])[4] for line in records] == ["one", "two"]
    assert [(tmp_path / name).read_text().split(": ")[1] for name in ("old.log", "b.log")] == ["one\n", "two\n"]


def text_of(told: Event) -> bytes:
    return told.message.encode() + b"\n"


@pytest.mark.parametrize("size", [1000, 5000], ids=["whole", "in pieces"])
def test_a_reader_that_does_not_read(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines wait; when too many do, the newest are left out, and counted. A long one is written in pieces."""
    monkeypatch.setattr(event_log, "WAITING_MAX", 100_000)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    output = Output(writer, text_of)
    for number in range(400):
        output.write(event(f"{number:0{size - 1}}"))
    read = b""
    while piece := pipe_read(reader):
        read += piece
        output.flush()
    written = [int(line[-3:]) for line in read.splitlines()]
    assert written == list(range(len(written))) and 10 < len(written) < 400
    assert all(len(line) == size - 1 for line in read.splitlines())
    output.write(event("later"))
    notice, later = pipe_read(reader).decode().splitlines()
    assert notice == f"{400 - len(written)} lines were left out here, because they could not be written" and later == "later"
    os.close(reader)
    output.write(event("nobody reads it"))
    output.finish()
    os.close(writer)


def pipe_read(reader: int) -> bytes:
    try:
        return os.read(reader, 1 << 16)
    except BlockingIOError:
        return b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk() -> None:
    """Then there is room again."""
    full, reader_writer = os.open("/dev/full", os.O_WRONLY), os.pipe()
    output = Output(full, text_of)
    output.write(event("first"))
    output.finish()
    output.descriptor = reader_writer[1]
    output.write(event("second"))
    assert os.read(reader_writer[0], 100) == b"first\nsecond\n"
    for descriptor in (full, *reader_writer):
        os.close(descriptor)
