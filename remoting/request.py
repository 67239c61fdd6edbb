"""A request of RocketMQ's protocol that Python answers, and the answer."""

from __future__ import annotations

from dataclasses import dataclass, field

SUCCESS = 0
SYSTEM_ERROR = 1
NOT_SUPPORTED = 3
TOPIC_NOT_EXIST = 17
QUERY_NOT_FOUND = 22


@dataclass(frozen=True, slots=True)
class Request:
    """local: the address and port that the client reached."""

    code: int
    fields: dict[str, str]
    body: bytes
    local: str


@dataclass(frozen=True, slots=True)
class Answer:
    """fields: None if this kind of answer has none."""

    code: int = SUCCESS
    remark: str | None = None
    fields: dict[str, str] | None = None
    body: bytes = field(default=b"", repr=False)
