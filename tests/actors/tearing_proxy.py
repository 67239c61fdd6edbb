"""A proxy for the gateway that treats connections as a bad network and bad middle boxes do: it cuts them at any byte, carries
their bytes in pieces and late, changes the order of frames, sends frames and whole connections twice, and opens connections
that it abandons.

What happens to a connection follows from the seed and the connection's number. Late means: after so many turns of the event
loop. Connections that begin with TLS are only cut and carried late, since their frames cannot be seen.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections import Counter
from typing import Any

from orbitmq.store.settings.listen_address import listen_address
from tests.native import remoting_model as model
from tests.waiting import WATCHDOG_S

TLS = b"\x16"
LEFT_MAX = 100
PIECES_MAX = 50  # or twice as many, of a frame
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close discards what is on its way


class Fate:
    """Of one connection."""

    def __init__(self, seed: int, number: int) -> None:
        draw = self.random = random.Random(f"{seed} {number}")
        some = (1 << 40, draw.randrange(200), draw.randrange(20_000), draw.randrange(200_000))
        self.bytes_left = [draw.choice(some), draw.choice(some)]
        self.resets = draw.random() < 0.5
        self.turns = draw.choice((0, 0, 3, 100))
        self.piece = draw.choice((1 << 20, 1 << 20, 1000, 20))
        self.swaps = draw.choice((0, 0.3))
        self.doubles = draw.choice((0, 0.1))
        self.replayed = draw.random() < 0.2
        self.beside = draw.choice(("", "", "reset", "closed", "left"))  # a connection that nobody asked for, and its end


class _Cut(Exception):
    """The connection is to end here."""


class Link:
    """One connection: both ways, and what it has carried."""

    def __init__(self, proxy: TearingProxy, fate: Fate) -> None:
        self._proxy = proxy
        self._fate = fate
        self.kept = bytearray()  # all that went to the gateway
        self.client_ended = False

    async def carry(self, way: int, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        """way: 0: to the gateway, 1: to the client. Raises: _Cut, OSError."""
        waiting, plain = b"", None
        while some := await source.read(1 << 16):
            plain = not some.startswith(TLS) if plain is None else plain
            if not plain:
                await self._emit(way, some, to)
                continue
            waiting += some
            frames = []
            while (size := model.border(waiting)) is not None and len(waiting) >= size:
                frames.append(waiting[:size])
                waiting = waiting[size:]
            for frame in self._disordered(frames):
                await self._emit(way, frame, to, True)
                if way == 0:
                    self.kept += frame
        await self._emit(way, waiting, to)
        if way == 0:
            self.client_ended = True
            to.write_eof()
        elif not self.client_ended:
            raise ConnectionAbortedError("the gateway has closed the connection of a client that had more to ask")

    def _disordered(self, frames: list[bytes]) -> list[bytes]:
        draw = self._fate.random
        for at in range(len(frames) - 1):
            if draw.random() < self._fate.swaps:
                frames[at], frames[at + 1] = frames[at + 1], frames[at]
                self._proxy.told["swapped"] += 1
        out = []
        for frame in frames:
            out.append(frame)
            if draw.random() < self._fate.doubles:
                out.append(frame)
                self._proxy.told["doubled"] += 1
        return out

    async def _emit(self, way: int, data: bytes, to: asyncio.StreamWriter, frame: bool = False) -> None:
        fate, whole, piece = self._fate, data, max(self._fate.piece, len(data) // PIECES_MAX)
        while data:
            size = min(len(data), fate.random.randrange(1, piece + 1), fate.bytes_left[way])
            for _ in range(fate.random.randrange(fate.turns + 1)):
                await asyncio.sleep(0)
            if frame and way == 0 and size == len(data):
                self._proxy.note(whole)
            to.write(data[:size])
            await to.drain()
            fate.bytes_left[way] -= size
            data = data[size:]
            if not fate.bytes_left[way]:
                raise _Cut


class TearingProxy:
    """In a thread of its own. carried: how often each request's body was sent to the gateway with its whole frame. told: what
    was done to connections."""

    def __init__(self, gateway: str, seed: int) -> None:
        address = listen_address(gateway)
        assert address is not None
        self._gateway = address
        self._seed = seed
        self._number = 0
        self._left: list[asyncio.StreamWriter] = []
        self._links: set[asyncio.Task[Any]] = set()
        self.carried = Counter[bytes]()
        self.told = Counter[str]()
        self.failed: list[BaseException] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tearing proxy", daemon=True)
        self._thread.start()
        self.listens: str = self._do(self._open())

    def __enter__(self) -> TearingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WATCHDOG_S)
        self._loop.close()

    def rest(self) -> None:
        """Ends all of its connections."""
        self._do(self._end())

    def note(self, frame: bytes) -> None:
        self.carried[model.split(frame)[2]] += 1

    def _do(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(WATCHDOG_S)

    async def _open(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    async def _close(self) -> None:
        self._server.close()
        await self._end()

    async def _end(self) -> None:
        for each in self._left:
            each.transport.abort()
        self._left.clear()
        while self._links:
            for task in self._links:
                task.cancel()
            await asyncio.wait(self._links)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        fate = Fate(self._seed, self._number)
        self._number += 1
        try:
            await self._link(fate, reader, writer)
        except (asyncio.CancelledError, OSError):
            pass
        except BaseException as error:
            self.failed.append(error)
        finally:
            writer.transport.abort()
            self._links.discard(task)

    async def _link(self, fate: Fate, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if fate.beside:
            await self._abandon(fate)
        link = Link(self, fate)
        from_gateway, to_gateway = await asyncio.open_connection(*self._gateway)
        ways = [
            asyncio.ensure_future(link.carry(0, reader, to_gateway)),
            asyncio.ensure_future(link.carry(1, from_gateway, writer)),
        ]
        try:
            await asyncio.gather(*ways)
            self.told["ended"] += 1
        except ConnectionAbortedError as error:
            self.failed.append(error)
        except _Cut:
            self.told["cut"] += 1
            for each in (writer, to_gateway) if fate.resets else ():
                _reset(each)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)
            to_gateway.close()
        if fate.replayed and link.kept:
            await self._replay(bytes(link.kept))

    async def _replay(self, data: bytes) -> None:
        """All frames of a connection again, on another one, whose answers nobody gets."""
        self.told["replayed"] += 1
        reader, writer = await asyncio.open_connection(*self._gateway)
        try:
            while data:
                size = model.border(data)
                self.note(data[:size])
                writer.write(data[:size])
                data = data[size:]
            writer.write_eof()
            while await reader.read(1 << 16):
                pass
        finally:
            writer.transport.abort()

    async def _abandon(self, fate: Fate) -> None:
        self.told["abandoned"] += 1
        _, writer = await asyncio.open_connection(*self._gateway)
        frame = model.frame(model.JSON, model.write_json(model.Header(fields={})), bytes(1000))
        writer.write(frame[: fate.random.randrange(len(frame))])
        if fate.beside == "left" and len(self._left) < LEFT_MAX:
            self._left.append(writer)
            return
        if fate.beside == "reset":
            _reset(writer)
        writer.transport.abort()


def _reset(writer: asyncio.StreamWriter) -> None:
    end = writer.get_extra_info("socket")
    if end is not None and end.fileno() >= 0:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
