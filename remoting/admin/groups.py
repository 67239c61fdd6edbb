"""What administrators ask about consumer groups. The coordinator's rules hold, as for `orbitmq group`."""

from __future__ import annotations

from contextlib import closing, suppress

from orbitmq.errors import UnknownGroup
from orbitmq.native._types import Reader
from orbitmq.remoting.admin.log_view import LogView
from orbitmq.remoting.admin.queue_map import compact, queue_map
from orbitmq.remoting.consumers import Consumers
from orbitmq.remoting.host import Host
from orbitmq.remoting.json_body import read_json
from orbitmq.remoting.request import NO_GROUP, Answer, Answers, Request
from orbitmq.shm.topic_table import QueueKey
from orbitmq.store.config import GROUP_FIELDS, group_table, load_groups

SHAPE, LIST, DELETE, PROGRESS, CLONE, PROGRESS_OF_ALL, ONE = 200, 201, 207, 208, 314, 317, 352

SETTINGS = GROUP_FIELDS.keys() - {"name", "maker"}


class Groups:
    def __init__(self, host: Host, log: LogView, consumers: Consumers) -> None:
        self._host = host
        self._log = log
        self._consumers = consumers
        self.answers: Answers = {
            SHAPE: self._shape,
            LIST: self._list,
            DELETE: self._delete,
            PROGRESS: self._progress,
            CLONE: self._clone,
            PROGRESS_OF_ALL: self._progress_of_all,
            ONE: self._one,
        }

    def _shape(self, request: Request) -> Answer:
        """Makes the group, or gives it other settings. What the request leaves out stays as it is."""
        told = read_json(request.body)
        if not isinstance(told, dict) or not isinstance(told.get("groupName"), str):
            raise ValueError("it has no groupName")
        settings = {ours: told[theirs] for ours, theirs in GROUP_FIELDS.items() if theirs in told and ours in SETTINGS}
        self._host.ask("shape_group", group=told["groupName"], settings=settings)
        return Answer()

    def _list(self, request: Request) -> Answer:
        """Those that config/subscriptionGroup.json names."""
        return Answer(body=compact(group_table(*load_groups(self._host.settings.layout))).encode())

    def _one(self, request: Request) -> Answer:
        """Asked by tools of RocketMQ 5 and the dashboard."""
        name = request.fields["group"]
        groups, version = load_groups(self._host.settings.layout)
        if name not in groups:
            return Answer(NO_GROUP, "No group in this broker")
        table = group_table({name: groups[name]}, version)
        return Answer(body=compact(table["subscriptionGroupTable"][name]).encode())

    def _progress(self, request: Request) -> Answer:
        """Where the group is in each queue in which it has an offset, of one topic or all. Nobody counts its rate."""
        only = request.fields.get("topic")
        with closing(self._log.reader()) as reader:
            table = self._table(reader, request.fields["consumerGroup"])
        return Answer(body=self._told({queue: seen for queue, seen in table.items() if not only or queue[0] == only}).encode())

    def _progress_of_all(self, request: Request) -> Answer:
        """The same for each group and each of its topics, except those that its members do not subscribe to. Of topics in order
        nothing: here no topic says that it is one."""
        ordered = request.fields.get("isOrder", "false") == "true"
        groups, _ = self._host.ask("groups")
        told, behind = [], 0
        with closing(self._log.reader()) as reader:
            for name in sorted(group["name"] for group in groups):
                table = {} if ordered else self._table(reader, name)
                table = {queue: seen for queue, seen in table.items() if self._subscribes(name, queue[0])}
                behind += sum(max(0, seen["brokerOffset"] - seen["consumerOffset"]) for seen in table.values())
                names = sorted({topic for topic, _ in table})
                topics = [{queue: seen for queue, seen in table.items() if queue[0] == topic} for topic in names]
                told.append(f"{{{compact(name)}:[{','.join(map(self._told, topics))}]}}")
        address = compact(request.broker)
        body = f'{{"brokerAddr":{address},"consumeStatsList":[{",".join(told)}],"totalDiff":{behind}}}'
        return Answer(body=body.encode())

    def _clone(self, request: Request) -> Answer:
        """A group goes on where another one is, in one topic or all of that one's. Topics to which the other one's members do
        not subscribe are left out, unless it may be offline."""
        source, target = request.fields["srcGroup"], request.fields["destGroup"]
        only, offline = request.fields.get("topic", "").strip(), request.fields.get("offline") == "true"
        offsets, _ = self._host.ask("committed", group=source)
        cloned = [
            [name, queue, offset]
            for name, queue, offset in offsets
            if only in ("", name) and self._host.topics.find(name) and (offline or self._subscribes(source, name))
        ]
        if cloned:
            self._host.ask("commit_for_group", group=target, offsets=cloned)
        return Answer()

    def _subscribes(self, group: str, topic: str) -> bool:
        """True also for a group without members."""
        members = self._consumers.members(group).values()
        return not members or any(each.topic == topic for member in members for each in member.data.subscriptions)

    def _table(self, reader: Reader, group: str) -> dict[QueueKey, dict[str, int]]:
        """Where the group is, in all queues in which it has an offset."""
        offsets, _ = self._host.ask("committed", group=group)
        table = {}
        for name, queue, offset in offsets:
            topic = self._host.topics.find(name)
            if topic is None or queue >= topic.queues:
                continue
            last = self._log.message(reader, topic, queue, offset - 1) if offset > 0 else None
            maximum = self._host.topics.bounds(topic.first_slot + queue).maximum
            last_ms = 0 if last is None else last.stored_ms
            table[name, queue] = {"brokerOffset": maximum, "consumerOffset": offset, "lastTimestamp": last_ms}
        return table

    def _told(self, table: dict[QueueKey, dict[str, int]]) -> str:
        return f'{{"consumeTps":0.0,"offsetTable":{queue_map(self._host.broker, table)}}}'

    def _delete(self, request: Request) -> Answer:
        """A success if it does not exist, as with RocketMQ."""
        with suppress(UnknownGroup):
            self._host.ask("delete_group", group=request.fields["groupName"])
        return Answer()
