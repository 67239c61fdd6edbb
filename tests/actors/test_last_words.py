"""Goal: whoever asks why a process of the broker died finds what it said last: in the log, and in `orbitmq status`. Method: a
tree whose notifier ends in each way that there is; and the pipe of a child alone (actors/supervisor/child_output.py,
actors/post.py)."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

import orbitmq
from orbitmq.actors import events
from orbitmq.actors.actor import ActorError
from orbitmq.actors.notifier import Notifier
from orbitmq.actors.post import Post, received
from orbitmq.actors.supervisor.child_output import KEPT_CHARACTERS, KEPT_LINES, ChildOutput
from orbitmq.actors.supervisor.children import Child, child_process
from orbitmq.actors.supervisor.supervisor import main
from orbitmq.native._core import ffi, lib
from orbitmq.shm.death import Death
from orbitmq.shm.event import Event
from tests.trees import SMALL, actors
from tests.waiting import WATCHDOG_S, until


def assertion() -> None:
    lib.actor_page_add(ffi.NULL, 99, 1)  # asserts that there is such a counter


def failure() -> None:
    raise ActorError("the notifier failed: no room", actor="notifier", errno=28)


WAYS: dict[str, tuple[Callable[[], None], str, list[str]]] = {
    "kill": (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL", ["about to end"]),
    "assert": (assertion, "SIGABRT", ["about to end", "actor_page_add: Assertion `(uint32_t)which < COUNTERS' failed."]),
    "exception": (lambda: {}["lost"], "exit code 1", ["about to end", "KeyError: 'lost'"]),
    "error": (failure, "exit code 1", ["about to end", "the notifier failed: no room"]),
    "exit": (lambda: os._exit(3), "exit code 3", ["about to end"]),
}


@contextmanager
def dying(store: Path, log: Path, way: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[orbitmq.Client]:
    """A tree whose notifier ends so when it first runs, in a fork of this process."""
    run, struck = Notifier.run, store.with_name("struck")

    def die_once(notifier: Notifier, limit_ms: int) -> None:
        if not struck.exists() and notifier.tree.deaths == {}:
            struck.touch()
            events.warn("about to end")
            way()
        run(notifier, limit_ms)

    name = f"dying-{os.getpid()}"
    options = {**SMALL, "name": name, "log_file": str(log), "log_format": "json", "owner": os.getpid()}
    ours, theirs = socket.socketpair()
    supervisor = os.fork()
    if supervisor == 0:
        code = 1
        with suppress(BaseException):
            ours.close()
            monkeypatch.setattr(Notifier, "run", die_once)
            content = {"store": str(store), "options": options, "allow_deletion": False}
            code = main([json.dumps(content), str(theirs.detach())])
        os._exit(code)
    theirs.close()
    with ours, ours.makefile("rb") as lines:
        result = next(line for line in map(json.loads, lines) if "progress" not in line)
        assert "ready" in result, result
        ours.sendall(b"\n")
    with orbitmq.connect(name, timeout=WATCHDOG_S) as client:
        yield client
        client.stop_broker()
    assert os.waitstatus_to_exitcode(os.waitpid(supervisor, 0)[1]) == 0


@pytest.mark.parametrize("kind", WAYS)
def test_in_the_log_and_in_status(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    way, ended, words = WAYS[kind]
    log = tmp_path / "b.log"
    with dying(tmp_path / "store", log, way, monkeypatch) as client:
        until(lambda: actors(client)["notifier"].epoch == 2, "the notifier's next life")
        [death] = until(lambda: client.status().deaths, "the death in the status")
        assert (death.actor, death.life, death.ended) == ("notifier", 1, ended)
        assert isinstance(death, Death) and told(death.words, words)
        os.kill(actors(client)["coordinator"].pid, signal.SIGKILL)
        until(lambda: actors(client)["coordinator"].epoch == 2, "the coordinator's next life")
        lives = {each.actor: each.ended for each in until(client.status, "an answer").deaths}
        assert lives == {"notifier": ended, "coordinator": "SIGKILL"}, "its successor knows the ones before"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    [line] = [each for each in lines if each.get("fields", {}).get("died") == "notifier"]
    assert (line["level"], line["actor"], line["fields"]["ended"]) == ("error", "supervisor", ended)
    assert line["fields"]["process"] == death.pid and tuple(line["fields"]["last_words"]) == death.words
    if kind in ("assert", "exception"):  # in the log by themselves, too
        said = [f"{each['message']}\n{each.get('exception', '')}" for each in lines if each["pid"] == death.pid]
        assert told(said, words)


def told(lines: list[str] | tuple[str, ...], words: list[str]) -> bool:
    """The words come in these lines, in this order, and the last ones last."""
    places = [max((place for place, line in enumerate(lines) if word in line), default=-1) for word in words]
    return -1 not in places and places == sorted(places) and places[-1] == len(lines) - 1


@contextmanager
def child(deed: Callable[[], int], keep: Collection[int] = ()) -> Iterator[tuple[ChildOutput, list[Event]]]:
    """A process that has ended, whose pipe nobody has read yet."""
    heard: list[Event] = []
    output = ChildOutput("notifier", heard.append)
    pid = child_process(deed, keep, output)
    os.waitpid(pid, 0)
    assert output.pid == pid
    yield output, heard


def chatter() -> int:
    for number in range(30):
        events.info(f"line {number}")
    os.write(2, b"\n   \nraw\xff\nwithout an end")
    return 0


def test_what_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """The last lines, also those that no logger wrote."""
    caplog.set_level("INFO")
    with child(chatter) as (output, heard):
        words = output.end()
    assert words == (*(f"line {number}" for number in range(30 - KEPT_LINES + 2, 30)), "raw\ufffd", "without an end")
    assert [event.level_name for event in heard] == ["info"] * 30 + ["error"] * 2
    assert all(event.actor == "notifier" and event.pid == output.pid for event in heard)


def test_long_words() -> None:
    """The last of them count; all of them fit what the coordinator takes at once."""
    with child(lambda: events.warn("first") or events.error("x" * 3000) or events.error("y" * 3000) or 0) as (output, _):
        words = output.end()
    assert words == ("x" * (KEPT_CHARACTERS - 3000), "y" * 3000)


def test_somebody_else_keeps_the_pipe_open() -> None:
    """A process that the dead one has forked does not hold up the supervisor."""
    reader, writer = os.pipe()

    def leave_one() -> int:
        if os.fork() == 0:
            select.select([reader], [], [])
            os._exit(0)
        events.warn("the last")
        return 0

    with child(leave_one, {reader}) as (output, _):
        assert output.end() == ("the last",)
    os.close(writer)  # which ends it
    os.close(reader)


def test_a_signal_for_all_processes() -> None:
    """`systemctl kill -s USR1` sends it to all of them; the actors are to go on."""
    with child(lambda: os.kill(os.getpid(), signal.SIGUSR1) or events.warn("lives") or 0) as (output, _):
        assert output.end() == ("lives",)


def end_as(code: int) -> int:
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


def test_reaped() -> None:
    """How a child ended, in words."""
    nameless = signal.SIGRTMIN + 3
    for code, ended in ((3, "exit code 3"), (-signal.SIGBUS, "SIGBUS"), (-nameless, f"signal {nameless}")):
        output = ChildOutput("x", lambda _: None)
        pid = child_process(partial(end_as, code), set(), output)
        one = Child(spec=type("Spec", (), {"id": "x"})(), pid=pid, pidfd=os.pidfd_open(pid), epoch=2, output=output)
        select.select([one.pidfd], [], [])
        death = one.reaped()
        assert (death.actor, death.pid, death.life, death.ended) == ("x", pid, 2, ended)


def test_the_coordinator_hears_later() -> None:
    """It does not read for a while; nothing waits for it, and nothing is lost."""
    post, listener = Post(), socket.socket()
    theirs = post.fresh(listener)
    deaths = [Death("flush", number, number, 1.5, "SIGKILL", ("w" * 3900, "\udcff")) for number in range(200)]
    for death in deaths:
        post.tell(death, listener)
    with socket.socket() as another:
        found = []
        while len(found) < len(deaths):
            post.look(another)
            got = received(theirs)
            assert got is not None
            if got[0] is not None:
                got[0].close()
            found += [got[1]] if got[1] is not None else []
    assert [each.pid for each in found] == list(range(200)) and found[0].words == ("w" * 3900, "\\udcff")
    post.tell(deaths[0], listener)
    with listener, post.fresh(listener) as fresh:
        fresh.setblocking(False)
        with pytest.raises(BlockingIOError):
            fresh.recv(10)  # a new coordinator is born with what it has to know
    theirs.close()
