"""Which topic belongs to a queue or an exchange of kombu's, and which broker to a URL."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from orbitmq.errors import SettingError

ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
# No queue's topic begins so: behind a percent sign these have two digits.
EXCHANGE = "%EXCHANGE%"


def topic_of(queue: str) -> str:
    """Also the group of those who consume it. What topics cannot have in their names becomes %2E and the like."""
    return "".join(each if each in ALLOWED else "".join(f"%{byte:02X}" for byte in each.encode()) for each in queue)


def exchange_topic(exchange: str) -> str:
    """The topic from which queues read that live no longer than their connection."""
    return EXCHANGE + topic_of(exchange)


def broker_of(url: str) -> tuple[str | None, str | None]:
    """The name of the broker, or the folder of its store; neither: the default broker. Raises: SettingError."""
    parts = urlsplit(url)
    name, store = unquote(parts.netloc), unquote(parts.path)
    store = "" if store == "/" else store
    if (name and store) or parts.query or parts.fragment:
        what = "a broker and a store" if name and store else "more than a broker"
        raise SettingError(
            f"could not find a broker by {url!r}: it names {what}",
            hint="write orbitmq://NAME, or orbitmq:///path/to/store; everything else belongs into broker_transport_options",
            setting="broker_url",
            value=url,
        )
    return name or None, str(PurePosixPath(store)) if store else None
