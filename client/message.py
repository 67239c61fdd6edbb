"""The message that consumers get: a view into the mapped log, decoded attribute by attribute (native/python/message.c)."""

from __future__ import annotations

from orbitmq.native._types import Message

__all__ = ["Message"]
