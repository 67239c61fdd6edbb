"""Connections with TLS: a thread of the gateway's process does their handshakes, and carries what they say, in clear, to and
from the loop in C (native/remoting/gateway/gateway_tls.c), through a pair of sockets for each."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from orbitmq.actors.gateway.certificate import Certificate
from orbitmq.actors.gateway.certificate import context as context_of
from orbitmq.actors.gateway.tls_carrier import TlsCarrier
from orbitmq.store.settings.tree_settings import TreeSettings

END_S = 2.0  # how long, at the end, clients may take to read what was said to them
LINGER_S = 10.0  # the same for one whose connection the loop has closed
LOOK_S = 1.0


def check_files(settings: TreeSettings) -> None:
    """Raises: SettingError: a door could not open with them."""
    context_of(settings)


class TlsDoor:
    """alive: false if the thread has failed. say: takes a line for the broker's log. Raises: SettingError."""

    def __init__(
        self, settings: TreeSettings, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._certificate = Certificate(settings, say)
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._new: deque[TlsCarrier] = deque()
        self._carriers: dict[TlsCarrier, float] = {}  # until when each may take
        self._ends_s: float | None = None
        self._thread = threading.Thread(target=self._serve, name="tls", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def take(self, client: socket.socket) -> socket.socket:
        """Carries what this client says to the socket that it returns. Raises: OSError: the client is gone, or no descriptors
        are left."""
        client.setblocking(False)
        wrapped = self._certificate.context.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
        try:
            ours, theirs = socket.socketpair()
        except OSError:
            wrapped.close()
            raise
        ours.setblocking(False)
        theirs.setblocking(False)
        self._new.append(TlsCarrier(wrapped, ours))
        self._wake()
        return theirs

    def close(self) -> None:
        """After the loop has closed its sides. What is still to be said is said, for END_S at most."""
        self._ends_s = self._clock() + END_S
        self._wake()
        self._thread.join()
        for each in *self._carriers, *self._new:
            each.close()
        self._selector.close()
        os.close(self._woken)
        os.close(self._wakes)

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # it has been woken, and not looked yet
            os.write(self._wakes, b"!")

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the loop, which they wake
        while self._ends_s is None or (self._carriers and self._clock() < self._ends_s):
            ready = {key.data for key, _ in self._selector.select(LOOK_S)}
            if None in ready:
                ready.discard(None)
                os.read(self._woken, 4096)
            while self._new:
                carrier = self._new.popleft()
                self._carriers[carrier] = float("inf")
                ready.add(carrier)
            for carrier in ready:
                self._turn(carrier)
            now_s = self._clock()
            for carrier in [each for each, until_s in self._carriers.items() if until_s < now_s]:
                self._drop(carrier)

    def _turn(self, carrier: TlsCarrier) -> None:
        carrier.turn()
        if carrier.ended:
            self._drop(carrier)
            return
        if carrier.loop_ended:
            self._carriers[carrier] = min(self._carriers[carrier], self._clock() + LINGER_S)
        for side, events in carrier.wanted().items():
            self._watch(side, events, carrier)

    def _drop(self, carrier: TlsCarrier) -> None:
        for side in carrier.tls, carrier.plain:
            self._watch(side, 0, carrier)
        del self._carriers[carrier]
        carrier.close()

    def _watch(self, side: socket.socket, events: int, carrier: TlsCarrier) -> None:
        known = self._selector.get_map().get(side)
        if known is None:
            if events:
                self._selector.register(side, events, carrier)
        elif not events:
            self._selector.unregister(side)
        elif known.events != events:
            self._selector.modify(side, events, carrier)
