"""A process that commits one batch of the sink's, so that it can be killed (committing.py). Its argument says in JSON: "store"
or "servers", where rows are staged, what Target or Servers get, the staged rows, and whether they are named."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from orbitmq.spark.servers.servers import Servers
from orbitmq.spark.sink.commit import Target, commit
from orbitmq.spark.sink.remote_target import RemoteTarget
from orbitmq.spark.sink.staging import StagedRows, Staging
from orbitmq.spark.sink.state import Query


def main(kind: str, home: str, target: list[Any], staged: list[dict[str, Any]], named: bool) -> None:
    remote = kind == "servers"
    place = Staging(Path(home), shared=remote)
    rows = [StagedRows(**each) for each in staged]
    commit(place, RemoteTarget(Servers(*target)) if remote else Target(*target), Query.of(place, "q"), 7, rows, named=named)


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
