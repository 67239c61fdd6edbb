"""What the store, the broker or the servers that a query's options name hold now, for planning."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from orbitmq.spark.source import remote_moments
from orbitmq.spark.source.options import SourceOptions
from orbitmq.tables import moments
from orbitmq.tables.extents import Snapshot, of_broker, of_store


def of_options(options: SourceOptions, *, wait: bool = True) -> Snapshot:
    """wait: as in of_broker. Raises: as of_store, of_broker and of_servers."""
    if options.servers is not None:
        from orbitmq.spark.source.remote_extents import of_servers

        held, order = of_servers(options.servers, options.choice)
        return Snapshot(Path(), 0, 0, None, held, brokers=order)
    if options.path is not None:
        return of_store(options.path, read=options.read, wait=wait)
    return of_broker(options.broker or "", read=options.read, wait=wait)


def settled(snapshot: Snapshot, options: SourceOptions) -> SourceOptions:
    """The options with offsets in place of their moments. Raises: as moments.settled, and as remote_moments.offsets_since."""
    servers = options.numbered(snapshot.brokers).servers
    since = None if servers is None else partial(remote_moments.offsets_since, servers)
    return moments.settled(snapshot, options, since)
