"""How a message of kombu's is stored: a line of JSON with everything but the body, and behind it the body as it is."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kombu.utils.json import dumps, loads

Payload = dict[str, Any]
MARK = "kombu"  # first name of the line
VERSION = 1
TEXT_MAX = 255
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)  # JSON with dates and more
FAR_S = 365 * 86400  # what is later than that waits in a worker, as it does with other brokers


def packed(payload: Payload) -> bytes:
    body = payload.get("body")
    rest = {MARK: VERSION, **{name: value for name, value in payload.items() if name != "body"}}
    text: str = dumps(rest)
    return text.encode() + b"\n" + (body.encode() if isinstance(body, str) else bytes(body or b""))


def unpacked(stored: bytes) -> Payload:
    """Of what another program has sent, a payload whose body is all of it."""
    head, _, body = stored.partition(b"\n")
    payload: Any
    try:
        payload = loads(head) if head.startswith(b'{"kombu"') else None
    except UNREADABLE:
        payload = None
    if not _is_kombus(payload):
        payload = {"content-type": "application/data", "content-encoding": "binary", "properties": {}}
        body = stored
    payload.pop(MARK, None)
    payload.setdefault("headers", {})
    payload["properties"].setdefault("delivery_info", {})
    return {**payload, "body": body}


def _is_kombus(payload: Any) -> bool:
    """False: not all that this transport looks at is as kombu writes it."""
    if not isinstance(payload, dict) or payload.get(MARK) != VERSION or not isinstance(payload.get("headers"), dict | None):
        return False
    properties = payload.get("properties")
    if not isinstance(properties, dict) or properties.get("body_encoding"):  # bodies are stored as they are
        return False
    delivery = properties.get("delivery_info", {})
    return isinstance(delivery, dict) and isinstance(delivery.get("routing_key"), str | None)


def labels(payload: Payload) -> tuple[str | None, str | None]:
    """Tag and key, by which the message can be found: a task's name and its id."""
    headers = payload.get("headers") or {}
    return _label(headers.get("task")), _label(headers.get("id") or payload["properties"].get("correlation_id"))


def due_of(headers: Mapping[str, Any] | None) -> float | None:
    """When a task is to run, in seconds since 1970. None: at once, or nobody but the worker knows when."""
    eta = (headers or {}).get("eta")
    try:
        moment = eta if isinstance(eta, datetime) else datetime.fromisoformat(eta) if isinstance(eta, str) else None
    except ValueError:
        return None
    if moment is None or moment.tzinfo is None:  # whose noon? The worker knows
        return None
    return math.ceil(moment.timestamp() * 1000) / 1000


def to_be_kept(payload: Payload) -> float | None:
    """Until when the broker is to keep the message."""
    due, now = due_of(payload.get("headers")), time.time()
    return due if due is not None and now < due <= now + FAR_S else None


def was_kept(payload: Payload) -> None:
    """Its time has come: takes out the eta, for which a worker would hand it to another thread."""
    due = due_of(payload["headers"])
    if due is not None and due <= time.time():
        payload["headers"]["eta"] = None


def _label(value: object) -> str | None:
    """None: no tag or key may look like this."""
    fits = isinstance(value, str) and 0 < len(value.encode()) <= TEXT_MAX and value.isprintable() and not set(value) & set(" |")
    return str(value) if fits else None
