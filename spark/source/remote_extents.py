"""What a cluster holds now, for planning: the offsets of the queues of the chosen topics, as its brokers tell them over TCP.

RocketMQ's protocol does not tell what is flushed. So everything counts that the brokers have accepted."""

from __future__ import annotations

from orbitmq.spark.servers.cluster import Cluster, Place
from orbitmq.spark.servers.route import order_of
from orbitmq.spark.servers.servers import Servers
from orbitmq.tables.choice import Choice

Held = dict[str, dict[int, tuple[int, int]]]


def of_servers(servers: Servers, choice: Choice) -> tuple[Held, tuple[str, ...]]:
    """Queue offsets [minimum, maximum) by partition, by topic; and the order of brokers that numbers the partitions. Other
    topics have no queues here, and are known only if one of the chosen is missing.

    Raises: as Cluster's calls; SettingError: as order_of.
    """
    with Cluster(servers) as cluster:
        names = list(choice.topics) if choice.pattern is None else [name for name in cluster.topics() if choice.takes(name)]
        routes = {topic: route for topic in names if (route := cluster.route(topic)) is not None}
        order = order_of(routes.values(), servers.brokers, lasting=servers.lasting)
        found: Held = {
            topic: {number: cluster.bounds(Place(holder, topic, queue)) for number, holder, queue in route.partitions(order)}
            for topic, route in routes.items()
        }
        if choice.pattern is None and len(found) < len(names):
            found = {name: {} for name in cluster.topics() if name not in names} | found
        return found, order
