"""A front: one more process at the gateway's port. Its loop in C serves what is frequent, and passes everything else on to the
lead, gateway.py (native/remoting/gateway/gateway_line.h)."""

from __future__ import annotations

from orbitmq.actors.gateway.remote_loop import RemoteLoop
from orbitmq.actors.tree import Tree


class Front(RemoteLoop):
    """number: from 1."""

    def __init__(self, tree: Tree, number: int) -> None:
        ends = tree.fronts[number - 1]
        super().__init__(tree, number, ends.listeners)
        self.give_line(number, ends.line)
        self.attach()
