"""The questions of the control socket, one method each, and the code that answers them."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from orbitmq.actors.check_backs import AT_ONCE, Asked
from orbitmq.actors.coordinator.administration import Administration, session_map
from orbitmq.actors.coordinator.peer import Peer
from orbitmq.actors.expiry_clock import wall_clock_ms
from orbitmq.actors.groups.groups import check_group_name
from orbitmq.actors.groups.queue_locks import LEASE_MS
from orbitmq.actors.pages import PAGE_DISPATCHER, PAGE_GATEWAY, PAGE_REPUT
from orbitmq.actors.sessions.process_id import ProcessId
from orbitmq.actors.sessions.sessions import Session
from orbitmq.actors.work.filters import asked_filter
from orbitmq.errors import BrokerError, Full, NoPermission, OrbitError, ProtocolError
from orbitmq.native._core import lib
from orbitmq.shm import runtime
from orbitmq.shm.reply_topic import REPLY_TOPIC
from orbitmq.store.config import GROUPS, TOPICS
from orbitmq.store.delays import DELAY_TOPICS
from orbitmq.store.file_system import disk_error
from orbitmq.store.group_commits import COMMITS_TOPIC
from orbitmq.store.halves import OP_TOPIC, TRANSACTION_TOPICS
from orbitmq.store.settings.setting_change import change_settings
from orbitmq.store.settings.setting_sources import states

GATEWAY_SESSIONS = 257  # one to send, and POP_LINKS of native/remoting/gateway/gateway_parts.h

Answer = tuple[Any, tuple[int, ...]]


class Operations(Administration):
    """Every public method is an operation: it takes the peer and the question's map, and returns the answer's value, with
    descriptors if it sends some. It raises what the client is to raise."""

    def perform(self, peer: Peer, question: dict[str, Any]) -> Answer:
        """Raises: ProtocolError: there is no such operation, or a field is missing or not valid; what the operation raises."""
        name = question.get("op")
        if name != "keep_session":
            self.take_back(peer)
        operation = _OPERATIONS.get(name) if isinstance(name, str) else None
        if operation is None or not isinstance(name, str):
            raise ProtocolError(
                f"cannot do {name!r:.64}: version {runtime.version()} of the broker has no such operation",
                operation=f"{name!r:.64}",
            )
        _check_fields(name, question)
        if not peer.greeted and operation is not Operations.hello:
            raise ProtocolError(f"cannot do {name!r} before hello", operation=name)
        try:
            answer = operation(self, peer, question)
        except OrbitError:
            raise
        except KeyError as error:
            raise ProtocolError(f"cannot do {name!r}: the field {error} is missing", operation=name) from None
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise Full(
                    f"cannot do {name!r}: the coordinator has no file descriptors left: {error}",
                    hint="close clients that are not needed, or raise the hard limit of open files (ulimit -Hn) and start the "
                    "broker again",
                    limit="descriptors",
                ) from error
            raise disk_error(error, self._tree.settings.layout.config, 4096, self._written(name, question)) from error
        return answer if isinstance(answer, tuple) else (answer, ())

    def _written(self, operation: str, question: dict[str, Any]) -> str:
        """For errors: the file that could not be written, and why it was written."""
        folder = self._tree.settings.layout.config
        if operation in ("purge_topic", "delete_topic"):
            return f"what is gone of the topic {question['name']!r} in {self._tree.settings.layout.purged}"
        if operation in ("create_topic", "adopt_topic", "permit", "prepare_waiting", "prepare_replies"):
            topic = REPLY_TOPIC if operation == "prepare_replies" else question.get("name") or question["topic"]
            return f"the topic {topic!r} in {folder / TOPICS}"
        if operation == "configure":
            return f"the settings {self._tree.settings.layout.settings_toml}"
        if operation in ("lock_queues", "unlock_queues"):
            return f"the locks of the group {question['group']!r} in {self._tree.settings.layout.queue_locks}"
        if operation in ("join_group", "join_work", "prepare_retries", "pause_group", "shape_group", "delete_group"):
            return f"the group {question['group']!r} in {folder / GROUPS}"
        return f"the files of {folder}"

    def hello(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Notes the client's identity in its own words. The start time is part of it, because another process may have its
        number by now."""
        if ProcessId(question["pid"], question["started"]) != peer.process:
            raise BrokerError(
                f"cannot serve the client: it says that its pid is {question['pid']}, and the broker sees the pid {peer.pid}",
                hint="run the client in the broker's pid namespace; after a fork, connect again",
            )
        peer.greeted = True
        settings = self._tree.settings
        return {
            "version": runtime.version(),
            "name": settings.name,
            "generation": self._tree.generation,
            "supervisor": self._tree.supervisor_pid,
            "store": str(settings.layout.root),
        }

    def wake_words(self, peer: Peer, question: dict[str, Any]) -> Answer:
        """The answer with a descriptor of the wake words."""
        return None, (os.dup(self._tree.wake_memfd),)

    def open_session(self, peer: Peer, question: dict[str, Any]) -> Answer:
        """The session's shape, and its memory as a descriptor. The next question on this connection says that both have come
        (keep_session). Otherwise the session is taken back, because nobody may know of it."""
        names = ("window", "sq_capacity", "queue_capacity", "message_max", "work_capacity")
        sizes = {name: question.get(name, 0) for name in names}
        own = GATEWAY_SESSIONS if peer.pid == self._tree.page_pid(PAGE_GATEWAY) else None
        session, memfd = self._sessions.open(peer.process, peer.pidfd, caller=peer.caller, most=own, **sizes)
        peer.offered = session
        shape = session.shape
        return {name: int(getattr(shape, name)) for name in ("slot", "epoch", "pid", *names)}, (memfd,)

    def keep_session(self, peer: Peer, question: dict[str, Any]) -> Any:
        """The client has the session that the question before this one has opened."""
        slot, epoch = question["slot"], question["epoch"]
        session = peer.offered
        if session is None or (session.slot, session.epoch) != (slot, epoch) or not self._sessions.offer(session):
            self.take_back(peer)
            raise BrokerError(
                f"cannot keep session {slot} in epoch {epoch}: it is not open, or the question before did not open it"
            )
        peer.offered = None
        return None

    def take_back(self, peer: Peer) -> None:
        """Ends the session that this connection was offered and has not kept, if there is one. No operation."""
        session, peer.offered = peer.offered, None
        if session is not None:
            self._sessions.close(session)

    def close_session(self, peer: Peer, question: dict[str, Any]) -> Any:
        session = self._sessions.get(question["slot"], question["epoch"], peer.process)
        if session is not None:
            self._sessions.close(session)
        return None

    def create_topic(self, peer: Peer, question: dict[str, Any]) -> Any:
        before = self._topics.find(question["name"]) if isinstance(question["name"], str) else None
        topic = self._topics.create(
            question["name"],
            question["queues"],
            question.get("perm"),
            question.get("retention_hours"),
            question.get("durability"),
            caller=peer.caller,
        )
        if before is not None and topic.queues > before.queues:
            self._groups.topic_changed(topic.name)
            self._work.topic_changed(topic.name)
        return asdict(topic)

    def adopt_topic(self, peer: Peer, question: dict[str, Any]) -> Any:
        """For reput only: the log holds a topic that the table does not have."""
        if peer.pid != self._tree.page_pid(PAGE_REPUT):
            raise NoPermission(f"cannot adopt topics for process {peer.pid}: only the broker's reput may do that")
        return asdict(self._topics.adopt(question["name"], question["queues"]))

    def prepare_waiting(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Makes a topic in which delayed messages wait, that of offsets in atomic batches, or those of transactions. Any sender
        may ask for it, as it may send all of them."""
        topic = question["topic"]
        if topic not in (*DELAY_TOPICS, OP_TOPIC, COMMITS_TOPIC):
            raise ProtocolError(f"cannot do 'prepare_waiting' with topic {topic!r:.64}", operation="prepare_waiting")
        if not self._tree.settings.read_only:
            for name in TRANSACTION_TOPICS if topic == OP_TOPIC else (topic,):
                self._topics.add_waiting(name)
        return None

    def check_transactions(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Which open half messages this process may check now: halves: [[queue offset, physical offset, begun (ms), immune (ms)
        or -1, checks of another broker], ...]. Returns the times of the settings, and for each what CheckBacks.take says."""
        halves = [Asked(*each) for each in question.get("halves", [])]
        times = {"timeout_ms": self._check_backs.timeout_ms, "interval_ms": self._check_backs.interval_ms}
        return times | {"answers": [list(answer) for answer in self._check_backs.take(halves)]}

    def noted_checks(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Of each of these half messages, as in check_transactions: [times that it was checked, ms until it may be again]."""
        return [list(noted) for noted in self._check_backs.noted(Asked(*each) for each in question["halves"])]

    def prepare_replies(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Makes the topic in which replies are kept. Any client may ask for it, as it may send requests."""
        if not self._tree.settings.read_only:
            self._topics.add_replies()
        return None

    def topics(self, peer: Peer, question: dict[str, Any]) -> Any:
        return [asdict(topic) for topic in self._topics]

    def join_group(self, peer: Peer, question: dict[str, Any]) -> Answer:
        """The assignment, and as a descriptor the file in which the member commits."""
        session = self._session(peer, question)
        times = {name: question.get(name, 0) for name in ("poll_ms", "revoke_ms")}
        start, broadcast = question.get("start", "earliest"), question.get("broadcast", False)
        self._work.refuse_while_working(question["group"], "consume in")
        answer = self._groups.join(session, question["group"], question["topics"], start, broadcast=broadcast, **times)
        self._work.hand_over(question["group"])
        name = question["group"].encode()
        lib.session_join_group(self._tree.control, session.slot, name, len(name))
        self._add_bases(question["group"], answer)
        return answer, (self._groups.words_descriptor(session),)

    def join_work(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Makes a session a worker of a group. key_ordered, queue_ordered: what waits for what
        (native/actors/dispatcher/dispatcher.h)."""
        session = self._session(peer, question, works=True)
        fields = {name: question[name] for name in ("in_hand", "visibility_ms")}
        start, tries = question.get("start", "earliest"), question.get("max_tries")
        self._refuse_exact(question["group"], "work in", self._offsets.of_group(question["group"]))
        fields |= {"start": start, "max_tries": tries}
        fields |= {name: question.get(name, False) for name in ("key_ordered", "queue_ordered")}
        fields["asked"] = asked_filter(question["group"], question.get("tags", []), question.get("sql", ""))
        self._work.join(session, question["group"], question["topics"], **fields)
        return None

    def prepare_retries(self, peer: Peer, question: dict[str, Any]) -> Any:
        """For the dispatcher and the gateway only: makes a group's topics for retries and dead letters, and has its workers
        take the former."""
        if peer.pid not in (self._tree.page_pid(PAGE_DISPATCHER), self._tree.page_pid(PAGE_GATEWAY)):
            raise NoPermission(
                f"cannot make topics for process {peer.pid}: only the broker's dispatcher and gateway may ask for that"
            )
        self._work.prepare_retries(check_group_name(question["group"]))
        return None

    def commit_for_group(self, peer: Peer, question: dict[str, Any]) -> Any:
        """For the gateway only: a group whose members are RocketMQ's clients goes on at [[topic, queue, offset], ...]. A member
        that knows no offset says -1, which counts as 0. pulled: so they said with pulls, which begin no group."""
        if peer.pid != self._tree.page_pid(PAGE_GATEWAY):
            raise NoPermission(f"cannot commit for a group for process {peer.pid}: only the broker's gateway may ask for that")
        if question.get("pulled") is True:
            self._known(question["group"], "commit for")
        self._go_on(peer, question, "commit from a RocketMQ client for")

    def report_group(self, peer: Peer, question: dict[str, Any]) -> Any:
        """A program that keeps its offsets elsewhere, such as an export, shows them as those of a group without members:
        [[topic, queue, offset], ...]. Doing it twice is the same as doing it once. Raises: GroupInUse: it has members."""
        self._go_on(peer, question, "report offsets of")

    def _go_on(self, peer: Peer, question: dict[str, Any], doing: str) -> None:
        """A group whose members the broker does not see goes on there; not beyond the end of a queue."""
        name = check_group_name(question["group"])
        offsets = {}
        for topic_name, queue, offset in question["offsets"]:
            self._known_queue(topic_name, queue, "commit in")
            end = self._topics.bounds(self._topics.get(topic_name).first_slot + queue).maximum
            offsets[topic_name, queue] = min(max(0, offset), end)
        self._groups.refuse_in_use(name, doing)
        self._work.refuse_while_working(name, doing)
        self._refuse_exact(name, doing, offsets)
        self._groups.begin(peer.caller, name)
        self._groups.commit(name, offsets)

    def assignment(self, peer: Peer, question: dict[str, Any]) -> Any:
        answer = self._groups.assignment(self._session(peer, question), question["group"])
        self._add_bases(question["group"], answer)
        return answer

    def _add_bases(self, name: str, answer: dict[str, Any]) -> None:
        """For each queue, where the group is if its offsets are committed with atomic batches, or None. This, and not the start
        offset, is where a member begins: the two were read at different times."""
        answer["bases"] = [self._commits.get(name, (topic, queue)) for topic, queue, *_ in answer["queues"]]

    def release_queues(self, peer: Peer, question: dict[str, Any]) -> Any:
        """released: [[topic, queue, epoch since which the member has it], ...]"""
        queues = [((topic, queue), since) for topic, queue, since in question["released"]]
        self._groups.release(self._session(peer, question), question["group"], queues)
        return None

    def leave_group(self, peer: Peer, question: dict[str, Any]) -> Any:
        session = self._session(peer, question)
        self._groups.leave(session, question["group"])
        lib.session_join_group(self._tree.control, session.slot, b"", 0)
        return None

    def speak_for_group(self, peer: Peer, question: dict[str, Any]) -> Any:
        """From now on the session may commit offsets of the group with atomic batches, as a member's: to administer it."""
        name = question["group"]
        self._change(peer, name, "move")
        encoded = name.encode()
        lib.session_join_group(self._tree.control, self._session(peer, question).slot, encoded, len(encoded))
        return None

    def lock_queues(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Locks queues of a group for an owner that is no member, or renews its locks: those of [[topic, queue], ...] that
        nobody else has. Returns them."""
        name, lease_ms = question["group"], question.get("lease_ms", LEASE_MS)
        queues = [self._known_queue(topic, queue, "lock") for topic, queue in question["locked"]]
        taken = self._groups.owned(peer.caller, name)
        granted = self._groups.locks.lock(peer.caller, name, question["owner"], queues, lease_ms, taken)
        return [list(queue) for queue in granted]

    def unlock_queues(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Ends the owner's locks of these queues, [[topic, queue], ...]. Returns those that were locked."""
        name, queues = question["group"], [(topic, queue) for topic, queue in question["locked"]]
        ended = self._groups.locks.unlock(peer.caller, name, question["owner"], queues)
        self._groups.share_again({name} if ended else ())
        return [list(queue) for queue in ended]

    def committed(self, peer: Peer, question: dict[str, Any]) -> Any:
        """[[topic, queue, offset], ...] of a group, with commits of this moment."""
        self._groups.collect()
        self._work.collect()
        offsets = self._offsets.of_group(question["group"])
        return [[topic, queue, offset] for (topic, queue), offset in sorted(offsets.items())]

    def status(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Groups and sessions, the notes of the start, and how actors died; everything else is in shared memory."""
        self._groups.collect()
        self._work.collect()
        sessions = [session_map(session) for session in self._sessions]
        notes = self._tree.notes
        lost = sorted({note.lost for note in notes if note.lost})
        listens, addresses = self._tree.listens, self._tree.addresses
        texts = [note.text for note in notes]
        deaths = [asdict(death) for death in self._tree.deaths.values()]
        groups = self._group_list()
        return {
            "groups": groups, "sessions": sessions, "notes": texts, "lost": lost, "listens": listens, "addresses": addresses,
            "deaths": deaths,
        }  # fmt: skip

    def settings(self, peer: Peer, question: dict[str, Any]) -> Any:
        """[[name, value, source], ...] of the settings that the tree runs with."""
        return [[each.name, each.value, each.source] for each in states(self._tree.settings)]

    def configure(self, peer: Peer, question: dict[str, Any]) -> Any:
        """Changes the settings that the store remembers. Returns the names of those that changed. The running tree keeps its
        own."""
        settings = self._tree.settings
        _only_rulers(peer, f"change the settings of the broker {settings.name!r}")
        if settings.read_only:
            raise NoPermission(f"cannot change the settings of {settings.layout.root}: its broker opened it read-only")
        values, forget = question.get("values", {}), question.get("forget", [])
        return change_settings(settings.layout, values, forget, allow_deletion=question.get("allow_deletion", False) is True)

    def believe_clock(self, peer: Peer, question: dict[str, Any]) -> Any:
        """The clock is right, however far it has jumped: messages expire by it again."""
        _only_rulers(peer, f"have the clock of the broker {self._tree.settings.name!r} believed")
        lib.control_believe_clock(self._tree.control, wall_clock_ms())
        return None

    def stop(self, peer: Peer, question: dict[str, Any]) -> Any:
        _only_rulers(peer, f"stop the broker {self._tree.settings.name!r}")
        os.kill(self._tree.supervisor_pid, signal.SIGTERM)
        return None

    def _session(self, peer: Peer, question: dict[str, Any], *, works: bool = False) -> Session:
        session = self._sessions.get(question["slot"], question["epoch"], peer.process)
        if session is None or session.waits is not None or not (session.works if works else session.consumes):
            kind = "worker" if works else "consumer"
            raise BrokerError(
                f"cannot use session {question['slot']} in epoch {question['epoch']}: it is not an open {kind} session of "
                f"process {peer.pid}"
            )
        return session


def _only_rulers(peer: Peer, what: str) -> None:
    if not peer.caller.rules:
        uid = peer.caller.uid
        raise NoPermission(f"cannot {what} for uid {uid}: only uid {os.geteuid()} and root may", uid=uid)


# The type of a field by its name, in whatever question. Names of topics and groups have errors of their own.
_NUMBERS = (
    "pid", "started", "slot", "epoch", "perm", "poll_ms", "revoke_ms", "lease_ms", "in_hand", "visibility_ms", "work_capacity",
)  # fmt: skip


def _has(*types: type) -> Callable[[object], bool]:
    """A test for lists of values of these types."""
    return lambda value: isinstance(value, list) and len(value) == len(types) and all(map(isinstance, value, types))


def _text(value: object) -> bool:
    return isinstance(value, str)


def _half(value: Any) -> bool:
    return _has(int, int, int, int, int)(value) and all(-1 <= each < 1 << 63 for each in value)


# What each value of a list is: a name; topic, queue, and an epoch or an offset; queue and offset; topic and queue.
_LISTS: dict[str, Callable[[object], bool]] = {
    "topics": _text,
    "forget": _text,
    "released": _has(str, int, int),
    "offsets": _has(str, int, int),
    "floors": _has(int, int),
    "locked": _has(str, int),
    "halves": _half,
}


def _check_fields(operation: str, question: dict[str, Any]) -> None:
    """Raises: ProtocolError: a field has a value of another type than all clients of OrbitMQ send."""
    wrong = []
    for name in _NUMBERS:
        value = question.get(name, 0)
        if not isinstance(value, int) or not 0 <= value < 1 << 63:
            wrong.append(name)
    if not isinstance(question.get("group"), str | None):
        wrong.append("group")
    for name, fits in _LISTS.items():
        value = question.get(name, [])
        if not isinstance(value, list) or not all(map(fits, value)):
            wrong.append(name)
    if "halves" not in wrong and len(question.get("halves", [])) > AT_ONCE:
        wrong.append("halves")
    after = question.get("after", [])
    if after != [] and not _has(str, int)(after):
        wrong.append("after")
    values = question.get("values", {})
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        wrong.append("values")
    for name in ("paused", "broadcast"):
        if not isinstance(question.get(name, False), bool):
            wrong.append(name)
    if wrong:
        raise ProtocolError(f"cannot do {operation!r} with {wrong[0]} {question[wrong[0]]!r:.64}", operation=operation)


_OPERATIONS = {
    name: value
    for kind in (Administration, Operations)
    for name, value in vars(kind).items()
    if not name.startswith("_") and name not in ("perform", "serve", "take_back")
}
