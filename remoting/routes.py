"""What a name server tells clients: which broker has a topic's queues. Here it is always this one, at the address that the
client has reached already, or at the broker's own (actors/listener.py)."""

from __future__ import annotations

import json
from typing import Any

from orbitmq.remoting.promised_topics import shown_perm
from orbitmq.shm.topic_table import PERM_WRITE, Topic

CLUSTER = "DefaultCluster"


def route(topic: Topic, broker: str, address: str, *, writable: bool = True) -> bytes:
    """The body of an answer to a question for a topic's route. Compact, because Go's client splits it by text; with quoted
    keys, which all clients read. writable: False: an administrator
    wants nothing written to this broker."""
    perm = shown_perm(topic)
    if not writable:
        perm &= ~PERM_WRITE
    return _compact(
        {
            "brokerDatas": [_broker(broker, address)],
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
        }
    )


def cluster(broker: str, address: str) -> bytes:
    """The body of an answer to a question for the cluster."""
    return _compact({"brokerAddrTable": {broker: _broker(broker, address)}, "clusterAddrTable": {CLUSTER: [broker]}})


def _broker(broker: str, address: str) -> dict[str, Any]:
    return {"brokerAddrs": {"0": address}, "brokerName": broker, "cluster": CLUSTER}


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
