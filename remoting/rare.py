"""The requests that are rare enough for Python: what a client asks when it starts and stops, and what operators ask. Frequent
ones never come here (native/remoting/gateway/gateway.h)."""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.errors import OrbitError
from orbitmq.remoting.admin.administration import Administration
from orbitmq.remoting.assignments import Assignments
from orbitmq.remoting.clients import Clients
from orbitmq.remoting.host import Host
from orbitmq.remoting.locks import Locks
from orbitmq.remoting.members import Members
from orbitmq.remoting.name_server import NameServer
from orbitmq.remoting.offsets import Offsets
from orbitmq.remoting.pops import Pops
from orbitmq.remoting.producers import Producers
from orbitmq.remoting.request import NOT_SUPPORTED, SYSTEM_ERROR, Answer, Answers, Client, Done, Forward, Notice, Request
from orbitmq.remoting.send_backs import SendBacks
from orbitmq.remoting.sends import Sends


class Rare:
    """Answers for one broker."""

    """say: tells the operator a line."""

    def __init__(self, host: Host, say: Callable[[str], None]) -> None:
        self._say = say
        self._unknown = 0  # requests of codes that are not supported
        self.producers = Producers()
        self._members = Members(host)
        self._clients = Clients()
        self._offsets = Offsets(host)
        self._answers: Answers = {
            **NameServer(host).answers,
            **self._members.answers,
            **self._offsets.answers,
            **Locks(host).answers,
            **Pops(host).answers,
            **Assignments(host, self._members.consumers).answers,
            **Sends(host).answers,
            **SendBacks(host).answers,
            **Administration(host, self._clients, self._members.consumers, self.producers).answers,
        }

    def answer(self, request: Request) -> Answer | Forward | Done | Notice:
        """Never raises for what a client sent."""
        self.producers.hear(request)
        self._clients.hear(request)
        known = self._answers.get(request.code)
        if known is None:
            return self._refuse(request)
        try:
            return known(request)
        except (OrbitError, OSError) as error:  # before the others: some errors of ours are a ValueError, too
            return Answer(SYSTEM_ERROR, str(error))
        except KeyError as error:
            return Answer(SYSTEM_ERROR, f"the request has no field {error}")
        except (ValueError, OverflowError) as error:
            return Answer(SYSTEM_ERROR, f"the request has a field that cannot be read: {error}")

    def commit(self, group: str, offsets: list[tuple[str, int, int]]) -> None:
        """What members of the group have committed with pulls: topic, queue, offset."""
        self._offsets.take(group, offsets)

    def _refuse(self, request: Request) -> Answer:
        """In RocketMQ's words. The operator hears of the first one, the tenth, the hundredth, and so on."""
        self._unknown += 1
        if str(self._unknown).strip("0") == "1":
            count = "a request" if self._unknown == 1 else f"{self._unknown:,} requests"
            last = f"the last one with code {request.code} from {request.origin.address}"
            self._say(f"the gateway got {count} that it does not support, {last}")
        return Answer(NOT_SUPPORTED, f" request type {request.code} not supported")

    def look(self) -> None:
        """What is to be done though nobody asks; called at least every second."""
        self._members.look()

    def gone(self, client: Client) -> None:
        """A client that has asked something has no connection any more."""
        self._members.gone(client)
        self.producers.gone(client)
        self._clients.gone(client)
