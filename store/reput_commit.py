"""How far reput has committed its work: the position in orbitmq/reput, as far as recovery needs it."""

from __future__ import annotations

from orbitmq.store.layout import StoreLayout


def reput_position(layout: StoreLayout) -> int | None:
    """Everything in the log below this physical offset is in the queues and the index; None when nothing is known."""
    return None
