"""Everything that OrbitMQ raises on purpose.

    OrbitError
    ├── UsageError (also ValueError)     the call cannot be done as it was made
    │   ├── TopicNameError               empty, too long, or a forbidden character
    │   ├── GroupNameError
    │   ├── UnknownGroup (also KeyError)
    │   ├── GroupInUse                   it has members, and so cannot be deleted
    │   ├── UnknownTopic (also KeyError)
    │   ├── UnknownQueue
    │   ├── UnknownTransaction           its half message is not in the log (any more)
    │   ├── TopicExists                  with other settings than asked for
    │   ├── MessageTooLarge              body and properties exceed the limit of the session or the broker
    │   ├── BatchRefused                 another message of the same atomic batch was refused
    │   ├── PropertiesTooLarge
    │   ├── PropertyError                an empty name or value, or a separator byte in one
    │   ├── OffsetOutOfRange             carries the valid range
    │   ├── ColumnError                  a column of a DataFrame that cannot be sent: its type, or a value in it
    │   └── SettingError                 a setting of the broker or a client that is not valid
    │       ├── UnknownOption (also TypeError)  an argument that the call does not have; the hint says what may be meant
    │       ├── FilterError              a text that is no SQL92 filter; carries the column
    │       └── WouldDelete              one that would delete messages at once, and nobody has allowed it
    ├── NoPermission                     not for this user; or the topic may not be written or read
    ├── Full                             no room now: the window, the ring, or a table; a later retry helps
    │   └── NoMeans                      ... but a descriptor, mapping, thread or memory that this process cannot get
    ├── TimedOut (also TimeoutError)     the caller's time limit is over; the send may still succeed
    │   └── RequestTimeout               no reply came to a request; carries the receipt of the request
    ├── Closed                           this program closed the producer, consumer or client
    ├── Interrupted                      interrupt() ended this wait; nothing was taken
    ├── Fenced                           queues went to another member; what was delivered of them could not be committed
    ├── JobLost                          jobs were not this worker's any more when it settled them; they come again
    ├── TransactionSettled               the transaction was committed or rolled back before
    ├── BrokerError                      a failure of the broker
    │   ├── BrokerNotRunning             no broker answers under this name
    │   ├── BrokerStopped                it stopped, or died, while this client was connected
    │   │   └── PerhapsStored            ... with this send in flight: it may or may not be in the log
    │   ├── BrokerBroken                 an actor failed more often than its restart intensity allows
    │   └── ProtocolError                an answer that does not fit the question: a bug of OrbitMQ's, or another version
    ├── ExportError                      a folder that topics are exported to
    │   ├── ExportBusy                   another export is running there
    │   ├── ExportDiffers (also UsageError)  it holds another store's messages, or has other columns or folders
    │   ├── ExportDamaged                its manifest cannot be read, or a file is gone
    │   └── ExportFailed                 a file there could not be written
    └── StoreError                       a failure of the disk
        ├── StoreLocked                  another broker holds this store
        ├── StoreVersion                 written by a version that this one does not know
        ├── StoreSettingsError           files whose sizes differ from the settings
        ├── StoreFull                    the disk (or /dev/shm) has no room; carries mount, need and free bytes
        ├── StoreFailed                  a write or sync failed; the log accepts no more until the broker is restarted
        ├── StoreUnsupported             a file system that cannot hold a store
        └── CorruptRecord                carries the physical offset and what is wrong there

docs/errors.md says for each when it is raised, what it carries, and whether the call may be repeated.

Wording: what could not be done, with which value, and why. What to do about it is the separate hint, which each face spells as
its users write it (remedy.py). Values are attributes: they are the keyword arguments of the constructor, and None if they do
not apply.

Names: a name that is clear by itself has no suffix (Full, StoreLocked, UnknownTopic); any other ends with Error.
"""

from __future__ import annotations

from orbitmq.errors.broker import BrokerBroken, BrokerError, BrokerNotRunning, BrokerStopped, PerhapsStored, ProtocolError
from orbitmq.errors.exports import ExportBusy, ExportDamaged, ExportDiffers, ExportError, ExportFailed
from orbitmq.errors.remedy import Hint, Knob
from orbitmq.errors.requests import (
    BatchRefused,
    ColumnError,
    FilterError,
    GroupInUse,
    GroupNameError,
    MessageTooLarge,
    NoPermission,
    OffsetOutOfRange,
    PropertiesTooLarge,
    PropertyError,
    SettingError,
    TopicExists,
    TopicNameError,
    UnknownGroup,
    UnknownOption,
    UnknownQueue,
    UnknownTopic,
    UnknownTransaction,
    UsageError,
    WouldDelete,
)
from orbitmq.errors.root import OrbitError, Retry
from orbitmq.errors.store import (
    CorruptRecord,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreSettingsError,
    StoreUnsupported,
    StoreVersion,
)
from orbitmq.errors.waits import (
    Closed,
    Fenced,
    Full,
    Interrupted,
    JobLost,
    NoMeans,
    RequestTimeout,
    TimedOut,
    TransactionSettled,
)

__all__ = [
    "BatchRefused",
    "BrokerBroken",
    "BrokerError",
    "BrokerNotRunning",
    "BrokerStopped",
    "Closed",
    "ColumnError",
    "CorruptRecord",
    "ExportBusy",
    "ExportDamaged",
    "ExportDiffers",
    "ExportError",
    "ExportFailed",
    "Fenced",
    "FilterError",
    "Full",
    "GroupInUse",
    "GroupNameError",
    "Hint",
    "Interrupted",
    "JobLost",
    "Knob",
    "MessageTooLarge",
    "NoMeans",
    "NoPermission",
    "OffsetOutOfRange",
    "OrbitError",
    "PerhapsStored",
    "PropertiesTooLarge",
    "PropertyError",
    "ProtocolError",
    "RequestTimeout",
    "Retry",
    "SettingError",
    "StoreError",
    "StoreFailed",
    "StoreFull",
    "StoreLocked",
    "StoreSettingsError",
    "StoreUnsupported",
    "StoreVersion",
    "TimedOut",
    "TopicExists",
    "TopicNameError",
    "TransactionSettled",
    "UnknownGroup",
    "UnknownOption",
    "UnknownQueue",
    "UnknownTopic",
    "UnknownTransaction",
    "UsageError",
    "WouldDelete",
]

# Users know one module, and errors that another version has pickled are found there.
for _name in __all__:
    globals()[_name].__module__ = __name__
