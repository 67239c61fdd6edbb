"""What a name server tells clients: which broker has a topic's queues. Here it is always this one, at the address that the
client has reached already, or at the broker's own (actors/listener.py)."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from orbitmq.remoting.promised_topics import shown_perm
from orbitmq.remoting.request import Request
from orbitmq.shm.topic_table import PERM_WRITE, Topic

CLUSTER = "DefaultCluster"
STANDARD = 401  # the version of RocketMQ 4.9.4, whose clients read standard JSON
FIVE = 413  # that of RocketMQ 5.0.0


class Reader(NamedTuple):
    """How a client reads a route. standard: JSON with quotes around the numbers of brokers; some older ones understand it only
    without, as they get it from RocketMQ. five: with what RocketMQ 5 adds; some of its clients read nothing without."""

    standard: bool
    five: bool


def reader(request: Request) -> Reader:
    """As RocketMQ's name servers decide it."""
    version = request.origin.version
    return Reader(version >= STANDARD or request.fields.get("acceptStandardJsonOnly") == "true", version >= FIVE)


def route(topic: Topic, broker: str, address: str, reader: Reader, *, writable: bool = True) -> bytes:
    """The body of an answer to a question for a topic's route. Compact, because Go's client splits it by text.
    writable: False: an administrator wants nothing written to this broker."""
    perm = shown_perm(topic)
    if not writable:
        perm &= ~PERM_WRITE
    return _body(
        {
            "brokerDatas": [_broker(broker, address, reader)],
            "filterServerTable": {},
            "queueDatas": [
                {
                    "brokerName": broker,
                    "perm": perm,
                    "readQueueNums": topic.queues,
                    "topicSysFlag": 0,
                    "writeQueueNums": topic.queues,
                }
            ],
        },
        reader,
    )


def cluster(broker: str, address: str, reader: Reader) -> bytes:
    """The body of an answer to a question for the cluster."""
    table = {broker: _broker(broker, address, reader)}
    return _body({"brokerAddrTable": table, "clusterAddrTable": {CLUSTER: [broker]}}, reader)


def _broker(broker: str, address: str, reader: Reader) -> dict[str, Any]:
    more = {"enableActingMaster": False} if reader.five else {}
    return {"brokerAddrs": {"0": address}, "brokerName": broker, "cluster": CLUSTER, **more}


def _body(value: object, reader: Reader) -> bytes:
    text = json.dumps(value, separators=(",", ":"))
    return (text if reader.standard else text.replace('"brokerAddrs":{"0":', '"brokerAddrs":{0:')).encode()
