"""The supervisor: a process of its own that starts the actors, watches them, restarts them, and stops them.

    python -m orbitmq.actors.supervisor.supervisor <settings, JSON> <descriptor>

It touches no ring, because it must outlive whatever corrupts one. All of its work is one poll loop in one thread, because it
forks. When it ends, the tree ends: every actor has a parent-death signal, and the kernel releases the lock of the store with
the last of them.

It gathers what the actors say, and writes it (event_log.py). SIGUSR1 has it reopen the log file.

Lines of JSON go to the descriptor, a socket, until the tree runs or has failed to start:
    {"progress": text}    {"ready": {"name":, "pid":, "generation":, "store":}}    {"error": ..., as in shm/frames.py}
A byte comes back when the tree may run without its starter (starter.py).
"""

from __future__ import annotations

import gc
import json
import logging
import os
import select
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from orbitmq.actors import events
from orbitmq.actors.actor import Stopping, live
from orbitmq.actors.catch_up import LOOK_S, CatchUp
from orbitmq.actors.news import News
from orbitmq.actors.pages import PAGE_DISPATCHER, PAGE_REPUT, PAGE_SUPERVISOR
from orbitmq.actors.post import Post
from orbitmq.actors.sessions.descriptor_store import DescriptorStore
from orbitmq.actors.supervisor import ground
from orbitmq.actors.supervisor.child_output import ChildOutput
from orbitmq.actors.supervisor.children import Child, child_process
from orbitmq.actors.supervisor.descriptor_limit import raise_descriptor_limit
from orbitmq.actors.supervisor.event_log import EventLog
from orbitmq.actors.supervisor.recovery import run_recovery
from orbitmq.actors.supervisor.spec import ChildSpec, child_specs
from orbitmq.actors.supervisor.starter import Starter
from orbitmq.actors.tree import Tree
from orbitmq.errors import BrokerBroken, OrbitError
from orbitmq.errors.remedy import hint
from orbitmq.native._core import lib
from orbitmq.shm import runtime
from orbitmq.shm.counters import ActorState
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.death import Death
from orbitmq.shm.event import LEVELS
from orbitmq.shm.frames import error_map
from orbitmq.store.access import PRIVATE_UMASK
from orbitmq.store.file_places import misplaced
from orbitmq.store.file_system import disk_error
from orbitmq.store.layout import StoreLayout
from orbitmq.store.recovery.report import RecoveryReport
from orbitmq.store.recovery.table import Ending
from orbitmq.store.settings.setting_sources import VARIABLES, Resolved, resolve
from orbitmq.store.settings.setting_text import mistyped
from orbitmq.store.settings.tree_settings import TreeSettings

BEAT_S = 1.0  # longest wait between two heartbeats
ASK_AGAIN_S = 0.05  # when an actor is asked again to stop: the first signal may have come just before it went to sleep
_RINGERS = {PAGE_REPUT, PAGE_DISPATCHER}  # they end the gateways' sleep


class Supervisor:
    """One tree, from its first fork to its last file. allow_deletion: allowed even if it keeps less than the last one did.

    Raises (from every method that starts something): what prevents the start, ready for the starter of the broker.
    """

    def __init__(self, start: Resolved, ready: int, log: EventLog, *, allow_deletion: bool = False) -> None:
        self.settings = settings = start.settings
        self._log = log
        self._reopen_asked = False
        self._told = start.told
        self._allow_deletion = allow_deletion
        self._starter = Starter(ready)
        self._is_told = False
        self._look_at = 0.0
        self._selector = selectors.DefaultSelector()
        self._stop_asked = False
        self._broken: OrbitError | None = None
        self._news = News()
        self._descriptors = DescriptorStore()
        self._line: socket.socket | None = None
        self._post = Post()
        self._signal_pipe = self._catch_signals()
        self._owner = self._watch_owner()
        gateways = settings.gateways if settings.serves_remote else 0
        self._children = [Child(spec) for spec in child_specs(settings.lanes, together=settings.together, gateways=gateways)]
        self._ground: ground.Ground | None = None

    def run(self) -> int:
        """The tree's whole life. Returns the exit code."""
        self._show("supervisor")
        raise_descriptor_limit()
        self._ground = prepared = ground.Ground.take(self.settings)
        try:
            wakes = (self._signal_pipe, self._starter)
            output, lock = self._output("recovery"), prepared.lock.descriptor
            report = run_recovery(self.settings, lock, wakes, self._stopping_before, self._progress, output)
            if report is None or self._stopping():
                return 0
            usual = report.ending in (Ending.EMPTY, Ending.STOPPED)
            for line in [note.text for note in report.notes] if usual else report.lines():
                events.warn(line)
            prepared.build(report)
            if not self._allow_deletion:
                prepared.refuse_deletion()
            self._start_all(prepared.tree, report)
            self._watch()
            events.info("stops")
            clean = self._stop_all(prepared.tree) and prepared.close_cleanly()
            if clean:
                events.info("has stopped; the store is flushed and closed")
            if self._broken is None and not clean:
                raise BrokerBroken("the broker did not stop cleanly", hint="start it again: the next start recovers the store")
        finally:
            for child in self._children:
                self._kill(child)
            prepared.leave()
        if self._broken is not None:
            raise self._broken
        return 0

    # ---- starting

    def _start_all(self, tree: Tree, report: RecoveryReport) -> None:
        self._selector.register(self._signal_pipe, selectors.EVENT_READ, self._on_signal)
        self._selector.register(self._news.reader, selectors.EVENT_READ, self._on_news)
        if self._owner >= 0:
            self._selector.register(self._owner, selectors.EVENT_READ, self._on_owner_death)
        if self._starter.listens:
            self._selector.register(self._starter, selectors.EVENT_READ, self._on_starter)
        lib.actor_born(tree.control, PAGE_SUPERVISOR, b"supervisor")
        tree.set_state(PAGE_SUPERVISOR, ActorState.RUNNING)
        # What exists now is shared with every child for ever. The garbage collector must not touch it, or pages would be
        # copied. To collect first would touch all of it, and an import leaves hardly any garbage.
        gc.freeze()
        for child in self._children:
            self._fork(child)
        deadline = time.monotonic() + self.settings.start_grace_s
        while not self._stopping() and not all(child.running for child in self._children):
            if time.monotonic() > deadline:
                late = ", ".join(child.spec.id for child in self._children if not child.running)
                raise BrokerBroken(
                    f"could not start the broker: after {self.settings.start_grace_s:g} s these processes do not run: {late}",
                    hint=hint("start it again, which is safe || on a slow machine raise {start_grace_s of broker}"),
                )
            self._poll(BEAT_S)
        catch_up = CatchUp(tree, report, self.settings.start_grace_s, self._progress)
        while not self._stopping() and catch_up.lasts():
            self._poll(LOOK_S)
        if self._broken is not None:
            raise self._broken
        if not self._stopping():
            if catch_up.given_up:
                events.warn(f"reput made no progress for {self.settings.start_grace_s:g} s; queues end before the log does")
            crash_point("supervisor_started")
            assert self._ground is not None
            self._ground.caught_up()
            self._ground.remember(self._told)
            lib.control_set_tree_state(tree.control, lib.TREE_RUNNING)
            crash_point("supervisor_running")
            told = self._ground.describe()
            self._post.look(self._ground.presence.listener)
            self._is_told = True
            self._say({"ready": told})
            events.info(f"runs on the store {told['store']}", version=runtime.version(), generation=told["generation"])
            crash_point("supervisor_told")

    def _fork(self, child: Child) -> None:
        assert self._ground is not None
        tree, spec = self._ground.tree, child.spec
        for name, page in spec.roles:
            child.epoch = lib.actor_born(tree.control, page, name.encode())
        crash_point("supervisor_born")
        keep = {self._ground.lock.descriptor, self._news.writer}
        tree.keeper = tree.post = None
        if spec.serves:
            self._line, tree.keeper = self._fresh_line()
            tree.listener = self._ground.presence.listener
            tree.post = self._post.fresh(tree.listener)
            keep |= {tree.listener.fileno(), tree.keeper.fileno(), tree.post.fileno(), tree.wake_memfd}
        keep |= tree.of_gateways(spec.gateway, rings=bool(_RINGERS & set(spec.pages)))
        child.output = output = self._output(spec.id)
        child.pid = child_process(lambda: self._actor(spec, tree), keep, output)
        crash_point("supervisor_forked")
        self._selector.register(output, selectors.EVENT_READ, lambda: self._hear(output))
        events.debug(f"starts {spec.id} as process {child.pid}", life=child.epoch)
        child.pidfd = os.pidfd_open(child.pid)
        self._selector.register(child.pidfd, selectors.EVENT_READ, lambda: self._on_death(child))
        for end in (tree.keeper, tree.post):
            if end is not None:
                end.close()

    def _output(self, actor: str) -> ChildOutput:
        return ChildOutput(actor, self._log.write)

    def _hear(self, output: ChildOutput) -> None:
        if not output.hear():
            self._selector.unregister(output)

    def _actor(self, spec: ChildSpec, tree: Tree) -> int:
        """Runs in the child: an actor's whole life."""
        stopping = Stopping()
        self._show(spec.id)
        try:
            live(spec.start(tree), spec.pages, stopping, self._news.tell_running)
        except OrbitError as error:
            for page in spec.pages:
                tree.set_state(page, ActorState.FAILED, error.values.get("errno") or 0)
            self._news.tell_failed(error)
            return 1
        return 0

    def _fresh_line(self) -> tuple[socket.socket, socket.socket]:
        """A new pair for a new coordinator. What its predecessor may have left unread goes with the old one."""
        if self._line is not None:
            self._selector.unregister(self._line)
            self._line.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Answers fit the socket's buffer unless the coordinator has stopped reading; then it is given up, without a wait.
        ours.settimeout(2.0)
        self._selector.register(ours, selectors.EVENT_READ, self._on_line)
        return ours, theirs

    # ---- watching

    def _watch(self) -> None:
        while not self._stopping():
            self._poll(BEAT_S)
            if time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + BEAT_S
                self._look_after_names()

    def _look_after_names(self) -> None:
        """Other programs remove temporary folders and shared memory. What can be made again is made again. Without its segments
        no new client can attach, though connected clients continue, so the tree ends and can be started again."""
        assert self._ground is not None
        gone = self._ground.missing_segment()
        if gone is not None:
            self._broken = BrokerBroken(
                f"the broker {self.settings.name!r} cannot go on: another program removed its shared memory, {gone}",
                hint="systemd does that when the broker's user logs out (see RemoveIPC in logind.conf; loginctl enable-linger "
                "prevents it); start the broker again, nothing that was acknowledged is lost",
                path=str(gone),
            )
            events.error(f"another program removed this broker's shared memory, {gone}; stopping", path=str(gone))
            return
        self._ground.presence.look()
        if self._post.look(self._ground.presence.listener):
            crash_point("supervisor_posted")

    def _poll(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            key.data()
        if self._ground is not None:
            lib.actor_beat(self._ground.tree.control, PAGE_SUPERVISOR)
        self._log.flush()
        if self._reopen_asked:
            self._reopen_asked = False
            self._reopen()

    def _reopen(self) -> None:
        try:
            self._log.reopen()
        except OSError as error:
            events.warn(f"cannot reopen the log file, and goes on with the old one: {error}")

    def _stopping(self) -> bool:
        return self._stop_asked or self._broken is not None

    def _on_signal(self) -> None:
        os.read(self._signal_pipe, 4096)

    def _stopping_before(self) -> bool:
        """The same while the store is recovered, when nothing else is watched."""
        if self._starter.listens and select.select([self._starter], [], [], 0)[0]:
            self._hear_starter()
        return self._stopping()

    def _on_starter(self) -> None:
        self._selector.unregister(self._starter)
        self._hear_starter()

    def _hear_starter(self) -> None:
        self._starter.hear()
        self._stop_if_alone()

    def _stop_if_alone(self) -> None:
        if self._starter.is_gone and not self._stop_asked:
            events.warn("whoever started this broker has ended before it could be told that it runs; stopping")
            self._stop_asked = True

    def _on_owner_death(self) -> None:
        self._selector.unregister(self._owner)
        events.warn(f"process {self.settings.owner}, which started this broker, has ended; stopping")
        self._stop_asked = True

    def _on_line(self) -> None:
        assert self._line is not None
        if not self._descriptors.serve(self._line):
            self._selector.unregister(self._line)
            self._line.close()
            self._line = None

    def _on_news(self) -> None:
        for item in self._news.read():
            for child in self._children:
                if child.pid == item.pid:
                    child.running = child.running or item.error is None
                    child.failure = item.error

    def _on_death(self, child: Child) -> None:
        assert self._ground is not None
        self._on_news()
        self._selector.unregister(child.pidfd)
        started, death = child.running, self._reaped(child)
        crash_point("supervisor_reaped")
        for page in child.spec.pages:
            lib.actor_set_state(self._ground.tree.control, page, 0, ActorState.FAILED, 0)
        failure, child.failure = child.failure, None
        if failure is not None:
            death = replace(death, words=(*death.words, str(failure)))
        why = str(failure or death.ended)
        what = f"{death.actor} (process {death.pid})"
        if self._stopping():
            if failure is not None:
                events.error(f"{what} ended badly, {why}")
            return
        if failure is not None and not started and not self._is_told:
            # It cannot even start: the starter of the broker gets the reason itself.
            self._broken = failure
            return
        about: dict[str, Any] = {"died": death.actor, "process": death.pid, "life": death.life, "ended": death.ended}
        about |= {"last_words": list(death.words)} if death.words else {}
        if child.too_many(time.monotonic(), self.settings.restarts, self.settings.restart_period_s):
            self._broken = BrokerBroken(
                f"the {child.spec.id} died {len(child.deaths)} times within {self.settings.restart_period_s:g} s, last: {why}",
                hint="see the broker's log; the next start recovers the store",
                actor=child.spec.id,
                reason=why,
            )
            events.error(f"{what} died, {why}; stopping", **about)
            return
        self._ground.tree.deaths[death.actor] = death
        self._fork(child)
        crash_point("supervisor_restarted")
        events.error(f"{what} died, {why}; restarted as process {child.pid}, epoch {child.epoch}", **about)
        if not child.spec.serves:
            self._post.tell(death, self._ground.presence.listener)

    def _reaped(self, child: Child) -> Death:
        with suppress(KeyError, ValueError):
            if child.output is not None:
                self._selector.unregister(child.output)
        return child.reaped()

    # ---- stopping

    def _stop_all(self, tree: Tree) -> bool:
        """Stops the actors in reverse order. True if each of them finished its work and ended by itself."""
        lib.control_set_tree_state(tree.control, lib.TREE_STOPPING)
        crash_point("supervisor_stopping")
        tree.set_state(PAGE_SUPERVISOR, ActorState.STOPPING)
        clean = True
        for child in reversed(self._children):
            deadline = time.monotonic() + self.settings.stop_grace_s
            while child.alive and time.monotonic() < deadline:
                os.kill(child.pid, signal.SIGTERM)
                self._poll(ASK_AGAIN_S)
            if child.alive:
                events.error(
                    f"{child.spec.id} (process {child.pid}) did not stop within {self.settings.stop_grace_s:g} s; killed"
                )
                self._kill(child)
                clean = False
            clean = clean and child.ended_well
            crash_point("supervisor_stopped_one")
        lib.control_set_tree_state(tree.control, lib.TREE_STOPPED)
        crash_point("supervisor_stopped")
        return clean

    def _kill(self, child: Child) -> None:
        if child.alive:
            os.kill(child.pid, signal.SIGKILL)
            with suppress(KeyError):
                self._selector.unregister(child.pidfd)
            self._reaped(child)

    # ---- around it

    def _catch_signals(self) -> int:
        """SIGTERM, SIGINT and SIGHUP stop the tree, SIGUSR1 has the log file reopened; the pipe wakes the loop."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._ask_stop)
        signal.signal(signal.SIGUSR1, self._ask_reopen)
        return reader

    def _ask_stop(self, number: int, frame: object) -> None:
        self._stop_asked = True

    def _ask_reopen(self, number: int, frame: object) -> None:
        self._reopen_asked = True

    def _watch_owner(self) -> int:
        if self.settings.owner == 0:
            return -1
        try:
            return os.pidfd_open(self.settings.owner)
        except ProcessLookupError:
            self._stop_asked = True
            return -1

    def _show(self, role: str) -> None:
        """Sets this process's name in `ps`."""
        lib.process_name(f"omq {role}".encode(), f"orbitmq[{self.settings.name}] {role}".encode())

    def _progress(self, text: str) -> None:
        self._say({"progress": text})

    def _say(self, line: dict[str, Any]) -> bool:
        """Tells the starter of the broker. False if it does not listen any more, which is the end of a tree that it was not
        told about."""
        watched = self._starter.fileno()
        heard = self._starter.say(line)
        if self._starter.is_gone and watched >= 0 and watched in self._selector.get_map():
            self._selector.unregister(watched)
        self._stop_if_alone()
        return heard

    def refuse(self, error: OrbitError) -> None:
        """Tells the starter of the broker why it does not run, or the log why it runs no more."""
        if self._is_told or not self._say(error_map(error)):
            events.error(str(error))


def _begin_log(settings: TreeSettings, content: dict[str, Any]) -> EventLog:
    """Raises: SettingError: the log file cannot be written."""
    path = settings.log_file or content.get("log_file", "")
    log = EventLog(settings.name, settings.log_format, path, records=content.get("records", False))
    logging.getLogger().setLevel(LEVELS[settings.log_level])
    events.attach("supervisor", log.write)
    sys.excepthook = lambda _, error, __: events.error(f"ended by an exception: {error!r}", error)
    return log


def main(arguments: list[str]) -> int:
    content, ready = json.loads(arguments[0]), int(arguments[1])
    # Only this user may use what the tree makes; ground.py opens it to a group if there is one.
    os.umask(PRIVATE_UMASK)
    # A write to a pipe that nobody reads any more is then an error here, and not the end of the process.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    supervisor = log = None
    try:
        start = resolve(content["store"], content["options"], os.environ)
        log = _begin_log(start.settings, content)
        for name, meant in mistyped(VARIABLES, os.environ):
            events.warn(f"the environment's {name} is no setting; perhaps {meant} is meant")
        supervisor = Supervisor(start, ready, log, allow_deletion=content["allow_deletion"])
        return supervisor.run()
    except (OrbitError, OSError) as caught:
        store = content["store"]
        if isinstance(caught, OrbitError):
            error = caught
        elif isinstance(caught, IsADirectoryError) and caught.filename is not None:
            layout = StoreLayout.at(store)
            error = misplaced(layout.root, layout.files(), Path(os.fsdecode(caught.filename)))
        else:
            error = disk_error(caught, Path(store), 4096, f"the store {store}")
        if supervisor is not None:
            supervisor.refuse(error)
        else:
            os.write(ready, json.dumps(error_map(error)).encode() + b"\n")
        return 1
    finally:
        if log is not None:
            log.finish()


def main_process() -> NoReturn:
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # an interpreter's own end takes apart all that it has imported: a seventh of a start and a stop


if __name__ == "__main__":
    main_process()
