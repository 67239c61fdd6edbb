"""The broker in the tables of RocketMQ's name servers: it tells each of them its address and its topics, at once, when they
change, and every 30 seconds, as RocketMQ's broker does. A name server forgets a broker whose connection has ended.

A thread for each name server, so that one that does not answer holds up nobody."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from orbitmq.errors import StoreFailed
from orbitmq.remoting.outgoing import Outgoing, RefusedError
from orbitmq.remoting.promised_topics import promised, shown_perm
from orbitmq.remoting.routes import CLUSTER
from orbitmq.remoting.template_topic import TEMPLATE
from orbitmq.shm.topic_table import Topic, TopicTable
from orbitmq.store.group_file import GroupFile
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.listen_address import WILD, ListenAddress

REGISTER, UNREGISTER = 103, 104
PERIOD_S = 30.0
LOOK_S = 0.5  # how often the topics are looked at
AGAIN_S = 2.0  # after a failure
ANSWER_S = 6.0


class Registration:
    """broker: its name. address: where clients reach it; a wild host: at the address of this machine that a name server sees.
    creates: whether a send makes the topic that it lacks. say: told why a name server does not know the broker, and that it
    does again."""

    def __init__(
        self, broker: str, address: ListenAddress, servers: list[ListenAddress], topics: TopicTable, layout: StoreLayout, *,
        creates: bool, say: Callable[[str], object],
    ) -> None:
        self._broker = broker
        self._address = address
        self._topics = topics
        self._layout = layout
        self._creates = creates
        self._say = say
        self._over = threading.Event()
        self._began_ms = time.time_ns() // 1_000_000
        self._threads = [threading.Thread(target=self._serve, args=(each,), name="namesrv", daemon=True) for each in servers]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Has the name servers forget the broker."""
        self._over.set()
        for thread in self._threads:
            thread.join(ANSWER_S)

    def _serve(self, server: ListenAddress) -> None:
        known = _Known(server, GroupFile(self._layout))
        complained = False
        while not self._over.is_set():
            try:
                self._tell(known)
            except (OSError, RefusedError) as error:
                known.forget()
                if not complained:
                    self._say(f"the name server {server} does not know this broker: {error}; it is told again")
                complained = True
            else:
                if complained:
                    self._say(f"the name server {server} knows this broker again")
                complained = False
            self._over.wait(LOOK_S if known.link is not None else AGAIN_S)
        try:
            if known.link is not None:
                known.link.ask(UNREGISTER, self._fields(known.link))
        except (OSError, RefusedError):
            pass  # it forgets the broker when the connection ends
        known.forget()

    def _tell(self, known: _Known) -> None:
        """Raises: OSError, RefusedError."""
        if known.link is not None and not known.link.lives:
            raise ConnectionResetError("it has closed the connection")
        topics = known.topics_of(self._topics, creates=self._creates)
        now_s = time.monotonic()
        if known.link is not None and topics == known.topics and now_s < known.due_s:
            return
        if known.link is None:
            known.link = Outgoing(known.server, ANSWER_S)
        if topics != known.topics:
            known.version += 1
        body = registration_body(topics, self._began_ms, known.version)
        more = {"haServerAddr": "", "compressed": "false", "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF)}
        known.link.ask(REGISTER, self._fields(known.link) | more, body)
        known.topics, known.due_s = topics, now_s + PERIOD_S

    def _fields(self, link: Outgoing) -> dict[str, str]:
        host = link.local_host if self._address.host in WILD else self._address.host
        address = str(ListenAddress(host, self._address.port))
        return {"brokerName": self._broker, "brokerAddr": address, "clusterName": CLUSTER, "brokerId": "0"}


class _Known:
    """What one name server was told. version: raised with each change, because it takes topics only with another version.
    groups: those that there are."""

    def __init__(self, server: ListenAddress, groups: GroupFile) -> None:
        self.server = server
        self._groups = groups
        self.link: Outgoing | None = None
        self.topics: list[Topic] | None = None
        self.version = 0
        self.due_s = 0.0

    def topics_of(self, table: TopicTable, *, creates: bool) -> list[Topic]:
        """What it is to be told: also what is made when somebody first needs it."""
        with suppress(StoreFailed):  # those that were known still are
            self._groups.look()
        there = list(table)
        made_later = promised(self._groups.groups, {topic.name for topic in there})
        return [*there, *([TEMPLATE] if creates else []), *made_later]

    def forget(self) -> None:
        if self.link is not None:
            self.link.close()
        self.link = self.topics = None


def registration_body(topics: list[Topic], began_ms: int, version: int) -> bytes:
    """What a name server is told of the topics."""
    table: dict[str, Any] = {
        topic.name: {
            "order": False,
            "perm": shown_perm(topic),
            "readQueueNums": topic.queues,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic.name,
            "topicSysFlag": 0,
            "writeQueueNums": topic.queues,
        }
        for topic in topics
    }
    wrapper = {"dataVersion": {"counter": version, "timestamp": began_ms}, "topicConfigTable": table}
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}, separators=(",", ":")).encode()
