"""The send handler: takes frames from the sessions of its lane and puts records into the lane
(native/actors/handler/handler.h)."""

from __future__ import annotations

from orbitmq.actors.actor import CoreActor
from orbitmq.actors.pages import PAGE_HANDLER
from orbitmq.actors.tree import Tree


class Handler(CoreActor):
    kind = "handler"

    def __init__(self, tree: Tree, lane: int) -> None:
        super().__init__(tree, PAGE_HANDLER + lane, lane)
