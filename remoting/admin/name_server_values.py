"""The values that administrators keep in a name server, and what it tells of itself."""

from __future__ import annotations

from orbitmq.remoting.admin.properties_text import properties_text
from orbitmq.remoting.admin.queue_map import compact
from orbitmq.remoting.host import Host
from orbitmq.remoting.request import QUERY_NOT_FOUND, Answer, Answers, Request
from orbitmq.store import name_server_values as kept
from orbitmq.store.settings.listen_address import listen_address

PUT, GET, DELETE, LIST, SETTINGS = 100, 101, 102, 219, 319


class NameServerValues:
    """They are read from the store each time: nobody asks often."""

    def __init__(self, host: Host) -> None:
        self._layout = host.settings.layout
        self.answers: Answers = {
            PUT: self._put,
            GET: self._get,
            DELETE: self._delete,
            LIST: self._list,
            SETTINGS: self._settings,
        }

    def _put(self, request: Request) -> Answer:
        space, key, value = (request.fields[name] for name in ("namespace", "key", "value"))
        values = kept.load(self._layout)
        values.setdefault(space, {})[key] = value
        kept.store(self._layout, values)
        return Answer()

    def _get(self, request: Request) -> Answer:
        space, key = request.fields["namespace"], request.fields["key"]
        value = kept.load(self._layout).get(space, {}).get(key)
        if value is None:
            return Answer(QUERY_NOT_FOUND, f"No config item, Namespace: {space} Key: {key}")
        return Answer(fields={"value": value})

    def _delete(self, request: Request) -> Answer:
        """A success if there is none. The namespace stays, as with RocketMQ."""
        space, key = request.fields["namespace"], request.fields["key"]
        values = kept.load(self._layout)
        if values.get(space, {}).pop(key, None) is not None:
            kept.store(self._layout, values)
        return Answer()

    def _list(self, request: Request) -> Answer:
        space = request.fields["namespace"]
        pairs = kept.load(self._layout).get(space)
        if pairs is None:
            return Answer(QUERY_NOT_FOUND, f"No config item, Namespace: {space}")
        return Answer(body=compact({"table": pairs}).encode())

    def _settings(self, request: Request) -> Answer:
        """Those that RocketMQ's name server has too."""
        listen = listen_address(request.local)
        values = {"kvConfigPath": self._layout.name_server_values, "listenPort": listen.port if listen is not None else 0}
        return Answer(body=properties_text(values))
