"""Goal: what a client says by TLS reaches the loop, and what the loop says reaches the client: all of it, once, in order,
without more memory than a few pieces, whatever either side does and when.

Method: both sides and the carrier by hand, in one thread, in random order, against what was said.
"""

from __future__ import annotations

import random
import select
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

import pytest

from orbitmq.actors.gateway.tls_carrier import STEPS, WAITS, TlsCarrier

CERTIFICATES = Path(__file__).parent / "certificates"


def server_context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(CERTIFICATES / "first.pem", CERTIFICATES / "first.key")
    return made


class Scene:
    """A client, a carrier and the loop's socket. version: of TLS. small: sockets take parts of what is sent."""

    def __init__(self, version: ssl.TLSVersion, *, small: bool = False) -> None:
        context = ssl.create_default_context(cafile=str(CERTIFICATES / "first.pem"))
        context.maximum_version = version
        near, far = socket.socketpair()
        ours, self.loop = socket.socketpair()
        for each in near, far, ours, self.loop:
            each.setblocking(False)
            if small:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.client = context.wrap_socket(near, server_hostname="localhost", do_handshake_on_connect=False)
        self.carrier = TlsCarrier(server_context().wrap_socket(far, server_side=True, do_handshake_on_connect=False), ours)
        self.said: dict[str, bytearray] = {"client": bytearray(), "loop": bytearray()}
        self.heard: dict[str, bytearray] = {"client": bytearray(), "loop": bytearray()}
        self.ended: set[str] = set()
        self._waits: dict[str, bytes] = {}

    def shake(self) -> None:
        for _ in range(20):
            with suppress(*WAITS):
                self.client.do_handshake()
            self.carrier.turn()

    def side(self, name: str) -> socket.socket:
        return self.client if name == "client" else self.loop

    def say(self, name: str, data: bytes) -> int:
        """Returns how much was taken. What waits in a client's library is said first, as OpenSSL wants it."""
        data = self._waits.pop(name, data)
        try:
            taken = self.side(name).send(data)
        except WAITS:
            if name == "client":
                self._waits[name] = data
            return 0
        self.said[name] += data[:taken]
        return taken

    def hear(self, name: str, most: int) -> int:
        try:
            some = self.side(name).recv(most)
        except WAITS:
            return 0
        self.heard[name] += some
        if not some:
            self.ended.add(name)
        return len(some)

    def turn_at_events(self) -> bool:
        """As a selector would: True: a side had the news for which the carrier waits."""
        poll = select.poll()
        for side, events in self.carrier.wanted().items():
            poll.register(side, (select.POLLIN if events & EVENT_READ else 0) | (select.POLLOUT if events & EVENT_WRITE else 0))
        if not poll.poll(0):
            return False
        self.carrier.turn()
        return True

    def settle(self) -> None:
        """Until nothing moves any more. Both sides listen."""
        quiet = 0
        while quiet < 3:
            moved = self.say("client", b"") > 0 if self._waits else False
            moved |= self.carrier.turn() if not self.carrier.ended else False
            for name in "client", "loop":
                if name not in self.ended and self.side(name).fileno() >= 0:
                    moved |= self.hear(name, 1 << 16) > 0
            quiet = 0 if moved else quiet + 1

    def close(self) -> None:
        self.carrier.close()
        self.client.close()
        self.loop.close()


class Answering(socket.socket):
    """The carrier's side of the pair. The loop answers the send of number `at` at once, as a process of its own may."""

    def __init__(self, plain: socket.socket, loop: socket.socket, at: int) -> None:
        super().__init__(fileno=plain.detach())
        self.setblocking(False)
        self._loop = loop
        self._at = at
        self.sends = 0

    def send(self, *arguments: Any) -> int:
        taken = super().send(*arguments)
        self.sends += 1
        if self.sends == self._at:
            self._loop.send(b"answer")
        return taken


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def scene(request: pytest.FixtureRequest) -> Scene:
    scene = Scene(request.param)
    request.addfinalizer(scene.close)
    return scene


@pytest.fixture
def narrow(request: pytest.FixtureRequest) -> Scene:
    scene = Scene(ssl.TLSVersion.TLSv1_3, small=True)
    request.addfinalizer(scene.close)
    return scene


def test_sockets_that_take_parts(narrow: Scene) -> None:
    rng = random.Random(1)
    narrow.shake()
    for _ in range(600):
        for name in "client", "loop":
            narrow.say(name, rng.randbytes(rng.choice([100, 5000, 100_000])))
            narrow.hear(name, rng.choice([100, 10_000]))
        narrow.carrier.turn()
    narrow.settle()
    assert narrow.heard["loop"] == narrow.said["client"] and narrow.heard["client"] == narrow.said["loop"]
    assert min(map(len, narrow.heard.values())) > 100_000


@pytest.mark.parametrize("seed", range(10))
def test_any_order(scene: Scene, seed: int) -> None:
    rng = random.Random(seed)
    scene.shake()
    for _ in range(600):
        name = rng.choice(["client", "loop"])
        match rng.randrange(4):
            case 0 | 1:
                scene.say(name, rng.randbytes(rng.choice([1, 100, 5000, 100_000])))
            case 2:
                scene.hear(name, rng.choice([1, 1000, 100_000]))
            case 3:
                scene.carrier.turn()
        assert len(scene.carrier._inward) <= 1 << 16 and len(scene.carrier._outward) <= 1 << 16
    scene.settle()
    assert not scene.carrier.ended
    assert scene.heard["loop"] == scene.said["client"] and scene.heard["client"] == scene.said["loop"]
    assert min(map(len, scene.heard.values())) > 100_000


def test_events_tell_of_everything(scene: Scene) -> None:
    """Who turns a carrier only when its sockets have the news for which it waits misses nothing."""
    scene.shake()
    total = 3_000_000
    left = {"client": total, "loop": total}
    for _ in range(100_000):
        for name in "client", "loop":
            left[name] -= scene.say(name, b"x" * min(left[name], 50_000)) if left[name] else 0
            scene.hear(name, 30_000)
        scene.turn_at_events()
        if all(len(heard) == total for heard in scene.heard.values()):
            break
    assert [len(heard) for heard in scene.heard.values()] == [total, total]


@pytest.mark.parametrize("at", range(1, STEPS + 1))
def test_an_answer_in_the_last_step_of_a_turn(scene: Scene, at: int) -> None:
    """Events tell of an answer too that the carrier has taken, but not said, when the turn is over."""
    scene.shake()
    answering = Answering(scene.carrier.plain, scene.loop, at)
    scene.carrier.plain = answering
    for _ in range(STEPS):
        assert scene.say("client", b"a record of its own")
    while scene.turn_at_events():
        scene.hear("loop", 1 << 16)
    assert answering.sends == STEPS and scene.hear("client", 1 << 16)
    assert scene.heard["client"] == b"answer"


def test_a_side_that_does_not_read(scene: Scene) -> None:
    """Stops the other one, and does not fill the memory."""
    scene.shake()
    for name, other in (("client", "loop"), ("loop", "client")):
        quiet = 0
        while quiet < 3:
            moved = scene.say(name, b"x" * 50_000) > 0
            scene.carrier.turn()
            quiet = 0 if moved else quiet + 1
        assert 100_000 < len(scene.said[name]) < 4_000_000
        assert not scene.carrier.wanted()[scene.carrier.tls if name == "client" else scene.carrier.plain] & select.POLLIN
        scene.settle()
        assert scene.heard[other] == scene.said[name]


def test_the_end_of_a_client(scene: Scene) -> None:
    """The loop has everything that it said before, and then the end; and may still answer."""
    scene.shake()
    scene.say("client", b"x" * 10_000)
    with suppress(*WAITS):
        scene.client.unwrap()
    while scene.carrier.turn():
        pass
    while "loop" not in scene.ended:
        scene.hear("loop", 4096)
    assert scene.heard["loop"] == scene.said["client"] and not scene.carrier.ended
    scene.say("loop", b"last words")
    scene.carrier.turn()
    scene.loop.close()
    scene.carrier.turn()
    assert scene.carrier.ended


def test_a_client_that_is_cut_off(scene: Scene) -> None:
    scene.shake()
    scene.say("client", b"x" * 10_000)
    scene.client.close()  # without a word
    while scene.carrier.turn():
        pass
    while "loop" not in scene.ended:
        assert scene.hear("loop", 1 << 16) or "loop" in scene.ended
    assert scene.heard["loop"] == scene.said["client"]


@pytest.mark.parametrize("unread", [False, True])
def test_the_end_of_the_loop(scene: Scene, unread: bool) -> None:
    """The client has everything that it said before, and then the end, though the loop has not read everything."""
    scene.shake()
    if unread:
        scene.say("client", b"y" * 10_000)
        scene.carrier.turn()
    scene.say("loop", b"x" * 10_000)
    scene.loop.close()
    if unread:
        scene.say("client", b"y" * 10_000)
    while scene.carrier.turn():
        pass
    assert scene.carrier.ended and scene.carrier.loop_ended
    scene.carrier.close()
    while "client" not in scene.ended:
        scene.hear("client", 4096)
    assert scene.heard["client"] == scene.said["loop"]


def test_no_handshake(scene: Scene) -> None:
    """What is no TLS ends the connection, and so does the loop's patience."""
    raw, far = socket.socketpair()
    ours, loop = socket.socketpair()
    for each in raw, far, ours, loop:
        each.setblocking(False)
    carrier = TlsCarrier(server_context().wrap_socket(far, server_side=True, do_handshake_on_connect=False), ours)
    raw.send(b"\x16\x03")
    assert not carrier.turn() and not carrier.ended
    raw.send(b"no handshake at all")
    carrier.turn()
    assert carrier.ended
    carrier.close()
    scene.loop.close()
    scene.carrier.turn()
    assert scene.carrier.ended
    raw.close()
    loop.close()
