"""What administrators ask about topics, and have done with them. The coordinator's rules hold, as for `orbitmq topic`."""

from __future__ import annotations

from contextlib import closing

from orbitmq.remoting.admin.log_view import LogView
from orbitmq.remoting.admin.queue_map import compact, queue_map
from orbitmq.remoting.host import Host
from orbitmq.remoting.promised_topics import retries_of
from orbitmq.remoting.request import SYSTEM_ERROR, TOPIC_NOT_EXIST, Answer, Answers, Request
from orbitmq.remoting.routes import CLUSTER
from orbitmq.remoting.topic_fault import topic_fault
from orbitmq.shm.topic_name import kept_topic, reserved_topic
from orbitmq.shm.topic_table import PERM_READ_WRITE
from orbitmq.store.config import load_topics, topic_table

CHANGE, ALL, STATS, LIST, DELETE, FORGET, OF_CLUSTER, GROUPS_OF, OF_SYSTEM, ONE = 17, 21, 202, 206, 215, 216, 224, 300, 305, 351


class Topics:
    def __init__(self, host: Host, log: LogView) -> None:
        self._host = host
        self._log = log
        self.answers: Answers = {
            CHANGE: self._change,
            ALL: self._all,
            STATS: self._stats,
            LIST: self._list,
            DELETE: self._delete,
            FORGET: self._forget,
            OF_CLUSTER: self._of_cluster,
            GROUPS_OF: self._groups_of,
            OF_SYSTEM: self._of_system,
            ONE: self._one,
        }

    def _list(self, request: Request) -> Answer:
        """Also the topic of retries of each group that has none yet: it is made when somebody asks for its route
        (name_server.py)."""
        names = [topic.name for topic in self._host.topics]
        retries = retries_of(group["name"] for group in self._host.ask("groups")[0])
        return _listed([*names, *(name for name in retries if name not in names)])

    def _all(self, request: Request) -> Answer:
        """Those that config/topics.json names."""
        return Answer(body=compact(topic_table(*load_topics(self._host.settings.layout))).encode())

    def _one(self, request: Request) -> Answer:
        """Asked by tools of RocketMQ 5 and the dashboard."""
        name = request.fields["topic"]
        topics, version = load_topics(self._host.settings.layout)
        if name not in topics:
            return Answer(TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name}")
        table = topic_table({name: topics[name]}, version)
        return Answer(body=compact(table["topicConfigTable"][name]).encode())

    def _of_cluster(self, request: Request) -> Answer:
        """None for a cluster that there is not, as with RocketMQ."""
        return self._list(request) if request.fields["cluster"] == CLUSTER else _listed([])

    def _of_system(self, request: Request) -> Answer:
        """The broker's own; those of a group's retries and dead letters are the group's."""
        own = [topic.name for topic in self._host.topics if kept_topic(topic.name)]
        return _listed([name for name in own if not name.startswith("%")])

    def _groups_of(self, request: Request) -> Answer:
        """Groups that have an offset in one of the topic's queues."""
        name = request.fields["topic"]
        groups, _ = self._host.ask("groups")
        found = [group["name"] for group in groups if any(queue[0] == name for queue in group["queues"])]
        return Answer(body=compact({"groupList": found}).encode())

    def _stats(self, request: Request) -> Answer:
        name = request.fields["topic"]
        topic = self._host.topics.find(name)
        if topic is None:
            return Answer(TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        table = {}
        with closing(self._log.reader()) as reader:
            for queue in range(topic.queues):
                bounds = self._host.topics.bounds(topic.first_slot + queue)
                last_ms = self._log.last_ms(reader, topic, queue)
                offsets = {"maxOffset": bounds.maximum, "minOffset": bounds.minimum}
                table[name, queue] = {"lastUpdateTimestamp": last_ms, **offsets}
        return Answer(body=f'{{"offsetTable":{queue_map(self._host.broker, table)}}}'.encode())

    def _change(self, request: Request) -> Answer:
        """Makes the topic, or gives it more queues or another permission."""
        name, perm = request.fields["topic"], int(request.fields["perm"])
        read, write = int(request.fields["readQueueNums"]), int(request.fields["writeQueueNums"])
        if read != write:
            text = f"the topic {name} cannot have {read} queues to read and {write} to write: all of its queues are for both"
            return Answer(SYSTEM_ERROR, text)
        if perm & ~PERM_READ_WRITE:
            return Answer(SYSTEM_ERROR, f"the topic {name} cannot have the permission {perm}: 2, 4 and 6 are possible")
        topic = self._host.topics.find(name)
        if topic is None:
            fault = topic_fault(name)
            if fault is None and reserved_topic(name) is not None:
                fault = f"The topic[{name}] is conflict with system topic."
            if fault is not None:
                return Answer(SYSTEM_ERROR, fault)
            self._host.ask("create_topic", name=name, queues=write, perm=perm)
            return Answer()
        if topic.queues != write:
            self._host.ask("create_topic", name=name, queues=write)
        if topic.perm != perm:
            self._host.ask("permit", name=name, perm=perm)
        return Answer()

    def _delete(self, request: Request) -> Answer:
        """A success if it does not exist, as with RocketMQ."""
        name = request.fields["topic"]
        if self._host.topics.find(name) is not None:
            self._host.ask("delete_topic", name=name)
        return Answer()

    def _forget(self, request: Request) -> Answer:
        """Asks the name server to forget a topic's route. There is a route as long as there is the topic."""
        return Answer()


def _listed(names: list[str]) -> Answer:
    return Answer(body=compact({"topicList": names}).encode())
