"""What can be sent, as type checkers see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from orbitmq.client.several import Ordered, Several

Body = bytes | bytearray | memoryview | str
# Any number of them, but not one text, whose letters would become messages.
Bodies = Iterable[bytes | bytearray | memoryview] | Several[Body] | Iterator[Body]
# Of each message of a batch its key or keys.
BatchKeys = Ordered[str | Ordered[str] | None]
