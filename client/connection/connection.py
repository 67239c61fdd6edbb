"""The connection of one process to one broker. Everything that a Client makes uses it.

It connects when it is first needed. It connects again when the coordinator has died, whose successor answers on the same
socket, and in a forked child. If the broker was started again under the same name, the next question attaches to the new one; a
caller that has patience waits for it (`outlast`).

Questions to the coordinator take turns (native/python/turns.c). Anything may come in the middle of a turn:

    another thread       waits for its turn, for as long as its own question may take
    a signal handler     interrupts the turn of its own thread, so its question goes over a socket of its own
    a finalizer          may run anywhere and must not ask: it leaves a note for the holder of the turn, or for the next one
    `close`              waits for nobody: it ends the waits of those who are inside
"""

from __future__ import annotations

import errno
import mmap
import os
import time
import weakref
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, NamedTuple, NoReturn, TypeVar

from orbitmq.client.argument import seconds
from orbitmq.client.connection.absence import Absence, given_up
from orbitmq.client.connection.attachment import Attachment
from orbitmq.client.connection.bell import Bell
from orbitmq.client.connection.opened_session import Note, Opened, closing_of, session_handle
from orbitmq.client.connection.session import SessionHandle
from orbitmq.client.connection.whereabouts import Whereabouts
from orbitmq.errors import BrokerNotRunning, BrokerStopped, Closed, NoMeans, OrbitError, SettingError, TimedOut
from orbitmq.errors.remedy import hint
from orbitmq.native._core import ffi
from orbitmq.native._types import Taken, Turns
from orbitmq.shm import runtime
from orbitmq.shm.apart import check_reach
from orbitmq.shm.control_socket import Answer, ControlSocket
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.means import lacking

# Pause between two looks for a coordinator that is being restarted. The process to wait on is the supervisor, which restarts
# it.
LOOK_S = 0.01

_Result = TypeVar("_Result")
_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


class Line(NamedTuple):
    """A control socket and the tree at its other end. posted: notes that may not have been sent completely."""

    attachment: Attachment
    socket: ControlSocket
    posted: list[Note]

    @property
    def generation(self) -> int:
        return self.attachment.generation


class Question(NamedTuple):
    """One question. deadline: for its answer (time.monotonic). opened: of "open_session": gets each session that the
    coordinator may keep for this process, as soon as it may; the asker closes its descriptors."""

    operation: str
    fields: dict[str, Any]
    generation: int | None
    deadline: float
    opened: list[Opened]


class Connection:
    """See client/connection/session.py, SessionOpener.

    timeout: seconds that a question may wait for its answer. wait: seconds that a question may wait, before that, for an absent
        broker."""

    def __init__(self, whereabouts: Whereabouts, timeout: float, wait: float = 0.0) -> None:
        self._whereabouts = whereabouts
        self.timeout = seconds(timeout, "connect")
        self.wait = wait
        self._turns = Turns()
        self._attachment: Attachment | None = None
        self._line: Line | None = None
        self._open: list[ControlSocket] = []  # a thread may be inside one of these; `close` interrupts it
        self._notes: deque[Note] = deque()
        self._closing = Bell()
        self.calls: dict[int, Any] = {}  # by process: what its requests and replies use (request/calls.py)
        _connections.add(self)

    @property
    def name(self) -> str:
        return self._whereabouts.name

    @property
    def attachment(self) -> Attachment:
        """The mappings of the tree that runs now.

        Raises: BrokerNotRunning: no broker answers; Closed.
        """
        return self.attach(self.wait)

    def attach(self, wait: float = 0.0) -> Attachment:
        """The same, with other limits of waiting."""
        return self.outlast(self._attached, wait)

    def ask(self, operation: str, **fields: Any) -> Any:
        """One question to the coordinator. It is asked again if the coordinator dies before it answers, so operations must bear
        being repeated. With a `generation`, the question is for that tree alone and is never put to a later one: a session
        belongs to one tree.

        Raises: what the broker answers; BrokerNotRunning, BrokerStopped, TimedOut, Closed.
        """
        value, descriptors = self._ask(operation, fields)
        _close(descriptors)
        return value

    def note(self, note: Note) -> None:
        """Sends a question without waiting for anything, and without getting an answer. For finalizers."""
        self._notes.append(note)
        self._tidy()

    def tell_apart(self, note: Note) -> None:
        """The same on a socket of its own, for a thread that still uses something while another thread has closed this
        connection."""
        path = self._whereabouts.socket_path(note.attachment.description)
        with suppress(OSError, OrbitError), closing(ControlSocket(path, self.timeout)) as line:
            if line.greet(self.timeout)["generation"] == note.generation:
                line.ask(note.operation, self.timeout, **note.fields)

    def ask_for_file(self, operation: str, **fields: Any) -> tuple[Any, int]:
        """The same for an answer that brings a file. The caller closes the descriptor."""
        value, descriptors = self._ask(operation, fields)
        return value, _only(descriptors)

    def open_session(
        self, *, window: int = 0, sq_capacity: int = 0, message_max: int = 0, queue_capacity: int = 0, work_capacity: int = 0
    ) -> SessionHandle:
        sizes = {"window": window, "sq_capacity": sq_capacity, "message_max": message_max, "queue_capacity": queue_capacity}
        sizes["work_capacity"] = work_capacity
        return self.outlast(lambda: self._open_session(sizes), 0.0)

    def open_session_now(self, **sizes: int) -> SessionHandle:
        """The same without waiting for a broker that is starting; for attempts of `outlast`."""
        return self._open_session(sizes)

    def attach_wake(self) -> Attachment:
        """The mappings with the wake words, on which one sleeps until something happens. Raises: as `attachment`."""
        return self.outlast(lambda: self._with_wake(self._attached()), self.wait)

    def caught_up(self, doing: str, *, partly: bool = False) -> Attachment:
        """The mappings, once the queues and the index have all that was acknowledged before this call.

        doing, partly: as Attachment.wait_caught_up. Raises: as `attachment`; TimedOut."""
        attachment = self.attachment
        attachment.wait_caught_up(self.timeout, doing, partly=partly)
        return attachment

    def outlast(self, attempt: Callable[[], _Result], wait: float, *bells: Bell, starting: float | None = None) -> _Result:
        """Returns what `attempt` gives. While it finds no broker, it is tried again whenever a broker may have come, for so
        many seconds from now, or from when the broker went.

        starting: least number of seconds to wait for a broker that is starting; None: the connection's timeout.
        bells: each ends the wait, as does the end of this connection. Raises: what `attempt` raises; Closed: a bell was rung.
        """
        least = self.timeout if starting is None else starting
        begun = time.monotonic()
        try:
            return attempt()
        except (BrokerNotRunning, BrokerStopped) as error:
            if isinstance(error, BrokerStopped):
                begun = time.monotonic()
            if _patience(error, wait, least) <= 0:
                raise
        watched = (self._closing, *bells, *filter(None, [given_up.get()]))
        with Absence(self._whereabouts.folder, watched) as absence:
            while True:
                try:
                    return attempt()
                except (BrokerNotRunning, BrokerStopped) as error:
                    left = begun + _patience(error, wait, least) - time.monotonic()
                    if left <= 0:
                        raise _in_vain(error, wait) from None
                absence.pause(left)
                if absence.over:
                    why = "the client, producer, consumer or worker was closed meanwhile"
                    text = f"could not wait for the broker {self.name!r}: {why}"
                    raise Closed(text, hint="connect again")

    def close(self) -> None:
        """Ends the connection. Sessions stay until they are closed, or until this process ends. Any thread and any signal
        handler may call this; threads that are inside a call are told at once."""
        self._closing.ring()
        for each in list(self._open):
            each.interrupt()
        self._tidy()

    # ---- one question

    def _ask(self, operation: str, fields: dict[str, Any]) -> Answer:
        generation = fields.pop("generation", None)
        if generation is not None:
            return self._question(operation, fields, generation)[0]
        return self.outlast(lambda: self._question(operation, fields)[0], self.wait)

    def _question(
        self, operation: str, fields: dict[str, Any], generation: int | None = None, opened: list[Opened] | None = None
    ) -> tuple[Answer, Attachment]:
        """The answer, and the tree that gave it. Parameters: see Question."""
        question = Question(operation, fields, generation, time.monotonic() + self.timeout, [] if opened is None else opened)
        turns = self._turns
        try:
            with turns.within(self.timeout) as depth:
                if depth > 1:  # this thread is in the middle of another turn, whose socket must not be touched
                    return self._asked(question, nested=True)
                try:
                    return self._asked(question, nested=False)
                except OrbitError:
                    raise
                except BaseException:
                    if operation == "open_session" and not question.opened:
                        self._drop_line()  # the end of the connection takes back a session that did not come
                    raise
                finally:
                    if self._line is not None and not self._line.socket.whole and turns is self._turns:
                        self._drop_line()
        except Taken:
            self._too_late(operation)
        finally:
            self._tidy()

    def _asked(self, question: Question, *, nested: bool) -> tuple[Answer, Attachment]:
        operation, generation = question.operation, question.generation
        while True:
            attachment = self._attached() if generation is None else self._attached_to(generation, operation)
            left = question.deadline - time.monotonic()
            if left <= 0:
                self._too_late(operation)
            try:
                if nested:
                    with closing(self._connected(attachment, left)) as own:
                        return self._answer(own, attachment, question), attachment
                return self._answer(self._lined(attachment, left), attachment, question), attachment
            except OrbitError:
                raise
            except TimeoutError:
                self._too_late(operation)
            except OSError as error:
                if isinstance(lacking(error, operation), NoMeans):
                    raise  # this process's own fault: the coordinator has nothing to do with it
                if isinstance(error, PermissionError):
                    raise self._whereabouts.refused() from None
                if not attachment.alive():
                    raise self._stopped(operation) from None
                # The coordinator has died. Its successor is being started, or is about to be.
                attachment.pause(LOOK_S)

    def _answer(self, line: ControlSocket, attachment: Attachment, question: Question) -> Answer:
        answer = line.ask(question.operation, _left(question.deadline), **question.fields)
        if question.operation == "open_session":
            shape, descriptors = answer
            session = Opened(closing_of(attachment, shape), descriptors)
            question.opened.append(session)
            try:
                line.keep(shape, _left(question.deadline))
            except OSError:
                # Another one may be opened. Nobody knows whether the coordinator has kept this one.
                self._notes.append(session.closing)
                question.opened.remove(session)
                _close(descriptors)
                raise
        return answer

    def _lined(self, attachment: Attachment, timeout: float) -> ControlSocket:
        """The socket to this tree. Notes that were left meanwhile are sent first."""
        line = self._line
        if line is None or line.generation != attachment.generation or not line.socket.whole:
            self._drop_line()
            line = self._line = Line(attachment, self._connected(attachment, timeout), [])
        self._post_notes(line)
        return line.socket

    def _connected(self, attachment: Attachment, timeout: float) -> ControlSocket:
        """A new socket to this tree. Raises: ConnectionResetError: another tree answers there."""
        deadline = time.monotonic() + timeout
        line = ControlSocket(self._whereabouts.socket_path(attachment.description), timeout)
        try:
            self._open[:] = [line, *(each for each in self._open if not each.closed)]
            self._check_open()
            if line.greet(max(0.0, deadline - time.monotonic()))["generation"] != attachment.generation:
                self._attachment = None
                raise ConnectionResetError("another tree answers under this name")
        except BaseException:
            line.close()
            raise
        return line

    def _drop_line(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            if line.socket.unsent:  # these may be lost with it; those that were sent do no harm when they are sent again
                self._notes.extendleft(reversed(line.posted))
            line.socket.close()

    # ---- what nobody waits for

    def _tidy(self) -> None:
        """Does what others had to leave because somebody had the turn. If somebody has it now, that thread does it after its
        turn."""
        while self._notes or (self._closing.rung and self._line is not None):
            try:
                with self._turns.within(0) as depth:
                    if depth > 1:
                        return
                    posted = True
                    if self._closing.rung:
                        self._post_notes(self._line)
                        self._drop_line()
                        self._attachment = None
                        while self._notes:
                            # There is no socket any more, and a finalizer may not wait for one.
                            with suppress(RuntimeError):  # this process is ending, and its sessions end with it
                                start_new_thread(self.tell_apart, (self._notes.popleft(),))
                    else:
                        posted = self._post_notes(self._line)
            except Taken:
                return
            # Looked at after the turn: a thread that closes the connection now gets it.
            if not posted and not self._closing.rung:
                return

    def _post_notes(self, line: Line | None) -> bool:
        """False when there is no socket to send it on yet."""
        if line is None or not line.socket.whole:
            return False
        while self._notes:
            note = self._notes[0]
            if note.generation == line.generation:
                line.posted.append(note)
                with suppress(OSError):
                    line.socket.post(note.operation, **note.fields)
                if not line.socket.unsent:
                    line.posted.clear()
            # Removed after it was sent: a signal may cause it to be sent twice, which is harmless; if it were not sent, a
            # session would be left behind.
            if self._notes and self._notes[0] is note:
                self._notes.popleft()
        return True

    # ---- attaching

    def _attached(self) -> Attachment:
        self._check_open()
        attachment = self._attachment
        if attachment is None or not attachment.alive():
            attachment = self._attachment = self._attach()
        return attachment

    def _attached_to(self, generation: int, operation: str) -> Attachment:
        with suppress(BrokerNotRunning):
            attachment = self._attached()
            if attachment.generation == generation:
                return attachment
        raise self._stopped(operation)

    def _attach(self) -> Attachment:
        """Raises: BrokerNotRunning; its `starting` says whether a broker is about to come, or about to go. SettingError: this
        process shares too little with the broker."""
        description = self._whereabouts.describe()
        if description is not None:
            check_reach(description, self._whereabouts.socket_path(description))
        running = description is not None and runtime.lives(description)
        if description is not None and running and description.generation:
            with suppress(BrokerStopped, BrokerNotRunning):
                attachment = Attachment(description)
                if attachment.alive():
                    return attachment
        raise self._whereabouts.absent(running)

    def _with_wake(self, attachment: Attachment) -> Attachment:
        if attachment.wake == ffi.NULL:
            (_, descriptors), _ = self._question("wake_words", {}, attachment.generation)
            try:
                attachment.map_wake(_only(descriptors))
            finally:
                _close(descriptors)
        return attachment

    def _open_session(self, sizes: dict[str, int]) -> SessionHandle:
        opened: list[Opened] = []
        try:
            (shape, descriptors), attachment = self._question("open_session", sizes, None, opened)
            crash_point("connection_opened")
            self._with_wake(attachment)
            # A producer's pages, megabytes, are made ready as it comes to them (native/client/sender.c).
            now = 0 if shape["window"] else mmap.MAP_POPULATE
            memory = mmap.mmap(_only(descriptors), 0, flags=mmap.MAP_SHARED | now)
            crash_point("connection_mapped")
            return session_handle(self, attachment, shape, memory)
        except BaseException:
            # A process may have a limited number of sessions, so a session that nobody owns must not stay open.
            for each in opened:
                self.note(each.closing)
            raise
        finally:
            for each in opened:
                _close(each.descriptors)

    # ---- words

    def _check_open(self) -> None:
        if self._closing.rung:
            raise Closed(f"could not use this connection to the broker {self.name!r}: it was closed", hint="connect again")

    def _stopped(self, operation: str) -> BrokerStopped:
        text = f"could not {_doing(operation)}: the broker {self.name!r} stopped before it answered"
        again = "repeating this is safe, once a broker runs: orbitmq up"
        return BrokerStopped(text, hint=again, broker=self.name, operation=operation)

    def _too_late(self, operation: str) -> NoReturn:
        self._check_open()
        raise TimedOut(
            f"could not {_doing(operation)}: the broker {self.name!r} did not answer in {self.timeout:g} s",
            hint=hint("check with ps that its coordinator runs, and try again, which is safe || raise {timeout of connect}"),
            broker=self.name,
            operation=operation,
            timeout=self.timeout,
        ) from None

    def _forked(self) -> None:
        """In a forked child: nothing of the parent's may be used, and another thread of the parent may have had the turn."""
        was_closed = self._closing.rung
        self._turns = Turns()
        self._closing = Bell()
        self._closing.rung = was_closed
        self._notes.clear()
        for each in self._open:
            each.close()
        self._open.clear()
        self._line = None
        self._attachment = None


def _doing(operation: str) -> str:
    """What people call it."""
    return "connect" if operation == "hello" else " ".join(operation.split("_"))


def checked_wait(wait: float) -> float:
    """Raises: SettingError: this is not a number of seconds."""
    limit = seconds(wait, "wait for a broker", setting="wait")
    if limit >= 0:
        return limit
    text = f"could not wait {wait!r} for a broker: a number of seconds from 0 is needed"
    raise SettingError(text, setting="wait", value=wait)


def _patience(error: OrbitError, wait: float, starting: float) -> float:
    return max(wait, starting if isinstance(error, BrokerNotRunning) and error.starting else 0.0)


def _in_vain(error: OrbitError, wait: float) -> OrbitError:
    """Adds to the error how long the call waited."""
    if wait <= 0:
        return error
    text = f"{error.message}; it was waited for {wait:g} s"
    told = error.reworded(text)
    if isinstance(told, BrokerNotRunning):
        told.wait = wait
    return told


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _only(descriptors: tuple[int, ...]) -> int:
    """The descriptor that an answer carries. The kernel leaves it out if this process has no descriptor left."""
    if not descriptors:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return descriptors[0]


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _forked() -> None:
    for connection in list(_connections):
        connection._forked()


os.register_at_fork(after_in_child=_forked)
