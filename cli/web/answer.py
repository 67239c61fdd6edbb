"""What the console's API answers: JSON, also where something could not be done."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from orbitmq.errors import (
    BrokerNotRunning,
    BrokerStopped,
    CorruptRecord,
    GroupInUse,
    NoPermission,
    OrbitError,
    StoreFull,
    TimedOut,
    UnknownGroup,
    UnknownQueue,
    UnknownTopic,
    UsageError,
)

# The first class that fits decides.
CODES: tuple[tuple[type[OrbitError], int], ...] = (
    (BrokerNotRunning, 503),
    (BrokerStopped, 503),
    (TimedOut, 503),
    (UnknownTopic, 404),
    (UnknownGroup, 404),
    (UnknownQueue, 404),
    (GroupInUse, 409),
    (NoPermission, 403),
    (UsageError, 400),
    (StoreFull, 507),
    (CorruptRecord, 422),
    (OrbitError, 500),
)


class Answer(Response):
    """Plain ASCII, so that text which is no valid Unicode, as properties may hold, is told too."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode()


def refused(code: int, message: str, *, option: str | None = None, **about: Any) -> Answer:
    """option: of the command, which would change it."""
    return Answer({"error": {"message": message, "option": option, **about}}, code)


def of_error(error: OrbitError) -> Answer:
    code = next(code for kind, code in CODES if isinstance(error, kind))
    return refused(code, error.message, kind=type(error).__name__, hint=error.hint, retry=error.retry.value, sent=error.sent)
