"""Everything that OrbitMQ raises on purpose.

    OrbitError
    ├── UsageError (also ValueError)     the caller asked for something that cannot be
    │   ├── TopicNameError               empty, too long, or a forbidden character
    │   ├── GroupNameError
    │   ├── UnknownTopic (also KeyError)
    │   ├── UnknownQueue
    │   ├── TopicExists                  with other settings than asked for
    │   ├── MessageTooLarge              body and properties against the limit of the session or the broker
    │   ├── PropertiesTooLarge
    │   ├── PropertyError                an empty name or value, or a separator byte in one
    │   ├── OffsetOutOfRange             carries the valid range
    │   ├── ColumnError                  a column of a DataFrame that cannot be sent: its type, or a value in it
    │   └── SettingError                 a setting of the broker or a client that cannot be
    │       └── WouldDelete              one that would delete messages at once, and nobody has allowed it
    ├── NoPermission                     not for this user; or the topic may not be written or read
    ├── Full                             no room now: the window, the ring, or a table; trying again later helps
    │   └── NoMeans                      ... but a descriptor, mapping, thread or memory that this process cannot get
    ├── TimedOut (also TimeoutError)     the wait the caller bounded is over; the send may still end well
    ├── Closed                           closed by us: this producer, consumer or client
    ├── Interrupted                      interrupt() ended this wait; nothing was taken
    ├── Fenced                           queues went to somebody else; what was delivered of them could not be committed
    ├── BrokerError                      the other side
    │   ├── BrokerNotRunning             nothing answers under this name
    │   ├── BrokerStopped                it stopped, or died, while we were connected
    │   │   └── PerhapsStored            ... with this send in flight: it may or may not be in the log
    │   ├── BrokerBroken                 an actor failed more often than its restart intensity allows
    │   └── ProtocolError                an answer that does not fit the question; a bug of ours or another version
    ├── ExportError                      a folder that topics are exported to
    │   ├── ExportBusy                   another export is at work there
    │   ├── ExportDiffers (also UsageError)  it holds another store's messages, or has other columns or folders
    │   ├── ExportDamaged                its manifest cannot be read, or a file is gone
    │   └── ExportFailed                 a file there could not be written
    └── StoreError                       the disk
        ├── StoreLocked                  another broker holds this store
        ├── StoreVersion                 written by a version that this one does not know
        ├── StoreSettingsError           files whose sizes differ from the settings
        ├── StoreFull                    the disk (or /dev/shm) has no room; carries mount, need and free bytes
        ├── StoreFailed                  a write or sync failed; the log takes no more until the broker is restarted
        ├── StoreUnsupported             a file system that cannot hold a store
        └── CorruptRecord                carries the physical offset and what is wrong there

docs/errors.md says of each when it is raised, what it carries, and whether the call may be repeated.

Wording: what could not be done, with which value, why. What to do about it is the separate hint, shown after a semicolon.
Values travel as attributes: they are the keyword arguments of the constructor.
"""

from __future__ import annotations

from typing import Any


class OrbitError(Exception):
    """Root of the tree above. `hint` names the knob to turn, or is None; other keyword arguments become attributes."""

    def __init__(self, message: str, *, hint: str | None = None, **values: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.values = values
        for name, value in values.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Only for what is missing; tells type checkers that values are attributes.
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.values))


def _rebuild(kind: type[OrbitError], message: str, hint: str | None, values: dict[str, Any]) -> OrbitError:
    return kind(message, hint=hint, **values)


class UsageError(OrbitError, ValueError):
    """The caller asked for something that cannot be."""


class TopicNameError(UsageError):
    """A topic name is empty, longer than 127 bytes, or holds a forbidden character."""


class GroupNameError(UsageError):
    """A group name is empty, longer than 255 bytes, or holds a forbidden character."""


class UnknownTopic(UsageError, KeyError):
    """No topic of this name exists."""

    __str__ = OrbitError.__str__


class UnknownQueue(UsageError):
    """The topic has no queue of this number."""


class TopicExists(UsageError):
    """The topic exists with other settings."""


class MessageTooLarge(UsageError):
    """Body and properties do not fit the limit of the session or the broker."""


class PropertiesTooLarge(UsageError):
    """The encoded properties pass 32,767 bytes."""


class PropertyError(UsageError):
    """A property has an empty name or value, or holds a separator byte (0x01, 0x02)."""


class OffsetOutOfRange(UsageError):
    """An offset outside what the queue holds; `minimum` and `maximum` say what would do. Where a read raises it, `removed` is
    how many messages retention took before they were read."""


class ColumnError(UsageError):
    """A column of a DataFrame cannot be sent, because of its name, its type or a value in it; `column` says which. Or a topic
    is to be read with a schema that it does not have; `columns` names those that it has."""


class SettingError(UsageError):
    """A setting that cannot be."""


class WouldDelete(SettingError):
    """Messages are to be kept for a shorter time, or in less room, than the store's last broker kept them, and some would be
    deleted at once. `files` and `size` (bytes) say how much of the log. Nothing was deleted; `allow_deletion=True` says that
    it may be."""


class NoPermission(OrbitError):
    """The broker, or what was asked of it, is not for this user; or the topic may not be written, or not be read."""


class Full(OrbitError):
    """No room now; `limit` says of what. Trying again later helps."""


class NoMeans(Full):
    """This process gets no descriptor, mapping, thread or memory now; `limit` says of which, and `errno` is the system's word.
    What it had stays usable, and what failed succeeds once there are some again."""


class TimedOut(OrbitError, TimeoutError):
    """The wait that the caller bounded is over."""


class Closed(OrbitError):
    """This producer, consumer or client was closed by its owner."""


class Interrupted(OrbitError):
    """The consumer's `interrupt` ended this wait. Nothing was taken; the next call goes on."""


class Fenced(OrbitError):
    """Messages came from queues that are not this consumer's any more, or from another session; they come again. `queues`, of
    a commit, are those that it could not keep; all others were committed."""


class BrokerError(OrbitError):
    """The other side."""


class BrokerNotRunning(BrokerError):
    """No broker answers under this name."""


class BrokerStopped(BrokerError):
    """The broker stopped or died while we were connected."""


class PerhapsStored(BrokerStopped):
    """The broker died with this send in flight: the message may or may not be in the log."""


class BrokerBroken(BrokerError):
    """An actor failed more often than its restart intensity allows."""


class ProtocolError(BrokerError):
    """An answer that does not fit the question."""


class ExportError(OrbitError):
    """A folder that topics are exported to; `path` is in it, or a file there."""


class ExportBusy(ExportError):
    """Another export is at work there; `holder` says who, for people."""


class ExportDiffers(ExportError, UsageError):
    """What is there already came from another store, has other columns or other folders, or is not an export's."""


class ExportDamaged(ExportError):
    """The manifest cannot be read, or does not fit the files."""


class ExportFailed(ExportError):
    """A file could not be written; `errno` says why."""


class StoreError(OrbitError):
    """The disk."""


class StoreLocked(StoreError):
    """Another broker holds this store."""


class StoreVersion(StoreError):
    """The store was written by a version that this one does not know."""


class StoreSettingsError(StoreError):
    """The store's files have other sizes than the settings say."""


class StoreFull(StoreError):
    """No room on the disk or in shared memory, or no handle or mapping left for the next file; `mount`, `need`
    and `free` are in it, bytes."""


class StoreFailed(StoreError):
    """A write or sync failed; the log takes no more."""


class StoreUnsupported(StoreError):
    """A file system that cannot hold a store."""


class CorruptRecord(StoreError):
    """A record of the log is not what was written; `offset` is its physical offset."""
