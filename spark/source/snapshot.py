"""What the store, the broker or the servers that a query's options name hold now, for planning."""

from __future__ import annotations

from pathlib import Path

from orbitmq.spark.source.options import SourceOptions
from orbitmq.tables.extents import Snapshot, of_broker, of_store


def of_options(options: SourceOptions, *, wait: bool = True) -> Snapshot:
    """wait: as in of_broker. Raises: as of_store, of_broker and of_servers."""
    if options.servers is not None:
        from orbitmq.spark.source.remote_extents import of_servers

        return Snapshot(Path(), 0, 0, None, of_servers(options.servers, options.choice, options.timeout))
    if options.path is not None:
        return of_store(options.path, read=options.read, wait=wait)
    return of_broker(options.broker or "", read=options.read, wait=wait)
