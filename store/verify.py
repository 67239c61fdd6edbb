"""Reads a whole store and names everything that is not as it should be. Changes nothing, takes no lock, disturbs no broker.

The CommitLog is the only truth: it is read once, from its first file to its end (native/verify.h), and what else the store
holds is measured against it. While a broker runs, "the end" is what it has flushed and indexed; a stopped store is read
whole, the space behind the log included.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from orbitmq.errors import StoreFailed, StoreLocked, StoreUnsupported
from orbitmq.native._core import ffi, lib
from orbitmq.store import abort, positions
from orbitmq.store.findings import Finding, Kind, Verdict
from orbitmq.store.layout import StoreLayout
from orbitmq.store.lock import is_held
from orbitmq.store.mapped_file import NAME_DIGITS
from orbitmq.store.positions import Recorded
from orbitmq.store.record import Fault
from orbitmq.store.reput_commit import ReputCommit
from orbitmq.store.settings import StoreSettings

STEP_BYTES = 32 << 20
FINDINGS_AT_ONCE = 1024
TORN = "it lies behind what was on disk for certain, and the next start of a broker cuts it"

Tell = Callable[[Finding], None]
Progress = Callable[[int, int], None]


def verify(layout: StoreLayout, settings: StoreSettings, tell: Tell, progress: Progress | None = None) -> Verdict:
    """Reads the store at `layout`, whose files have the sizes of `settings`.

    tell: gets each finding as soon as it is known. progress: gets bytes read of the log, and of how many, now and then.
    Raises:
        StoreUnsupported: there is no store.
        StoreLocked: another program's broker holds it.
        StoreFailed: a broker was started on it meanwhile.
        OSError: a folder cannot be read.
    """
    return _Verification(layout, settings, tell, progress or (lambda done, whole: None)).run()


@dataclass(slots=True)
class _Verification:
    layout: StoreLayout
    settings: StoreSettings
    tell: Tell
    progress: Progress
    began: float = field(default_factory=time.monotonic)
    recorded: Recorded | None = None
    running: bool = False
    clean: bool = False
    starts: list[int] = field(default_factory=list)
    begin: int = 0
    end: int = 0  # where reading ends
    gaps: list[tuple[int, Finding]] = field(default_factory=list)  # with their offsets; what lies behind is not known yet
    faults: Counter[Kind] = field(default_factory=Counter)
    notes: int = 0

    def run(self) -> Verdict:
        self._look()
        state = self._walk()
        self._judge_end(state.good_end)
        if not self.running and is_held(self.layout):
            raise StoreFailed(
                f"cannot verify the store {self.layout.root}: a broker was started on it meanwhile", hint="run it again"
            )
        return Verdict(
            begin=self.begin,
            end=state.good_end,
            records=state.records,
            running=self.running,
            faults=dict(self.faults),
            notes=self.notes,
            log_bytes=state.log_bytes,
            took_s=time.monotonic() - self.began,
        )

    def _look(self) -> None:
        """How far the log is to be read, and what is said of its end."""
        layout = self.layout
        if not layout.commitlog.is_dir():
            raise StoreUnsupported(
                f"cannot verify {layout.root}: it is not a store, it has no folder commitlog",
                hint="give the folder that the broker was started with",
                path=str(layout.root),
            )
        self.running = is_held(layout)
        self.recorded = positions.load(layout)
        self.clean = not self.running and not abort.exists(layout) and (self.recorded is None or self.recorded.clean)
        self._list_files()
        self.begin = self.starts[0] if self.starts else 0
        self.end = self.starts[-1] + self.settings.log_file_size if self.starts else 0
        if self.running:
            self.end = self._settled()

    def _settled(self) -> int:
        """How far a running broker's log is on disk and indexed."""
        reput = ReputCommit.load(self.layout)
        if self.recorded is None or self.recorded.clean or reput is None:
            raise StoreLocked(
                f"cannot verify the store {self.layout.root}: a program that is not this version of OrbitMQ holds it",
                hint="stop it first",
                path=str(self.layout.root),
                holder=None,
                pid=None,
            )
        return min(self.recorded.flushed, reput.position)

    def _list_files(self) -> None:
        """Finds the log's files, and names what is none."""
        size = self.settings.log_file_size
        found = set()
        with os.scandir(self.layout.commitlog) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                number = entry.name.isascii() and entry.name.isdigit() and len(entry.name) == NAME_DIGITS
                if not number or int(entry.name) % size or not entry.is_file():
                    self._found(Kind.LOG_FILE, entry.path, f"is not one of the log's files of {size:,} bytes")
                    continue
                length = entry.stat().st_size
                if length != size:
                    self._found(Kind.LOG_FILE, entry.path, f"has {length:,} bytes instead of {size:,}", offset=int(entry.name))
                found.add(int(entry.name))
        self.starts = sorted(found)
        for start in range(self.starts[0], self.starts[-1], size) if self.starts else ():
            if start not in found:
                self._found(Kind.LOG_FILE, str(self.layout.log_file(start)), "is missing", offset=start, size=size)

    def _found(self, kind: Kind, path: str, text: str, *, damage: bool = True, **place: int) -> None:
        self._tell(Finding(kind, path, text, damage=damage, **place))  # type: ignore[arg-type]

    def _tell(self, finding: Finding) -> None:
        if finding.damage:
            self.faults[finding.kind] += 1
        else:
            self.notes += 1
        self.tell(finding)

    def _walk(self) -> ffi.CData:
        """Reads the log; returns the last struct verify_state."""
        layout, settings = self.layout, self.settings
        verify = lib.verify_open(os.fsencode(layout.root), settings.log_file_size, self.begin, max(self.begin, self.end))
        if verify == ffi.NULL:
            raise MemoryError
        try:
            state = ffi.new("struct verify_state *")
            page = ffi.new("struct finding[]", FINDINGS_AT_ONCE)
            result = lib.VERIFY_MORE
            while result == lib.VERIFY_MORE:
                result = lib.verify_step(verify, STEP_BYTES)
                if result == lib.VERIFY_FAILED:
                    raise MemoryError
                while count := lib.verify_findings(verify, page, FINDINGS_AT_ONCE):
                    for found in page[0:count]:
                        self._take(found)
                lib.verify_look(verify, state)
                self._release_gaps(state.good_end)
                self.progress(state.offset - self.begin, self.end - self.begin)
            return state
        finally:
            lib.verify_close(verify)

    def _take(self, found: ffi.CData) -> None:
        path = str(self.layout.log_file(found.offset - found.offset % self.settings.log_file_size))
        if found.kind == lib.FINDING_UNREADABLE:
            why = f"cannot be read: {os.strerror(found.detail)}"
            kind = Kind.LOG_UNREADABLE
        else:
            why = f"are no record: what begins there {Fault(found.detail).text}"
            kind = Kind.LOG_RECORD
        text = f"{found.size:,} bytes at {found.offset:,} {why}"
        self.gaps.append((found.offset, Finding(kind, path, text, offset=found.offset, size=found.size)))

    def _release_gaps(self, good_end: int) -> None:
        """Tells of the gaps behind which something good has been found; the others may lie behind the end of the log."""
        for offset, gap in self.gaps:
            if offset < good_end:
                self._tell(gap)
        self.gaps = [(offset, gap) for offset, gap in self.gaps if offset >= good_end]

    def _judge_end(self, good_end: int) -> None:
        """What lies behind the last good record, and whether the log should have gone on."""
        recorded = self.recorded
        floor = self.end if self.running else 0 if recorded is None else max(recorded.flushed, recorded.wrote)
        for offset, gap in self.gaps:
            # A kill may leave a torn record there.
            expected = offset >= floor and not self.clean and not self.running
            self._tell(replace(gap, kind=Kind.LOG_TAIL, text=f"{gap.text}; {TORN}", damage=False) if expected else gap)
        reached = max([good_end, *(offset + (gap.size or 0) for offset, gap in self.gaps)])
        if reached < floor:
            text = f"the log ends at {reached:,}, and was recorded to be on disk up to {floor:,}"
            path = str(self.layout.log_file(reached - reached % self.settings.log_file_size))
            self._found(Kind.LOG_SHORT, path, text, offset=reached, size=floor - reached)
