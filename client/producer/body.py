"""The types of what can be sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from orbitmq.client.several import Ordered, Several

Body = bytes | bytearray | memoryview | str
# Any number of bodies, but not one text, whose letters would become messages.
Bodies = Iterable[bytes | bytearray | memoryview] | Several[Body] | Iterator[Body]
# The key or keys of each message of a batch.
BatchKeys = Ordered[str | Ordered[str] | None]
# The properties of all messages of a batch, or those of each.
BatchProperties = Mapping[str, str] | Ordered[Mapping[str, str] | None]
