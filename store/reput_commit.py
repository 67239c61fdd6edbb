"""How far reput has committed its work: the file orbitmq/reput. native/actors/reput/index_log.h draws it, and says in which
order reput writes it and what it describes."""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.native._core import ffi, lib
from orbitmq.store.layout import StoreLayout

SIZE = 4096
MAGIC = b"OMQREPUT"
SLOTS = (64, 192)
SLOT_SIZE = 76


class ReputCommit(NamedTuple):
    """position: everything in the log below it is in the queues and the index. indexed: keys of records below it are in the
    index; at or above position. Physical offsets. index_file: name of the newest index file; None if there was none. header:
    what that file's header was then, its six numbers in order."""

    position: int
    indexed: int
    index_file: str | None = None
    header: tuple[int, ...] = ()

    @classmethod
    def load(cls, layout: StoreLayout) -> ReputCommit | None:
        """The newest intact commit; None if there is none."""
        try:
            content = layout.reput.read_bytes()
        except FileNotFoundError:
            return None
        commit = ffi.new("struct index_commit *")
        if len(content) != SIZE or not lib.index_commit_load(content, commit):
            return None
        name = f"{int(commit.name):017d}" if commit.name else None
        said = commit.header
        header = (said.begin_ms, said.end_ms, said.begin_offset, said.end_offset, said.slots_used, said.next_entry)
        return cls(commit.position, max(commit.position, commit.indexed), name, header if name else ())
