"""Jobs of a JetStream stream in a file, done by two workers of a consumer. Runs where nats-py is: see work_peers.py.
usage: python -m scripts.benchmark.work_nats SERVER FOLDER batches|each JOBS. Prints jobs a second, and ns of processor time a
job of the workers and of the server.

In batches, a worker fetches, and acknowledges each job: the protocol knows no ack of several. One at a time, the server pushes
up to 2,000 jobs ahead."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
from nats.js.api import AckPolicy, ConsumerConfig, StorageType, StreamConfig

from scripts.benchmark.load import SMALL
from scripts.benchmark.work_done import IDLE_S, measured, until

SUBJECT, GROUP, IN_HAND = "jobs.new", "workers", 2000


def worker(url: str, how: str) -> Callable[[], tuple[int, int]]:
    loop = asyncio.new_event_loop()

    async def opened() -> tuple[Any, Any]:
        client = await nats.connect(url)
        stream = client.jetstream()
        if how == "batches":
            return client, await stream.pull_subscribe(SUBJECT, durable=GROUP)
        return client, await stream.subscribe(SUBJECT, queue=GROUP, durable=GROUP, manual_ack=True)

    async def batches(jobs: Any) -> tuple[int, int]:
        done = last = 0
        while True:
            try:
                found = await jobs.fetch(1000, timeout=IDLE_S)
            except TimeoutError:  # of asyncio; the one of nats-py is derived from it
                return done, last
            for job in found:
                await job.ack()
            done += len(found)
            if len(found) == 1000 or not last:  # fetch waits for a full list, in vain at the end
                last = until()

    async def each(jobs: Any) -> tuple[int, int]:
        done = last = 0
        while True:
            try:
                job = await jobs.next_msg(timeout=IDLE_S)
            except TimeoutError:  # of asyncio; the one of nats-py is derived from it
                return done, last
            await job.ack()
            done, last = done + 1, until()

    async def work(client: Any, jobs: Any) -> tuple[int, int]:
        found = await (batches if how == "batches" else each)(jobs)
        await client.flush()
        return found

    if how == "batches":
        client, jobs = loop.run_until_complete(opened())
        return lambda: loop.run_until_complete(work(client, jobs))

    async def pushed() -> tuple[int, int]:
        return await work(*await opened())  # the server pushes from here on

    return lambda: loop.run_until_complete(pushed())


async def fill(url: str, how: str, jobs: int) -> None:
    client = await nats.connect(url)
    stream = client.jetstream(publish_async_max_pending=1000)
    await stream.add_stream(StreamConfig(name="jobs", subjects=["jobs.*"], storage=StorageType.FILE))
    for at in range(jobs):
        await stream.publish_async(SUBJECT, SMALL.bodies[at % 1000])
    await stream.publish_async_completed()
    push = {"deliver_subject": "pushed", "deliver_group": GROUP} if how == "each" else {}
    await stream.add_consumer(
        "jobs", ConsumerConfig(durable_name=GROUP, ack_policy=AckPolicy.EXPLICIT, max_ack_pending=IN_HAND, **push)
    )
    await client.close()


async def left(url: str) -> int:
    client = await nats.connect(url)
    found = await client.jetstream().consumer_info("jobs", GROUP)
    await client.close()
    return int(found.num_pending + found.num_ack_pending)


def main(program: str, folder: str, how: str, jobs: int) -> None:
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as place:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        url, settings = f"nats://127.0.0.1:{port}", Path(place, "settings")
        settings.write_text(f'jetstream {{\n  store_dir: "{place}/store"\n}}\n')
        command = [program, "-a", "127.0.0.1", "-p", str(port), "-c", str(settings)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                asyncio.run(fill(url, how, jobs))
                print(measured(server.pid, jobs, [(worker, url, how)] * 2))
                assert asyncio.run(left(url)) == 0, "not all jobs were acknowledged"
            finally:
                server.terminate()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
