"""Turns what the native side finds (native/check/findings.h) into findings for the user: numbers into places and sentences."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from orbitmq.native._core import lib
from orbitmq.store.commit_log.record import Fault
from orbitmq.store.consume_queue import ConsumeQueue
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.settings import StoreSettings
from orbitmq.store.verify.findings import Finding, Kind

_FIELDS = ("", "begin timestamp", "end timestamp", "begin offset", "end offset", "number of slots in use", "next entry")
_PARTS = ("", "place", "size", "tags code")


class FindingTexts:
    """The names behind the numbers of one run.

    queue_name: (topic, queue id) of a queue's number. index_files: by their number.
    """

    def __init__(
        self,
        layout: StoreLayout,
        settings: StoreSettings,
        queue_name: Callable[[int], tuple[str, int]],
        index_files: Sequence[Path],
    ) -> None:
        self._layout = layout
        self._settings = settings
        self._queue_name = queue_name
        self._index_files = index_files
        self._tellers: dict[int, Callable[[Any], Finding]] = {
            lib.FINDING_RECORD: self._record,
            lib.FINDING_UNREADABLE: self._record,
            lib.FINDING_UNIT_MISSING: self._unit_missing,
            lib.FINDING_UNIT_WRONG: self._unit_wrong,
            lib.FINDING_UNIT_EXTRA: self._unit_extra,
            lib.FINDING_QUEUE_OFFSET: self._queue_offset,
            lib.FINDING_QUEUE_GAP: self._queue_gap,
            lib.FINDING_LOST: self._lost,
            lib.FINDING_KEY_MISSING: self._key_missing,
            lib.FINDING_ENTRY_WRONG: self._entry_wrong,
            lib.FINDING_ENTRY_TIME: self._entry_time,
            lib.FINDING_ENTRY_CHAIN: self._entry_chain,
            lib.FINDING_SLOT: self._slot,
            lib.FINDING_INDEX_HEADER: self._index_header,
            lib.FINDING_INDEX_REST: self._index_rest,
            lib.FINDING_INDEX_UNREADABLE: self._index_unreadable,
        }

    def tell(self, found: Any) -> Finding:
        """The finding for a struct finding."""
        return self._tellers[found.kind](found)

    def _record(self, found: Any) -> Finding:
        path = str(self._layout.log_file(found.offset - found.offset % self._settings.log_file_size))
        if found.kind == lib.FINDING_UNREADABLE:
            kind, why = Kind.LOG_UNREADABLE, f"cannot be read: {os.strerror(found.detail)}"
        else:
            kind, why = Kind.LOG_RECORD, f"are no record: what begins there {Fault(found.detail).text}"
        text = f"{found.size:,} bytes at {found.offset:,} {why}"
        return Finding(kind, path, text, offset=found.offset, size=found.size)

    def _of_queue(self, kind: Kind, found: Any, text: str, offset: int | None = None) -> Finding:
        topic, queue = self._queue_name(found.queue)
        units = self._settings.queue_file_units
        path = ConsumeQueue(self._layout.root, topic, queue, units).path(found.first - found.first % units)
        return Finding(kind, str(path), text, offset, topic=topic, queue=queue, first=found.first, count=found.count)

    def _unit_missing(self, found: Any) -> Finding:
        text = f"{_many('unit', found)} missing"
        if found.detail == lib.UNIT_BEFORE:
            return self._of_queue(Kind.QUEUE_MISSING, found, f"{text}, before the first message that the log has")
        return self._of_queue(Kind.QUEUE_MISSING, found, f"{text}; the first record is at {found.offset:,}", found.offset)

    def _unit_wrong(self, found: Any) -> Finding:
        expected, value = found.expected, found.found
        if found.detail == lib.UNIT_TAGS:
            expected, value = _signed(expected), _signed(value)
        text = (
            f"{_many('unit', found)} wrong: the {_PARTS[found.detail]} is {value:,} where the record at {found.offset:,} "
            f"has {expected:,}"
        )
        return self._of_queue(Kind.QUEUE_UNIT, found, text, found.offset)

    def _unit_extra(self, found: Any) -> Finding:
        text = f"{_many('unit', found)} too many: no record of the queue is at {found.found:,}, where the first points"
        return self._of_queue(Kind.QUEUE_EXTRA, found, text)

    def _queue_offset(self, found: Any) -> Finding:
        text = f"the record at {found.offset:,} says queue offset {found.found:,} where {found.expected:,} is due"
        return self._of_queue(Kind.QUEUE_OFFSET, found, text, found.offset)

    def _queue_gap(self, found: Any) -> Finding:
        text = f"{_many('message', found)} not in the log, which goes on with the next one at {found.offset:,}"
        return self._of_queue(Kind.QUEUE_GAP, found, text, found.offset)

    def _lost(self, found: Any) -> Finding:
        where = f"; the first at {found.found:,}" if found.found else ""
        text = f"{_many('message', found)} lost in damaged bytes of the log{where}"
        return self._of_queue(Kind.MESSAGE_LOST, found, text, found.found or None)

    def _key_missing(self, found: Any) -> Finding:
        keys = "1 key is" if found.count == 1 else f"{found.count:,} keys are"
        span = f"from {found.offset:,} to {found.offset + found.size:,}" if found.size else f"at {found.offset:,}"
        text = f"{keys} not in the index, of records {span}"
        return Finding(Kind.INDEX_KEY, str(self._layout.index), text, found.offset, found.size, count=found.count)

    def _of_index(self, kind: Kind, found: Any, text: str) -> Finding:
        path = str(self._index_files[found.queue])
        return Finding(kind, path, text, first=found.first, count=found.count)

    def _entry_wrong(self, found: Any) -> Finding:
        text = f"{_many('entry', found)} wrong: no record with such a key is at {found.found:,}, where the first points"
        return self._of_index(Kind.INDEX_ENTRY, found, text)

    def _entry_time(self, found: Any) -> Finding:
        text = f"{_many('entry', found)} wrong: the first says {found.found:,} seconds where its record has {found.expected:,}"
        return self._of_index(Kind.INDEX_TIME, found, text)

    def _entry_chain(self, found: Any) -> Finding:
        text = f"{_many('entry', found)} wrong: the first is followed by {found.found:,} where its slot had {found.expected:,}"
        return self._of_index(Kind.INDEX_CHAIN, found, text)

    def _slot(self, found: Any) -> Finding:
        text = f"{_many('slot', found)} wrong: the first names entry {found.found:,} where {found.expected:,} is the newest"
        return self._of_index(Kind.INDEX_SLOT, found, text)

    def _index_header(self, found: Any) -> Finding:
        text = f"the header's {_FIELDS[found.detail]} is {found.found:,} where the file has {found.expected:,}"
        return Finding(Kind.INDEX_HEADER, str(self._index_files[found.queue]), text)

    def _index_rest(self, found: Any) -> Finding:
        text = f"byte {found.found:,} is not zero, where no entry is"
        return Finding(Kind.INDEX_REST, str(self._index_files[found.queue]), text, offset=found.found)

    def _index_unreadable(self, found: Any) -> Finding:
        text = f"cannot be read: {os.strerror(found.detail)}"
        return Finding(Kind.INDEX_FILE, str(self._index_files[found.queue]), text)


def _many(noun: str, found: Any) -> str:
    if found.count == 1:
        return f"{noun} {found.first:,} is"
    plural = "entries" if noun == "entry" else f"{noun}s"
    return f"{found.count:,} {plural} from {found.first:,} to {found.first + found.count - 1:,} are"


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
