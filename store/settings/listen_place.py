"""Where a broker listens for RocketMQ's clients, by its settings: at those of `listen`, and, as a gateway, where RocketMQ's
name server, its broker and its VIP channel are expected."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import Knob, hint
from orbitmq.native._core import lib
from orbitmq.store.settings.listen_address import ListenAddress, listen_addresses
from orbitmq.store.settings.setting_text import refused

if TYPE_CHECKING:
    from orbitmq.store.settings.tree_settings import TreeSettings

BACKLOG = 1024
PLACES_MAX: int = lib.GATEWAY_LISTENERS
VIP_BELOW = 2  # RocketMQ's clients look for the VIP channel so far below the broker's port
GATEWAY = ("name_server_port", "broker_port", "vip_port")


class ListenPlace(NamedTuple):
    """setting: which one says it."""

    setting: str
    address: ListenAddress

    def open(self) -> socket.socket:
        """A socket that listens and does not block. Raises: as bind."""
        return self._made(BACKLOG)

    def bind(self) -> socket.socket:
        """One at which nobody can connect. Raises: SettingError: somebody listens there, or the address cannot be had."""
        return self._made(None)

    def _made(self, backlog: int | None) -> socket.socket:
        place: tuple[object, ...] = self.address
        try:
            family, _, _, _, place = socket.getaddrinfo(*self.address, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise self._unusable(error, place) from None
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind(place)
            if backlog is not None:
                listener.listen(backlog)
        except OSError as error:
            listener.close()
            raise self._unusable(error, place) from None
        return listener

    def _unusable(self, error: OSError, place: tuple[object, ...]) -> SettingError:
        why, ways = error.strerror or str(error), None
        if error.errno == errno.EADDRINUSE:
            from orbitmq.store.port_holder import port_holder

            holder = port_holder(ListenAddress(str(place[0]), self.address.port))
            if holder is not None and holder.pid == os.getpid():
                why = f"{why}, by this broker itself, for another of its settings"
            elif holder is not None:
                why = f"{why}, by {holder}"
            ways = hint("stop what listens there || take another port with {}", Knob(self.setting, of="broker"))
        if self.setting == "listen":
            return refused("listen", str(self.address), f"the broker cannot listen there: {why}", ways)
        text = f"cannot listen at {self.address}, where {self.setting} wants it: {why}"
        return SettingError(text, hint=ways, name=self.setting, value=self.address.port)


def listen_places(settings: TreeSettings) -> list[ListenPlace]:
    """Those of the gateway first, in the order of GATEWAY. The port of the VIP channel is 0 if it depends on what the broker
    gets."""
    places: list[ListenPlace] = []
    if settings.gateway:
        host = settings.gateway_host.strip("[]")
        vip = settings.vip_port or max(settings.broker_port - VIP_BELOW, 0)
        ports = (settings.name_server_port, settings.broker_port, vip)
        places = [ListenPlace(setting, ListenAddress(host, port)) for setting, port in zip(GATEWAY, ports, strict=True)]
    known = [each.address for each in places]
    return places + [ListenPlace("listen", each) for each in listen_addresses(settings.listen) if each not in known]


def check_places(settings: TreeSettings) -> None:
    """Raises: SettingError: no broker could listen so."""
    host: Any = settings.gateway_host
    if not isinstance(host, str) or not host.strip("[]") or (":" in host and not _is_ipv6(host.strip("[]"))):
        raise refused("gateway_host", host, "it must be an address or a name of this machine, without a port")
    if 0 < settings.broker_port <= VIP_BELOW and not settings.vip_port:
        raise refused("broker_port", settings.broker_port, f"there is no port {VIP_BELOW} below it", hint("set {vip_port} too"))
    places = listen_places(settings)
    ports = [each.address.port for each in places if each.setting in GATEWAY]
    if len(places) > PLACES_MAX:
        why = f"a broker listens at {PLACES_MAX - len(ports)} such addresses at most"
        raise refused("listen", settings.listen, why)
    for number, port in enumerate(ports):
        if port and port in ports[:number]:
            raise refused(GATEWAY[number], port, f"{GATEWAY[ports.index(port)]} is the same")


def _is_ipv6(host: str) -> bool:
    from ipaddress import IPv6Address

    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True
