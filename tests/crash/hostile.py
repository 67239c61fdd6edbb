"""A hostile client: a process of its own that opens real sessions, and a seeded number of attacks on them, on the wake words
and on the control socket.

What it may write it writes; what it tries beyond that the kernel must refuse. Deeds are functions of the attacker and its
random numbers, so a seed repeats an attack as far as the timing of processes allows.
"""

from __future__ import annotations

import ctypes
import fcntl
import multiprocessing
import os
import random
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack

import orbitmq
from orbitmq.errors import Full, OrbitError
from orbitmq.native._core import ffi, lib
from orbitmq.shm import frames, runtime
from orbitmq.store.delays import DELAY_TOPICS
from orbitmq.store.layout import StoreLayout
from tests.actors.delay_life import AT, CANCEL
from tests.crash.raw_session import RawSession, message
from tests.native.pipeline import FRAME, MESSAGE, SQ_SEND
from tests.waiting import until

FORK = multiprocessing.get_context("fork")
READY = 1
TOPIC = "hostile"
NUMBERS = (
    0,
    1,
    7,
    8,
    24,
    64,
    4095,
    4096,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 8,
    2**32 - 1,
    2**48,
    2**63,
    2**64 - 8,
    2**64 - 1,
)
BACK, AGAIN = 2**32 - 6, 2**32 - 7
LEVELS = (1, 1, 1, 18, 19, AT, CANCEL, BACK, AGAIN)
RING_LINES = 128  # tail and head, before the ring's records
PUNCH_HOLE = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE


class Attacker:
    """rng decides everything. session is replaced when the broker has given it up."""

    def __init__(self, broker: str, seed: int) -> None:
        self.broker = broker
        self.rng = random.Random(seed)
        self.client = orbitmq.connect(broker, timeout=30)
        self.held: list[Any] = []  # as long as this process lives
        self.session = self._open()

    def renew(self) -> None:
        """A session that the broker serves. Raises: Full: what this process held has not been released yet."""
        if self.session.state == READY:
            return
        try:
            fresh = self._open()
        except Full:
            for each in self.held:
                with suppress(OrbitError):
                    each.close()
            self.held.clear()
            raise
        with suppress(OrbitError):
            self.session.close()
        self.session = fresh

    def put(self, content: bytes) -> bool:
        """Publishes a record at the ring's current positions, whatever they are; False if they leave no room. OrbitMQ's own
        library would not use a ring in which somebody else has written."""
        memory, base, capacity = self.session.memory, self.session.ring_offset, int(self.session.shape.sq_capacity)
        tail, head = (int.from_bytes(memory[base + at : base + at + 8], "little") & -8 for at in (0, 64))
        stride = len(content) + 8 + 7 & -8
        to_end = capacity - tail % capacity
        padding = to_end if to_end < stride else 0
        if stride > capacity // 2 or (tail + padding + stride - head) % 2**64 > capacity:
            return False
        begin = base + RING_LINES
        if padding:
            memory[begin + tail % capacity : begin + tail % capacity + 8] = struct.pack("<II", padding, 0)
        at = begin + (tail + padding) % capacity
        memory[at : at + 8 + len(content)] = struct.pack("<II", 8 + len(content), SQ_SEND) + content
        memory[base : base + 8] = ((tail + padding + stride) % 2**64).to_bytes(8, "little")
        self.session.call()
        return True

    def number(self, bits: int = 64) -> int:
        return (self.rng.choice(NUMBERS) + self.rng.choice((0, 0, 0, 1, 8))) % (1 << bits)

    def garbage(self, size: int) -> bytes:
        kind = self.rng.randrange(4)
        if kind == 0:
            return self.rng.randbytes(size)
        if kind == 1:
            return bytes([self.rng.choice((0, 1, 8, 255))]) * size
        if kind == 2:
            return bytes(self.rng.choices((0, 1, 8, 24, 255), k=size))
        return (struct.pack("<QQ", self.number(), self.number()) * (size // 16 + 1))[:size]

    def _open(self) -> RawSession:
        capacity = self.rng.choice((4096, 65536, 1 << 20))
        return RawSession(self.client, window=self.rng.choice((1, 16, 4096)), sq_capacity=capacity, queue_capacity=64)


# ---- the session's memory


def scribble(me: Attacker) -> None:
    """Garbage over a part of the session, header, bell and lock included, or over all of it."""
    size = len(me.session.memory)
    begin = me.rng.randrange(size)
    end = min(size, begin + me.rng.choice((1, 8, 64, 4096, size)))
    me.session.memory[begin:end] = me.garbage(end - begin)
    me.session.call()
    me.session.call_notifier()


def lie_about_positions(me: Attacker) -> None:
    """Tail and head anywhere, also back where they were, so that messages of old sequence numbers come again."""
    base = me.session.ring_offset
    for at in (0, 64):
        if me.rng.random() < 0.7:
            old = int.from_bytes(me.session.memory[base + at : base + at + 8], "little")
            new = me.rng.choice((me.number(), (old + me.number()) % 2**64, max(0, old - 4096), (old + 32) % 2**64))
            me.session.memory[base + at : base + at + 8] = new.to_bytes(8, "little")
    me.session.call()


def lie_about_lengths(me: Attacker) -> None:
    """Records whose headers contradict the ring, and frames that contradict their records."""
    base = me.session.ring_offset + RING_LINES
    capacity = int(me.session.shape.sq_capacity)
    for at in range(0, capacity, me.rng.choice((8, 32, 1024, 4096))):
        me.session.memory[base + at : base + at + 8] = struct.pack("<II", me.number(32), me.rng.choice((0, 1, 1, 2, 2**32 - 1)))
    tail = me.rng.randrange(0, capacity + 1, 8)
    me.session.memory[base - RING_LINES : base - RING_LINES + 8] = tail.to_bytes(8, "little")
    me.session.call()


def lie_in_frames(me: Attacker) -> None:
    """Well-formed records with frames that promise too much."""
    fields = [me.number(32) for _ in range(6)]
    inner = MESSAGE.pack(*fields) + me.garbage(me.rng.randrange(0, 200))
    head = me.session.frame(TOPIC, count=me.number(32), flags=me.number(32))
    if me.rng.random() < 0.3:
        head = FRAME.pack(me.number(32), me.number(32), me.number(32), me.number(32), me.number())
    me.put(head + me.rng.choice((b"", inner, inner * 3, message(b"x") + inner)))


def delay_anything(me: Attacker) -> None:
    """Delayed messages of any level or time, with names in their properties that only the broker may set, and others; and
    records that cancel what is waiting, themselves, each other, or nothing."""
    me.client.connection.ask("prepare_waiting", topic=me.rng.choice(DELAY_TOPICS))
    me.client.connection.ask("prepare_replies")
    number = me.rng.choice((me.number(), me.rng.randrange(100))).to_bytes(8, sys.byteorder)
    wishes = (b"DELAY\x013", b"REAL_TOPIC\x01ledger\x02REAL_QID\x010", b"MSG_TYPE\x01reply")
    names = (b"", b"K\x01v\x02", *wishes, me.garbage(20), number)
    for _ in range(20):
        properties, body = me.rng.choice(names), me.rng.randbytes(me.rng.choice((0, 10, 900)))
        fields = (len(body), len(properties), me.rng.choice((0, 1, 99)), 0, 0, me.rng.choice((*LEVELS, me.number(32))))
        content = MESSAGE.pack(*fields) + properties + body
        me.put(me.session.frame(TOPIC, content + bytes(-len(content) % 8)))


def promise_more(me: Attacker) -> None:
    """A message that claims bytes behind its record: the session is given up for it, and the bytes are not stored."""
    fresh = RawSession(me.client, window=16, sq_capacity=4096)
    fresh.put(fresh.frame(TOPIC, MESSAGE.pack(me.rng.choice((1, 100, 900)), 0, 0, 0, 0, 0)))
    until(lambda: fresh.state != READY, "a session to be given up")
    fresh.close()


def flood(me: Attacker) -> None:
    """As much as the ring holds, again and again, beyond its window, and no verdict is ever read."""
    body = me.rng.randbytes(me.rng.choice((0, 10, 900)))
    flags = me.rng.choice((0, 1))
    for _ in range(200):
        messages = [message(body, queue=me.rng.choice((0, 0, 0, 99)))] * me.rng.choice((1, 30))
        if not me.put(me.session.frame(TOPIC, *messages, flags=flags)):
            me.session.call()


def run_in_circles(me: Attacker) -> None:
    """A ring full of frames without a message, whose tail is moved on as long as the handler takes them."""
    frame = struct.pack("<II", 32, 1) + me.session.frame(TOPIC)
    base, capacity = me.session.ring_offset, int(me.session.shape.sq_capacity)
    me.session.memory[base + RING_LINES : base + RING_LINES + capacity] = frame * (capacity // 32)
    for _ in range(20_000):
        head = int.from_bytes(me.session.memory[base + 64 : base + 72], "little")
        me.session.memory[base : base + 8] = (head + capacity // 2 & ~31).to_bytes(8, "little")
    me.session.call()


def change_while_read(me: Attacker) -> None:
    """A frame's sizes and bodies change as fast as this process can change them while the handler copies them."""
    body = bytes(min(3000, int(me.session.shape.sq_capacity) // 8))
    frame = me.session.frame(TOPIC, message(body, b"K\x01v"))
    done = threading.Event()

    def change() -> None:
        rng = random.Random(1)
        while not done.is_set():
            session = me.session  # another one after each that the broker has given up
            at = session.ring_offset + RING_LINES + rng.randrange(int(session.shape.sq_capacity) - 4)
            session.memory[at : at + 4] = rng.randbytes(4)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            me.put(frame)
            me.renew()
    finally:
        done.set()
        thread.join()


def forge_verdicts(me: Attacker) -> None:
    """What the broker tells this client, and the locks and bells of its threads."""
    parts = me.session.parts
    at = me.session.offset_of(parts.slots)
    me.session.memory[at : at + 32] = me.garbage(32)
    for where in range(64, at, 8):  # shape, bell, completed, interests' words, stalled, lock
        if me.rng.random() < 0.3:
            me.session.memory[where : where + 8] = me.number().to_bytes(8, "little")


def ask_for_everything(me: Attacker) -> None:
    """Interests in queues that do not exist, one queue many times, more of them than there is room for; and commits of a member
    of no group."""
    parts = me.session.parts
    interest = me.session.offset_of(parts.sq) + RING_LINES + int(me.session.shape.sq_capacity)
    offsets = interest + 64 * 4
    numbers = [me.rng.choice((0, 1, 2, me.number(32))) for _ in range(64)]
    me.session.memory[interest : interest + 256] = struct.pack("<64I", *numbers)
    me.session.memory[offsets : offsets + 512] = me.garbage(512)
    line = 64 * 4
    me.session.memory[line : line + 64] = struct.pack("<II", me.number(32), me.number(32)) + me.garbage(56)
    me.session.call_notifier()


def hold_the_lock(me: Attacker) -> None:
    """Dies with the session's lock, and perhaps half of a record."""
    word = lib.lock_self()
    at = me.session.offset_of(me.session.parts.slots) - 64
    me.session.memory[at : at + 8] = word.to_bytes(8, "little")
    if me.rng.random() < 0.1:
        os.kill(os.getpid(), signal.SIGKILL)


# ---- the file that it commits in


def spoil_commits(me: Attacker) -> None:
    """Joins a group, and makes its file longer or shorter, or fills it with garbage. The broker removes it, or ignores invalid
    values, and no file stays longer than it was made."""
    fresh = RawSession(me.client, window=1, sq_capacity=4096, queue_capacity=me.rng.choice((2, 64)))
    who: dict[str, Any] = {"slot": fresh.slot, "epoch": fresh.epoch, "group": f"hostile-{os.getpid()}"}
    who["generation"] = fresh.attachment.generation
    _, (descriptor,) = me.client.connection._ask("join_group", {**who, "topics": [TOPIC]})
    path = StoreLayout.at(fresh.attachment.store).commits / f"{fresh.slot}.{fresh.epoch}"
    size = os.fstat(descriptor).st_size
    os.pwrite(descriptor, me.garbage(size - 64), 64)
    if me.rng.random() < 0.7:
        os.ftruncate(descriptor, me.rng.choice((0, 8, size - 1, size + 1, 1 << 40)))
    if me.rng.random() < 0.5:
        os.posix_fallocate(descriptor, 0, 8 << 20)
    if me.rng.random() < 0.3:
        os.pwrite(descriptor, me.garbage(64), 0)
    leased = False
    if me.rng.random() < 0.3:
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        with suppress(OSError):
            leased = fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK) == 0
    me.client.connection._ask("committed", {"group": who["group"]})
    if path.exists():
        assert path.stat().st_size == size, "the broker goes on with a file of another length"
    elif not leased:
        assert os.fstat(descriptor).st_size < 1 << 20, "what it takes of the disk stays taken"
    os.close(descriptor)
    fresh.close()


# ---- the memory itself


def resize(me: Attacker) -> None:
    """Neither shorter nor longer, by any call; and none of the seals can be removed."""
    descriptor, size = me.session.descriptor, len(me.session.memory)
    wake = me.client.connection._ask("wake_words", {})[1][0]
    for victim in (descriptor, wake):
        for length in (0, 1, size - 1, size + 4096):
            _must_fail(lambda: os.ftruncate(victim, length))
        _must_fail(lambda: os.posix_fallocate(victim, 1 << 26, 4096))
        for seal in (fcntl.F_SEAL_WRITE, fcntl.F_SEAL_SHRINK):
            _must_fail(lambda: fcntl.fcntl(victim, fcntl.F_ADD_SEALS, seal))
    os.close(wake)


def punch_holes(me: Attacker) -> None:
    """The memory's pages are given back while the broker has them mapped."""
    size = len(me.session.memory)
    descriptor = os.open(f"/proc/self/fd/{me.session.descriptor}", os.O_RDWR)
    for _ in range(3):
        begin = me.rng.randrange(0, size, 4096)
        assert _punch(descriptor, begin, size - begin) == 0
        me.session.call()
    os.close(descriptor)


def take_a_lease(me: Attacker, certain: bool = False) -> None:
    """The next process that opens the memory would have to wait for the lease to be broken. certain: no process was faster."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fresh = RawSession(me.client, window=1, sq_capacity=4096)
    descriptor = os.open(f"/proc/self/fd/{fresh.descriptor}", os.O_RDWR)
    with suppress(*(() if certain else (OSError,))):
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    fresh.put(fresh.frame(TOPIC, message(b"leased")))
    me.held.append(fresh)


# ---- the wake words


def wake_bytes(me: Attacker) -> Any:
    return ffi.buffer(ffi.cast("uint8_t *", me.session.attachment.wake), ffi.sizeof("struct wake"))


def scribble_wake_words(me: Attacker) -> None:
    """Bells and news bits of everybody, header included."""
    wake = wake_bytes(me)
    for _ in range(me.rng.choice((1, 50))):
        begin = me.rng.randrange(0, len(wake) - 8, 8)
        end = min(len(wake), begin + me.rng.choice((8, 64, 4096)))
        wake[begin:end] = me.garbage(end - begin)


# ---- the control socket


def knock(me: Attacker) -> socket.socket:
    """Raises: Full: too many clients wait at the door."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(5)
    try:
        sock.connect(str(runtime.socket_path(me.broker)))
    except BlockingIOError:
        sock.close()
        raise Full("cannot connect, the listener's backlog is full") from None
    return sock


def talk_nonsense(me: Attacker) -> None:
    """Bytes that are not frames, invalid lengths, msgpack that is invalid or not a map, a frame that never ends."""
    deep = b"\x91" * 100_000
    choices: list[bytes] = [
        me.garbage(200),
        struct.pack(">I", me.number(32)) + me.garbage(100),
        struct.pack(">I", len(deep)) + deep,
        struct.pack(">I", 1 << 20) + b"\x90" * (1 << 20),
        struct.pack(">I", 5) + b"\xc1\xc1\xc1\xc1\xc1",
        struct.pack(">I", 2) + msgpack.packb([1]),
        struct.pack(">I", 3) + msgpack.packb({1: 2}),
        struct.pack(">I", 1000) + b"half",
    ]
    with knock(me) as sock, suppress(OSError):
        for _ in range(me.rng.randrange(1, 5)):
            sock.sendall(me.rng.choice(choices))
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass


OPERATIONS = (
    "hello", "wake_words", "open_session", "close_session", "create_topic", "adopt_topic", "topics", "join_group", "assignment",
    "leave_group", "committed", "status", "groups", "clients", "reset_group", "speak_for_group", "pause_group", "delete_group",
    "report_group", "shape_group", "permit", "purge_topic", "delete_topic", "lock_queues", "unlock_queues", "keep_session",
    "perform", "__init__", "_session", "serve", "take_back", "no such thing",
)  # fmt: skip
FIELDS = (
    "pid", "started", "window", "sq_capacity", "queue_capacity", "message_max", "slot", "epoch", "name", "queues", "perm",
    "group", "topics", "start", "id", "retention_hours", "durability",
    "offsets", "paused", "floors", "broadcast", "locked", "owner", "lease_ms", "settings",
)  # fmt: skip


def ask_wrongly(me: Attacker) -> None:
    """Every operation with fields of any kind. It may create a topic by accident."""
    values: list[Any] = [None, True, -1, me.number(), 1.5, float("nan"), "", "x" * 300, "../..", "\0", b"\xff"]
    values += [[], [[]], ["t"], {}, {"a": []}]
    with knock(me) as sock, suppress(OSError):
        if me.rng.random() < 0.8:
            frames.send(sock, {"op": "hello", "id": 0, **runtime.introduction()})
        for number in range(30):
            asked = {name: me.rng.choice(values) for name in FIELDS if me.rng.random() < 0.6}
            frames.send(sock, {"op": me.rng.choice(OPERATIONS), "id": number, **asked})
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass


def ask_without_listening(me: Attacker) -> None:
    """Thousands of questions whose answers are never read, and the connection is left as it is."""
    sock = knock(me)
    sock.setblocking(False)
    frames_of = frames.pack({"op": "status", "id": 1}) * 200
    with suppress(OSError):
        sock.send(frames.pack({"op": "hello", "id": 0, **runtime.introduction()}))
        for _ in range(100):
            sock.send(frames_of)
    me.held.append(sock)


def send_descriptors(me: Attacker) -> None:
    """Descriptors with every byte."""
    with knock(me) as sock, suppress(OSError):
        for _ in range(20):
            socket.send_fds(sock, [b"\0"], [0, 1, 2, sock.fileno()])


def want_too_much(me: Attacker) -> None:
    """Sessions and connections until there are no more for this process."""
    with suppress(Full, OSError):
        for _ in range(200):
            me.held.append(RawSession(me.client, window=1, sq_capacity=4096))
    with suppress(Full, OSError):
        for _ in range(200):
            me.held.append(knock(me))


DEEDS: tuple[Callable[[Attacker], None], ...] = (
    scribble, lie_about_positions, lie_about_lengths, lie_in_frames, delay_anything, promise_more, flood, run_in_circles,
    change_while_read, forge_verdicts, ask_for_everything, hold_the_lock, spoil_commits, resize, punch_holes, take_a_lease,
    scribble_wake_words, talk_nonsense, ask_wrongly, ask_without_listening, send_descriptors, want_too_much,
)  # fmt: skip


def attack(broker: str, seed: int, deeds: int, log: Path, only: str | None = None) -> None:
    """So many deeds. If something succeeds that must not be possible, the process ends with code 3."""
    try:
        me = Attacker(broker, seed)
        chosen = [deed for deed in DEEDS if only is None or deed.__name__ == only]
        with log.open("w", buffering=1) as told:
            for _ in range(deeds):
                deed = me.rng.choice(chosen)
                told.write(f"{deed.__name__}\n")
                with suppress(Full):  # an answer like any other
                    me.renew()
                    deed(me)
            told.write("done\n")
    except BaseException:
        traceback.print_exc(file=sys.stderr)
        os._exit(3)
    os._exit(0)


def start(broker: str, seed: int, deeds: int, log: Path, only: str | None = None) -> multiprocessing.process.BaseProcess:
    process = FORK.Process(target=attack, args=(broker, seed, deeds, log, only), daemon=True)
    process.start()
    return process


def _must_fail(attempt: Callable[[], Any]) -> None:
    try:
        attempt()
    except OSError:
        return
    raise AssertionError("the kernel let it pass")


def _punch(descriptor: int, offset: int, size: int) -> int:
    call = ctypes.CDLL(None, use_errno=True).fallocate64
    result: int = call(descriptor, PUNCH_HOLE, ctypes.c_int64(offset), ctypes.c_int64(size))
    return result
