"""The pull-hold notifier: wakes consumers that wait for the same queues (native/actors/notifier.h)."""

from __future__ import annotations

from orbitmq.actors.actor import CoreActor
from orbitmq.actors.pages import PAGE_NOTIFIER
from orbitmq.actors.tree import Tree


class Notifier(CoreActor):
    kind = "notifier"

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree, PAGE_NOTIFIER)
