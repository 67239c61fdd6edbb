"""Goal: `orbitmq request` prints the reply and nothing else, or says why there is none."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import orbitmq
from orbitmq.cli.exit_codes import code_of
from orbitmq.errors import RequestTimeout
from tests.cli.commands import run
from tests.trees import small_broker
from tests.waiting import WATCHDOG_S

# Each test is many processes, and the limit is for tests that hang.
pytestmark = pytest.mark.timeout(600)


def test_request(tmp_path: Path) -> None:
    with small_broker(tmp_path, name="asked") as broker:
        broker.create_topic("rpc", 2)
        with broker.worker("serve", ["rpc"]) as worker:

            def serve(job: orbitmq.Job) -> None:
                message = job.message
                job.reply(f"{job.body!r} {message.tags} {message.keys} {message.queue}")

            serving = threading.Thread(target=worker.run, args=(serve,))
            serving.start()
            where = ("--name", "asked", "--timeout", str(WATCHDOG_S))
            done = run("request", "rpc", "hello", *where, "--tag", "t", "--key", "a", "--key", "b", "--queue", "1")
            assert (done.returncode, done.stdout, done.stderr) == (0, "b'hello' t ['a', 'b'] 1", "")
            done = run("request", "rpc", "-", *where, feed="line 1\nline 2")
            assert done.stdout.startswith(r"b'line 1\nline 2' None []")
            worker.stop()
            serving.join(WATCHDOG_S)
        late = run("request", "rpc", "x", "--name", "asked", "--timeout", "0.05")
        assert late.returncode == code_of(RequestTimeout("x")) and late.stdout == ""
        assert "could not get a reply" in late.stderr and "raise --timeout" in late.stderr
        wrong = run("request", "rpc", "x", "--name", "asked", "--timeout", "0")
        assert wrong.returncode and "above 0" in wrong.stderr
