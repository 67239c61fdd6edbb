"""What a cluster holds now, for planning: the offsets of the queues of the chosen topics, as its brokers tell them over TCP.

RocketMQ's protocol does not tell what is flushed. So everything counts that the brokers have accepted."""

from __future__ import annotations

from orbitmq.spark.servers.cluster import Cluster
from orbitmq.tables.choice import Choice


def of_servers(servers: str, choice: Choice, timeout: float) -> dict[str, dict[int, tuple[int, int]]]:
    """Queue offsets [minimum, maximum) by queue, by topic. Other topics have no queues here, and are known only if one of the
    chosen is missing. Raises: as Cluster's calls."""
    with Cluster(servers, timeout) as cluster:
        names = list(choice.topics) if choice.pattern is None else [name for name in cluster.topics() if choice.takes(name)]
        found: dict[str, dict[int, tuple[int, int]]] = {}
        for topic in names:
            route = cluster.route(topic)
            if route is not None:
                found[topic] = {queue: cluster.bounds(route, topic, queue) for queue in range(route.queues)}
        if choice.pattern is None and len(found) < len(names):
            found = {name: {} for name in cluster.topics() if name not in names} | found
        return found
