"""Everything that administrators ask: what mqadmin sends, beyond what clients send too."""

from __future__ import annotations

from orbitmq.remoting.admin.accounts import Accounts
from orbitmq.remoting.admin.broker_changes import BrokerChanges
from orbitmq.remoting.admin.brokers import Brokers
from orbitmq.remoting.admin.connections import Connections
from orbitmq.remoting.admin.groups import Groups
from orbitmq.remoting.admin.log_view import LogView
from orbitmq.remoting.admin.messages import Messages
from orbitmq.remoting.admin.name_server_values import NameServerValues
from orbitmq.remoting.admin.questions import Questions
from orbitmq.remoting.admin.queue_units import QueueUnits
from orbitmq.remoting.admin.topics import Topics
from orbitmq.remoting.clients import Clients
from orbitmq.remoting.consumers import Consumers
from orbitmq.remoting.host import Host
from orbitmq.remoting.producers import Producers
from orbitmq.remoting.request import Answers


class Administration:
    def __init__(self, host: Host, clients: Clients, consumers: Consumers, producers: Producers) -> None:
        log = LogView(host)
        connections = Connections(host, log, clients, consumers, producers)
        topics = Topics(host, log), QueueUnits(host, log, consumers), Messages(host, log)
        brokers = Brokers(host, log), BrokerChanges(host), NameServerValues(host), Accounts(host)
        kinds = *topics, *brokers, Groups(host, log, consumers), connections, Questions(host, log, consumers)
        self.answers: Answers = {code: answer for kind in kinds for code, answer in kind.answers.items()}
