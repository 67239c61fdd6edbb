"""One connection with TLS: what the client says is carried to the loop in clear, and what the loop says to the client.

A side is not read while what it said before waits for the other side: so neither can fill the memory."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE

CHUNK = 64 << 10  # more than a record of TLS
STEPS = 16  # in one turn: others wait
WAITS = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError, InterruptedError)


class TlsCarrier:
    """tls: the client's socket; plain: the side of a pair whose other side the loop has. Neither blocks.

    loop_ended: the loop says nothing more. ended: all that could be carried has been."""

    def __init__(self, tls: ssl.SSLSocket, plain: socket.socket) -> None:
        self.tls = tls
        self.plain = plain
        self.loop_ended = self.ended = False
        self._shaken = False
        self._inward = self._outward = b""  # was read, and waits for the other side
        self._inward_ended = False
        self._tls_reads, self._tls_writes = EVENT_READ, EVENT_WRITE  # the events for which these calls wait

    def turn(self) -> bool:
        """Carries what can be carried now. True: perhaps not all of it, for the sake of others; the events for which it waits
        tell, because no record of TLS is read in part. Never raises for what a side does."""
        self._tls_reads, self._tls_writes = EVENT_READ, EVENT_WRITE
        try:
            return self._carry() if self._shaken or self._shake() else False
        except (OSError, ValueError):  # of ssl, too: the client is gone, or what it says is no TLS
            self.ended = True
            return False

    def wanted(self) -> dict[socket.socket, int]:
        """For which events each side waits."""
        if not self._shaken:
            return {self.tls: self._tls_reads, self.plain: EVENT_READ}
        reads = not self._inward and not self._inward_ended
        tls = (self._tls_reads if reads else 0) | (self._tls_writes if self._outward else 0)
        return {self.tls: tls, self.plain: (0 if self._outward else EVENT_READ) | (EVENT_WRITE if self._inward else 0)}

    def close(self) -> None:
        """With a word to the client that nothing more comes, if it can be said at once."""
        if self._shaken:
            with suppress(OSError, ValueError):
                self.tls.unwrap()
        self.tls.close()
        self.plain.close()

    def _shake(self) -> bool:
        """Raises: OSError."""
        with suppress(*WAITS):
            self.plain.recv(1)  # the loop says nothing before the client has: it has given the client up
            self.loop_ended = self.ended = True
            return False
        try:
            self.tls.do_handshake()
        except WAITS as waits:
            self._tls_reads = _event(waits)
            return False
        self._shaken = True
        return True

    def _carry(self) -> bool:
        for _ in range(STEPS):
            if not self._carry_inward() | self._carry_outward():
                break
        else:
            return True
        self.ended = self.loop_ended and not self._outward
        return False

    def _carry_inward(self) -> bool:
        """A step from the client to the loop. False: nothing could be done."""
        if self._inward_ended or self.loop_ended:
            return False
        try:
            if self._inward:
                self._inward = self._inward[self.plain.send(self._inward) :]
                return True
        except WAITS:
            return False
        except OSError:  # the loop reads no more; what it has said is still carried
            self._inward, self._inward_ended = b"", True
            return False
        try:
            self._inward = self.tls.recv(CHUNK)
        except WAITS as waits:
            self._tls_reads = _event(waits)
            return False
        except OSError:
            pass  # an end: what came before it counts
        if not self._inward:
            self._inward_ended = True
            with suppress(OSError):
                self.plain.shutdown(socket.SHUT_WR)  # the loop reads what is there, and then sees the end
        return True

    def _carry_outward(self) -> bool:
        """A step from the loop to the client. Raises: OSError: the client is gone."""
        if self._outward:
            try:
                self._outward = self._outward[self.tls.send(self._outward) :]
            except WAITS as waits:
                self._tls_writes = _event(waits)
                return False
            return True
        if self.loop_ended:
            return False
        try:
            self._outward = self.plain.recv(CHUNK)
        except WAITS:
            return False
        except OSError:
            pass  # it ended before it had read everything
        self.loop_ended = not self._outward
        return True


def _event(waits: BaseException) -> int:
    return EVENT_WRITE if isinstance(waits, ssl.SSLWantWriteError) else EVENT_READ
