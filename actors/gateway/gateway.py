"""The gateway: answers RocketMQ's own clients on TCP (native/remoting/gateway/gateway.h). The loop in C serves what is
frequent. Here are the rare requests (remoting/rare.py). Of several gateways this is the lead: the others, the fronts
(front.py), pass on to it what they do not serve themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from orbitmq.actors.gateway.piece import Piece
from orbitmq.actors.gateway.popping import Popping
from orbitmq.actors.gateway.remote_loop import RemoteLoop
from orbitmq.actors.tree import Tree
from orbitmq.errors import OrbitError
from orbitmq.native._core import ffi, lib
from orbitmq.remoting.check_backs import CheckBacks
from orbitmq.remoting.heartbeat import Subscription
from orbitmq.remoting.host import Host
from orbitmq.remoting.rare import Rare
from orbitmq.remoting.registration import Registration
from orbitmq.remoting.request import AGAIN, LATER, SYSTEM_ERROR, Answer, Client, Done, Forward, Notice, Origin, Request
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.topic_table import TopicTable
from orbitmq.store.settings.listen_address import ListenAddress, listen_address, server_addresses

ASKED_MS = 3000  # how long a client may take to answer another one's question; mqadmin itself waits for 5 s


class Gateway(RemoteLoop):
    def __init__(self, tree: Tree) -> None:
        assert tree.gateway is not None
        super().__init__(tree, 0, tree.gateway.sockets)
        for number, ends in enumerate(tree.fronts, 1):
            self.give_line(number, ends.lead_line)
        self._listener = tree.gateway
        self._pulled = ffi.new("struct gateway_commit *")
        topics, creates = TopicTable(tree.topics), tree.settings.auto_create_topics
        self._popping = Popping(self.handle, tree, self.ask, self._leaving)
        asks = self.ask, self._tell, self, self._name, creates, self._popping
        host = Host(tree.settings.name, topics, *asks, tree.settings, tree.control)
        self._rare = Rare(host, self._complaints.say)
        self._registration = self._registered(topics)
        self._check_backs = CheckBacks(host, self._rare.producers, tree.control, self._give_up)
        self.attach()

    def run(self, limit_ms: int) -> None:
        self._check()
        self._commit()
        self._rare.look()
        self._popping.look()
        super().run(min(limit_ms, math.ceil(1000 * self._check_backs.pause_s)))

    def need(self) -> None:
        """Answers what the loop leaves to Python."""
        self._commit()
        super().need()
        gone = ffi.new("struct gateway_client *")
        while lib.gateway_gone(self.handle, gone):
            self._rare.gone(Client(gone.connection, gone.epoch))
        asked = ffi.new("struct gateway_request *")
        while lib.gateway_asked(self.handle, asked):
            request = self._request(asked)
            why = self._guard.refusal(asked, request) if self._guard is not None else None
            answer = self._rare.answer(request) if why is None else Answer(SYSTEM_ERROR, why)
            if answer is AGAIN:
                lib.gateway_again(self.handle, asked)
                continue
            if isinstance(answer, Done):
                if self._popping.acknowledge(asked, answer):
                    continue
                answer = Answer(SYSTEM_ERROR, "the gateway has no memory for acknowledgements")
            if isinstance(answer, Notice):
                refused = self._popping.notice(asked, answer)
                if refused is None:
                    continue
                answer = refused
            if answer is LATER:
                lib.gateway_later(self.handle, asked)
                continue
            if isinstance(answer, Forward):
                if self._forward(asked, answer):
                    continue
                answer = Answer(SYSTEM_ERROR, "the client cannot be asked now: it does not read, or too many are asked")
            crash_point("gateway_worked_out")
            with _header(answer.code, answer.remark, answer.fields) as header:
                lib.gateway_answer(self.handle, asked, header, answer.body, len(answer.body))

    def _request(self, asked: Any) -> Request:
        header = asked.header
        fields = {_text(each.name): _text(each.value) for each in header.fields[0 : header.field_count]}
        body = bytes(ffi.buffer(asked.body, asked.body_size)) if asked.body_size else b""
        client = Client(asked.client.connection, asked.client.epoch)
        origin = Origin(ffi.string(asked.peer).decode(), header.language, header.version)
        reached = ffi.string(asked.local).decode()
        return Request(header.code, fields, body, reached, client, origin, self._listener.broker_of(reached))

    def _commit(self) -> None:
        """Hands over what clients have committed with pulls: before each rare request, which may ask for it or move it."""
        groups: dict[str, list[tuple[str, int, int]]] = {}
        while lib.gateway_gathered(self.handle, self._pulled):
            group, topic = (
                bytes(ffi.buffer(name, size)).decode(errors="replace")
                for name, size in ((self._pulled.group, self._pulled.group_size), (self._pulled.topic, self._pulled.topic_size))
            )
            groups.setdefault(group, []).append((topic, self._pulled.queue_id, self._pulled.offset))
        for group, offsets in groups.items():
            self._rare.commit(group, offsets)

    def close(self) -> None:
        self._commit()
        if self._registration is not None:
            self._registration.close()
        super().close()
        self._popping.close()

    def _registered(self, topics: TopicTable) -> Registration | None:
        settings = self.tree.settings
        bound = self._listener.broker
        address = listen_address(settings.advertise) or bound
        if not address.port:
            address = ListenAddress(address.host, bound.port)
        servers = server_addresses(settings.namesrv)
        if not servers:
            return None
        told = settings.name, address, servers, topics, settings.layout
        return Registration(*told, creates=settings.auto_create_topics, say=self._complaints.say)

    def _tell(self, client: Client, code: int, fields: Mapping[str, str], body: bytes) -> bool:
        with _header(code, None, fields) as header:
            return bool(lib.gateway_tell(self.handle, tuple(client), header, body, len(body)))

    def _forward(self, asked: Any, forward: Forward) -> bool:
        body = forward.body
        with _header(forward.code, None, forward.fields) as header:
            return bool(lib.gateway_forward(self.handle, asked, tuple(forward.client), header, body, len(body), ASKED_MS))

    def _name(self, client: Client, client_id: str) -> None:
        piece = Piece(client_id)
        lib.gateway_name(self.handle, tuple(client), piece.slice)

    def subscribe(self, group: str, subscription: Subscription) -> None:
        """See Filters in remoting/host.py."""
        texts = [Piece(text) for text in (group, subscription.topic, subscription.expression)]
        name, topic, expression = (each.slice for each in texts)
        is_sql = subscription.kind == "SQL92"
        lib.gateway_subscribe(self.handle, name, topic, is_sql, expression, subscription.version)

    def unsubscribe(self, group: str) -> None:
        name = Piece(group)
        lib.gateway_unsubscribe(self.handle, name.slice)

    def _check(self) -> None:
        """Has remote producers asked about transactions that nobody has ended."""
        try:
            self._check_backs.look()
        except (OrbitError, OSError) as error:
            self._complaints.say(f"the gateway cannot check transactions now: {error}")

    def _give_up(self, offset: int, physical_offset: int) -> None:
        if self._memory is not None:
            lib.gateway_give_up(self.handle, offset, physical_offset)


@contextmanager
def _header(code: int, remark: str | None, fields: Mapping[str, str] | None) -> Iterator[Any]:
    """A header for C. It points to texts that are kept as long as the block runs."""
    header = ffi.new("struct remoting_header *", {"code": code, "has_fields": fields is not None})
    kept: list[Piece] = []

    def piece(text: str) -> Any:
        kept.append(Piece(text))
        return kept[-1].slice

    if remark is not None:
        header.remark = piece(remark)
    for name, value in (fields or {}).items():
        place = header.fields[header.field_count]
        place.name, place.value = piece(name), piece(value)
        header.field_count += 1
    yield header


def _text(piece: Any) -> str:
    return bytes(ffi.buffer(piece.data, piece.size)).decode(errors="replace") if piece.size else ""
