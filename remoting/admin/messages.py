"""How single messages are found: by their place in the log, by keys, and by time."""

from __future__ import annotations

from contextlib import closing

from orbitmq.remoting.admin.log_view import LogView
from orbitmq.remoting.admin.remote_record import remote_record
from orbitmq.remoting.host import Host
from orbitmq.remoting.request import NO_PERMISSION, QUERY_NOT_FOUND, SYSTEM_ERROR, Answer, Answers, Request
from orbitmq.shm.topic_table import PERM_READ
from orbitmq.store.index_file import HITS_MAX, TIME_END

BY_KEY, OFFSET_AT, EARLIEST, BY_PLACE = 12, 29, 32, 33
USUAL = 32  # messages that a look-up by a unique key gives
BYTES_MAX = 8 << 20  # of the records in one answer, unless one alone has more: clients refuse frames of 16 MiB


class Messages:
    def __init__(self, host: Host, log: LogView) -> None:
        self._host = host
        self._log = log
        self.answers: Answers = {
            BY_KEY: self._by_key,
            OFFSET_AT: self._offset_at,
            EARLIEST: self._earliest,
            BY_PLACE: self._by_place,
        }

    def _by_place(self, request: Request) -> Answer:
        place = int(request.fields["offset"])
        with closing(self._log.reader()) as reader:
            found = self._log.shown(reader, place)
            if found is None:
                return Answer(SYSTEM_ERROR, f"can not find message by the offset, {place}")
            return Answer(body=remote_record(found.record()))

    def _by_key(self, request: Request) -> Answer:
        """Those of most recent times, in the order of the log."""
        name, key = request.fields["topic"], request.fields["key"]
        unique = request.fields.get("_UNIQUE_KEY_QUERY") == "true"
        most = USUAL if unique else max(1, min(int(request.fields["maxNum"]), HITS_MAX))
        begin_ms, end_ms = (int(request.fields[field]) for field in ("beginTimestamp", "endTimestamp"))
        topic = self._host.topics.find(name)
        if topic is None:
            return _no_message()
        if not topic.perm & PERM_READ:
            return Answer(NO_PERMISSION, f"the topic {name} may not be read")
        seen = self._log.positions()
        fields = {"indexLastUpdateTimestamp": str(seen.reput_ms), "indexLastUpdatePhyoffset": str(seen.reput)}
        records: list[tuple[int, bytes]] = []
        size = 0
        with closing(self._log.reader()) as reader:
            for message in self._log.with_key(reader, name, key, begin_ms, end_ms):
                size += message.size
                if len(records) == most or (records and size > BYTES_MAX):
                    break
                records.append((message.physical_offset, remote_record(message.record())))
        if not records:
            return _no_message()
        return Answer(fields=fields, body=b"".join(record for _, record in sorted(records)))

    def _offset_at(self, request: Request) -> Answer:
        """The queue's message that was stored at this time; if none was, one beside it."""
        topic, queue = self._host.topics.find(request.fields["topic"]), int(request.fields["queueId"])
        store_ms = int(request.fields["timestamp"])
        if topic is None or not 0 <= queue < topic.queues:
            return Answer(fields={"offset": "0"})
        with closing(self._log.reader()) as reader:
            cursor = reader.add(topic.first_slot + queue, 0)
            return Answer(fields={"offset": str(reader.search_time(cursor, max(0, min(store_ms, TIME_END))))})

    def _earliest(self, request: Request) -> Answer:
        topic, queue = self._host.topics.find(request.fields["topic"]), int(request.fields["queueId"])
        if topic is None or not 0 <= queue < topic.queues:
            return Answer(fields={"timestamp": "-1"})
        with closing(self._log.reader()) as reader:
            first = self._host.topics.bounds(topic.first_slot + queue).minimum
            found = self._log.message(reader, topic, queue, first)
            return Answer(fields={"timestamp": str(-1 if found is None else found.stored_ms)})


def _no_message() -> Answer:
    fields = {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}
    return Answer(QUERY_NOT_FOUND, "can not find message, maybe time range not correct", fields)
