"""The coordinator's access to the files in which members commit (store/commit_words.py), one for each session in a group."""

from __future__ import annotations

from collections.abc import Container

from orbitmq.actors.sessions.sessions import Session
from orbitmq.shm.crash_point import crash_point
from orbitmq.store import commit_words
from orbitmq.store.file_system import disk_error
from orbitmq.store.layout import StoreLayout


class CommitFiles:
    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout

    def make(self, session: Session, group: str) -> bool:
        """Makes sure that the session has a file; False: it had one. Raises: StoreFull, StoreFailed: it has none."""
        capacity = session.shape.queue_capacity
        try:
            made = commit_words.make(self._layout.commits / session.key, capacity)
        except OSError as error:
            raise self.refused(error, 64 + 8 * capacity, group) from error
        crash_point("commit_files_made")
        return made

    def descriptor(self, session: Session) -> int:
        """A descriptor of the session's file for its member. The caller closes it. Raises: OSError."""
        return commit_words.descriptor_of(self._layout.commits / session.key)

    def read(self, session: Session, count: int) -> list[tuple[int, int]]:
        """(low 16 bits of the epoch, queue offset) of each of the first words.

        Raises: ValueError: the member has damaged its file, and nothing in it counts. OSError.
        """
        return commit_words.read(self._layout.commits / session.key, count, session.shape.queue_capacity)

    def remove(self, key: str) -> None:
        """Ends the file of a session that has left its group. A member that still commits there finds out. Raises: OSError."""
        path = self._layout.commits / key
        commit_words.close(path)
        crash_point("commit_files_closed")
        path.unlink(missing_ok=True)

    def remove_others(self, keys: Container[str]) -> None:
        """Removes files of sessions in no group: those that a predecessor had made, or had not removed yet."""
        for path in commit_words.files(self._layout):
            if path.name not in keys:
                self.remove(path.name)

    def refused(self, error: OSError, need: int, group: str) -> Exception:
        """The answer to a member that cannot be let in."""
        return disk_error(error, self._layout.commits, need, f"the commits of the group {group!r}")
