"""Goal: the parts of the transport that decide something: names, the stored form of a message, options, and what extends what
is in hand. Method: properties, tables, and doubles of sources and of what they are built on."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.contrib.kombu.envelope import due_of, labels, packed, to_be_kept, unpacked, was_kept
from orbitmq.contrib.kombu.hands import Hands
from orbitmq.contrib.kombu.log_source import LogSource
from orbitmq.contrib.kombu.names import broker_of, exchange_topic, topic_of
from orbitmq.contrib.kombu.options import Options, options_of
from orbitmq.contrib.kombu.source import Arrival, Source
from orbitmq.contrib.kombu.work_source import WorkSource
from orbitmq.errors import NoMeans, SettingError, TimedOut
from orbitmq.shm.topic_name import check_new_topic_name
from tests.waiting import until

NAMES = st.text(min_size=1, max_size=10)


@given(NAMES, NAMES)
def test_names(one: str, other: str) -> None:
    """Any name of a queue becomes one that a topic may have, and two never the same one, nor one of an exchange."""
    check_new_topic_name(topic_of(one) + "-")  # the dash: none of RocketMQ's own
    check_new_topic_name(exchange_topic(one))
    assert (topic_of(one) == topic_of(other)) == (one == other)
    assert exchange_topic(one) != topic_of(other) and (exchange_topic(one) == exchange_topic(other)) == (one == other)


def test_a_usual_name_stays() -> None:
    assert topic_of("celery") == "celery" and topic_of("video.encode") == "video%2Eencode"


@pytest.mark.parametrize(
    ("url", "name", "store"),
    [
        ("orbitmq://", None, None),
        ("orbitmq:///", None, None),
        ("orbitmq://Shop-1", "Shop-1", None),
        ("orbitmq:///srv/a%20b/store/", None, "/srv/a b/store"),
    ],
)
def test_urls(url: str, name: str | None, store: str | None) -> None:
    assert broker_of(url) == (name, store)


@pytest.mark.parametrize("url", ["orbitmq://shop/srv/store", "orbitmq:///srv/store?max_tries=3"])
def test_urls_that_say_too_much(url: str) -> None:
    with pytest.raises(SettingError, match="could not find a broker by"):
        broker_of(url)


@given(st.binary() | st.text(), st.dictionaries(st.text(), st.text() | st.integers()))
def test_a_message_comes_back(body: bytes | str, headers: dict[str, str | int]) -> None:
    payload = {"body": body, "headers": headers, "content-type": "x/y", "properties": {"delivery_info": {}, "priority": 3}}
    read = unpacked(packed(payload))
    assert read == {**payload, "body": body.encode() if isinstance(body, str) else body}


@given(st.binary() | st.binary().map(lambda tail: b'{"kombu"' + tail) | st.just(b'{"kombu": 1, "properties": 3}\nx'))
def test_anything_can_be_read(stored: bytes) -> None:
    """What no kombu has written reaches consumers whole."""
    read = unpacked(stored)
    assert read["body"] == stored and read["content-type"] == "application/data"


@pytest.mark.parametrize(
    "line",
    [
        b'{"kombu": 1, "properties": {}, "headers": 3}',
        b'{"kombu": 1, "properties": {"delivery_info": 3}, "headers": {}}',
        b'{"kombu": 1, "properties": {"delivery_info": {"routing_key": 3}}, "headers": {}}',
        b'{"kombu": 1, "properties": {}, "headers": {"eta": {"__type__": "datetime", "__value__": 3}}}',
        b'{"kombu": 1, "properties": {"body_encoding": "x"}, "headers": {}}',
        b'{"kombu": 1, "properties": ' + b"[" * 100_000,
    ],
    ids=["headers", "delivery", "key", "value", "encoding", "depth"],
)
def test_what_only_looks_like_kombus(line: bytes) -> None:
    assert unpacked(line + b"\nx")["body"] == line + b"\nx"


def test_a_line_that_says_little() -> None:
    payload = unpacked(b'{"kombu": 1, "properties": {}}\nx')
    was_kept(payload)
    assert payload == {"properties": {"delivery_info": {}}, "headers": {}, "body": b"x"}


@pytest.mark.parametrize("value", ["two words", "", "a|b", "x" * 256, "tab\t", 3, None])
def test_labels_that_cannot_be(value: object) -> None:
    assert labels({"headers": {"id": value, "task": value}, "properties": {}}) == (None, None)


def test_labels() -> None:
    assert labels({"headers": {"id": "1", "task": "a.b"}, "properties": {}}) == ("a.b", "1")
    assert labels({"headers": None, "properties": {"correlation_id": "7"}}) == (None, "7")


def at(**later: float) -> dict[str, str]:
    return {"eta": (datetime.now(UTC) + timedelta(**later)).isoformat()}


def test_when_a_task_is_to_run() -> None:
    """What is over, too far away, or says no zone is not for the broker; only what is over loses its time."""
    kept = {"headers": at(hours=1)}
    assert to_be_kept(kept) == pytest.approx(time.time() + 3600, abs=600)
    was_kept(kept)
    assert kept["headers"]["eta"]
    over = {"headers": at(seconds=-1)}
    assert to_be_kept(over) is None
    was_kept(over)
    assert over["headers"] == {"eta": None}
    for headers in ({}, None, {"eta": None}, {"eta": "noon"}, {"eta": 3}, {"eta": datetime.now().isoformat()}, at(days=400)):
        assert to_be_kept({"headers": headers}) is None
    early = datetime(2030, 1, 1, microsecond=1, tzinfo=UTC)
    assert due_of({"eta": early.isoformat()}) == early.timestamp().__floor__() + 0.001  # never before it


def test_options() -> None:
    assert options_of({"queues": 1, "max_retries": 3, "polling_interval": 1}) == Options(queues=1)
    with pytest.raises(SettingError, match="there is no such option; did you mean visibility_timeout"):
        options_of({"visibilty_timeout": 3})


class OneSource:
    """Remembers what it is told. late: what it says was settled too late."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.late: list[str] = []
        self.deadline = time.monotonic()

    def ack(self, hand_out: OneSource) -> None:
        self.told.append("ack")

    def requeue(self, hand_out: OneSource) -> None:
        self.told.append("requeue")

    def give_back(self, hand_out: OneSource) -> None:
        self.told.append("give_back")

    def extend(self, hand_out: OneSource, seconds: float) -> None:
        self.told.append(f"extend {seconds:g}")
        self.deadline = time.monotonic() + seconds

    def too_late(self) -> list[str]:
        late, self.late = self.late, []
        if not late:
            raise TimedOut("could not see the broker apply all answers", timeout=0.0)
        return late


@pytest.mark.parametrize("how", ["ack", "requeue", "give_back"])
def test_settled_once(how: str) -> None:
    hands, source = Hands(3600.0), OneSource()
    source.deadline += 3600
    tag = hands.add(source, source)
    getattr(hands, how)(tag)
    for again in ("ack", "requeue", "give_back"):
        getattr(hands, again)(tag)
    assert source.told == [how] and not len(hands)
    hands.close()


def test_what_is_in_hand_is_extended(caplog: pytest.LogCaptureFixture) -> None:
    """Again and again, until it is settled; and what was settled too late is named in the log."""
    hands, source = Hands(0.1), OneSource()
    tag = hands.add(source, source)
    until(lambda: source.told.count("extend 0.1") > 3, "extensions")
    with caplog.at_level(logging.WARNING, "orbitmq"):
        source.late = ["celery/0@7"]
        until(lambda: not source.late, "a look at what was late")
        until(lambda: "celery/0@7 was settled too late" in caplog.text, "the line")
    hands.ack(tag)
    hands.close()
    assert source.told.count("ack") == 1


class LateLink:
    """A link, and the session of its one topic. The broker hands its one message to the session between two of its looks, so
    that it is nobody's no more when the link asks. comes: there is such a message."""

    def __init__(self, comes: bool) -> None:
        self.comes = comes
        self.told: list[str] = []
        self.options = Options()

    def session(self, topic: str) -> LateLink:
        return self

    def wrote(self) -> int:
        return 7

    def reached(self, position: int) -> bool:
        return True

    def free(self, topic: str, timeout: float) -> int:
        self.told.append("free")
        return 0

    def take(self, most: int, timeout: float | None) -> list[LateLink]:
        self.told.append("take")
        return [self] if self.comes and "free" in self.told else []

    def give_back(self, hand_outs: Sequence[LateLink]) -> None:
        assert not hand_outs
        self.told.append("give_back")

    delivery = 1
    message = packed({"body": b"x", "headers": {}, "properties": {}})


@pytest.mark.parametrize("comes", [True, False])
def test_what_was_handed_over_meanwhile_is_got(comes: bool) -> None:
    """Of a queue that has nothing free, `get` returns what this session has by then; if it has nothing, it wants no more."""
    link = LateLink(comes)
    got = WorkSource("q", threading.Condition(), link)._get()  # type: ignore[arg-type]  # what it uses of a link
    assert (got is not None and got.payload["body"] == b"x") is comes
    assert link.told == ["take", "free", "take", "give_back"], "and nothing more is handed over when nobody asks"


class BusyLink:
    """A link, and the reader of its one topic, to which a message comes whenever the reader waits for one."""

    topic = exchange_topic("")

    def __init__(self) -> None:
        self.looks = 0
        self.polls = 0

    def make_exchange(self, topic: str) -> None:
        assert topic == self.topic

    def reader(self, topics: list[str]) -> BusyLink:
        return self

    def resume(self) -> None:
        pass

    def wrote(self) -> int:
        return 7

    def reached(self, position: int) -> bool:
        self.looks += 1
        return self.looks > 1

    def poll_batch(self, most: int, timeout: float | None) -> list[BusyLink]:
        self.polls += 1
        assert self.polls < 100, "it reads on for ever"
        return [self] if timeout else []

    def __bytes__(self) -> bytes:
        return packed({"body": b"x", "headers": {}, "properties": {"delivery_info": {"routing_key": "q"}}})


def test_a_steady_stream_has_a_size() -> None:
    """What comes while reput is behind makes nobody read on for ever."""
    assert LogSource("q", threading.Condition(), BusyLink()).size == 1  # type: ignore[arg-type]  # what it uses of a link


class Ending(Source):
    """Its thread meets an error."""

    def __init__(self, error: BaseException) -> None:
        super().__init__("celery", threading.Condition())
        self._error = error

    def _take(self) -> Arrival | None:
        raise self._error

    def _get(self) -> Arrival | None:
        return None

    def _interrupt(self) -> None:
        pass

    def _rest(self, arrival: Arrival | None) -> None:
        pass

    def wanted(self) -> None:
        with self._news:
            self.want(True)

    def ended(self) -> BaseException | None:
        """By what."""
        try:
            with self._news:
                self.fetch()
        except BaseException as error:
            return error
        return None


@pytest.mark.parametrize(
    ("error", "told"),
    [(OSError(errno.EMFILE, os.strerror(errno.EMFILE)), NoMeans), (KeyError("headers"), KeyError), (SystemExit(1), SystemExit)],
    ids=["descriptors", "mistake", "exit"],
)
def test_whatever_ends_the_thread_is_told(error: BaseException, told: type[BaseException]) -> None:
    """Once, and again if the next thread meets it."""
    source = Ending(error)
    for _ in range(2):
        source.wanted()
        ended = until(source.ended, "what ended the thread")
        assert isinstance(ended, told) and error in (ended, ended.__cause__)
        assert source.ended() is None
    source.close()


def test_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one who wants a message tries again."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    source = Ending(TimedOut("could not wait"))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(2):
            with pytest.raises(NoMeans, match="could not consume the queue 'celery': no thread can be started"):
                source.wanted()
    source.wanted()
    assert isinstance(until(source.ended, "what ended the thread"), TimedOut)
    source.close()
