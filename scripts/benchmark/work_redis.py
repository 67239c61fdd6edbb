"""Jobs of a Redis stream, done by two workers of a group. Runs where redis-py is: see work_peers.py.
usage: python -m scripts.benchmark.work_redis SERVER FOLDER batches|each JOBS. Prints jobs a second, and ns of processor time a
job of the workers and of the server."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable

import redis
import redis.backoff
import redis.retry

from scripts.benchmark.load import SMALL
from scripts.benchmark.work_done import IDLE_S, measured, until

STREAM, GROUP = "jobs", "workers"


def worker(path: str, name: str, most: int) -> Callable[[], tuple[int, int]]:
    """Acknowledges what is done and asks for more in one round trip."""
    client = redis.Redis(unix_socket_path=path)
    client.ping()

    def act() -> tuple[int, int]:
        done, last, ids = 0, 0, []
        while True:
            pipe = client.pipeline(transaction=False)
            if ids:
                pipe.xack(STREAM, GROUP, *ids)
            pipe.xreadgroup(GROUP, name, {STREAM: ">"}, count=most, block=int(IDLE_S * 1000))
            found = pipe.execute()[-1]
            if not found:
                return done, last
            jobs = next(iter(found.values()))[0] if isinstance(found, dict) else found[0][1]
            ids = [job[0] for job in jobs]
            done, last = done + len(jobs), until()

    return act


def main(program: str, folder: str, how: str, jobs: int) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = f"{place}/socket"
        settings = ["--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0", "--save", ""]
        command = [program, "--port", "0", "--unixsocket", path, "--dir", place, *settings]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            try:
                client = redis.Redis(unix_socket_path=path, retry=redis.retry.Retry(redis.backoff.ConstantBackoff(0.05), 200))
                client.ping()
                client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
                for at in range(0, jobs, 1000):
                    pipe = client.pipeline(transaction=False)
                    for body in SMALL.bodies[: min(1000, jobs - at)]:
                        pipe.xadd(STREAM, {"b": body})
                    pipe.execute()
                most = 1000 if how == "batches" else 1
                print(measured(server.pid, jobs, [(worker, path, name, most) for name in ("one", "two")]))
                assert client.xpending(STREAM, GROUP)["pending"] == 0, "not all jobs were acknowledged"
            finally:
                server.terminate()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
