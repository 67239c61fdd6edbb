"""The requests that are rare enough for Python: what a client asks when it starts and stops. Frequent ones never come here
(native/remoting/gateway.h)."""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.remoting import routes
from orbitmq.remoting.request import NOT_SUPPORTED, QUERY_NOT_FOUND, SUCCESS, SYSTEM_ERROR, TOPIC_NOT_EXIST, Answer, Request
from orbitmq.shm.topic_table import TopicTable

# The offset from which a group continues in a queue; None: it has none. Raises: OSError, OrbitError: that cannot be known now.
Committed = Callable[[str, str, int], int | None]


class Rare:
    """Answers for one broker. topics: its table. committed: asks the coordinator."""

    def __init__(self, broker: str, topics: TopicTable, committed: Committed) -> None:
        self._broker = broker
        self._topics = topics
        self._committed = committed
        self._answers: dict[int, Callable[[Request], Answer]] = {
            14: self._query_offset,
            34: self._heartbeat,
            35: self._unregister,
            105: self._route,
            106: self._cluster,
        }

    def answer(self, request: Request) -> Answer:
        """Never raises for what a client sent."""
        known = self._answers.get(request.code)
        if known is None:
            return Answer(NOT_SUPPORTED, f"request type {request.code} is not supported")
        try:
            return known(request)
        except KeyError as error:
            return Answer(SYSTEM_ERROR, f"the request has no field {error}")
        except ValueError as error:
            return Answer(SYSTEM_ERROR, f"the request has a field that cannot be read: {error}")

    def _route(self, request: Request) -> Answer:
        name = request.fields["topic"]
        topic = self._topics.find(name)
        if topic is None or topic.deleted:
            return Answer(TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {name}")
        return Answer(body=routes.route(topic, self._broker, request.local))

    def _cluster(self, request: Request) -> Answer:
        return Answer(body=routes.cluster(self._broker, request.local))

    def _heartbeat(self, request: Request) -> Answer:
        """Nothing is kept of it yet: nobody asks who belongs to a group."""
        return Answer(SUCCESS)

    def _unregister(self, request: Request) -> Answer:
        return Answer(SUCCESS, fields={})

    def _query_offset(self, request: Request) -> Answer:
        group, topic, queue = (request.fields[name] for name in ("consumerGroup", "topic", "queueId"))
        offset = self._committed(group, topic, int(queue))
        if offset is None:
            return Answer(QUERY_NOT_FOUND, f"the group {group} has no offset in queue {queue} of {topic}")
        return Answer(fields={"offset": str(offset)})
