"""The sockets at which RocketMQ's clients connect. The supervisor makes them before the first actor starts, and each gateway
inherits them: so a start says at once that an address is taken, and clients that connect between two gateways wait for the next
one."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from ipaddress import ip_address
from typing import NamedTuple

from orbitmq.errors import SettingError
from orbitmq.store.commit_log.record import Host
from orbitmq.store.settings.listen_address import LOCAL, WILD, ListenAddress, listen_address
from orbitmq.store.settings.listen_place import GATEWAY, VIP_BELOW, ListenPlace, listen_places
from orbitmq.store.settings.tree_settings import TreeSettings

PAIRS = 64  # how many ports of a broker are tried, if it may have any, until the one for its VIP channel is free, too


class Listener(NamedTuple):
    """sockets, addresses: one for each, with the ports that they got. is_gateway: the first ones are those of a name server, a
    broker and its VIP channel."""

    sockets: tuple[socket.socket, ...]
    addresses: tuple[ListenAddress, ...]
    is_gateway: bool

    @classmethod
    def open(cls, settings: TreeSettings) -> Listener | None:
        """None: nobody may connect. Raises: SettingError: an address cannot be had."""
        places = listen_places(settings)
        if not places:
            return None
        with ExitStack() as opened:
            sockets: list[socket.socket] = []
            if settings.gateway:
                names, broker, vip = places[: len(GATEWAY)]
                sockets = [opened.enter_context(names.open()), *map(opened.enter_context, _pair(broker, vip))]
            sockets += [opened.enter_context(each.open()) for each in places[len(sockets) :]]
            opened.pop_all()
        return cls(tuple(sockets), tuple(map(_bound, sockets)), settings.gateway)

    @property
    def descriptors(self) -> set[int]:
        return {each.fileno() for each in self.sockets}

    @property
    def names(self) -> str:
        """Where clients look for their name server, as they are told it."""
        return str(self.addresses[0]) if self.is_gateway else ";".join(map(str, self.addresses))

    @property
    def broker(self) -> ListenAddress:
        """The one that messages name."""
        return self.addresses[GATEWAY.index("broker_port") if self.is_gateway else 0]

    def broker_of(self, reached: str) -> str:
        """Where who has reached this address finds the broker: there, or, from one of the gateway's, at the broker's."""
        address = listen_address(reached) if self.is_gateway else None
        if address is None:
            return reached
        ours = self.addresses[: len(GATEWAY)]
        here = ours[0].host in WILD or ours[0].host == address.host
        is_ours = here and address.port in [each.port for each in ours]
        return str(ListenAddress(address.host, self.broker.port)) if is_ours else reached


def _pair(broker: ListenPlace, vip: ListenPlace) -> tuple[socket.socket, socket.socket]:
    """Of the broker and its VIP channel. Raises: SettingError."""
    for left in reversed(range(PAIRS)):
        first = broker.open()
        port = vip.address.port or _bound(first).port - VIP_BELOW
        try:
            return first, ListenPlace(vip.setting, ListenAddress(vip.address.host, port)).open()
        except SettingError:
            first.close()
            if broker.address.port or vip.address.port or not left:
                raise
    raise AssertionError("the last one has raised")


def _bound(listener: socket.socket) -> ListenAddress:
    """Where it listens: with the port that it got."""
    host, port = listener.getsockname()[:2]
    return ListenAddress(host, port)


def store_host(address: ListenAddress) -> Host:
    """What records name as the broker: readers of a message id dial it. Instead of all addresses, which no client could dial,
    that of this machine for itself."""
    host = ip_address(address.host.partition("%")[0])
    host = getattr(host, "ipv4_mapped", None) or host
    return (LOCAL if host.is_unspecified else str(host)), address.port
