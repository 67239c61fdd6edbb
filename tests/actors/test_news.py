"""Goal: the supervisor learns from each actor whether it runs or why it cannot, in whole lines, whichever others write at the
same time. Method: any error; lines that arrive in pieces."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from orbitmq.actors.news import News
from orbitmq.errors import BrokerError, OrbitError, StoreFailed, StoreFull


@pytest.fixture
def news() -> Iterator[News]:
    made = News()
    yield made
    os.close(made.reader)
    os.close(made.writer)


def test_nothing_has_come(news: News) -> None:
    assert news.read() == []


def test_who_runs_and_who_cannot(news: News) -> None:
    news.tell_running()
    news.tell_failed(StoreFull("the disk is full", hint="free space", path="/store", free=3))
    runs, failed = news.read()
    assert (runs.pid, runs.error, failed.pid) == (os.getpid(), None, os.getpid())
    error = failed.error
    assert isinstance(error, StoreFull) and error.message == "the disk is full" and error.hint == "free space"
    assert (error.path, error.free) == ("/store", 3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(), st.text(), st.integers(1, 6000))
@example("\U0001f600", "", 6000)
@example("\ud800", "\U0001f600", 3000)
@example("x", "y", 6000)
def test_a_line_stays_whole_however_long_the_error_is(news: News, text: str, hint: str, times: int) -> None:
    """The kernel writes at most PIPE_BUF bytes in one piece; the kind of the error and its beginning are kept."""
    news.tell_failed(StoreFailed(text * times, hint=hint * times or None, path="/store"))
    content = os.read(news.reader, 1 << 16)
    assert len(content) <= select.PIPE_BUF and content.count(b"\n") == 1 and content.endswith(b"\n")
    os.write(news.writer, content)
    [item] = news.read()
    assert isinstance(item.error, StoreFailed) and (text * times).startswith(item.error.message)
    assert item.error.message or not text


def test_lines_in_pieces(news: News) -> None:
    news.tell_running()
    news.tell_failed(BrokerError("x"))
    content = os.read(news.reader, 1 << 16)
    found: list[OrbitError | None] = []
    for at in range(len(content)):
        os.write(news.writer, content[at : at + 1])
        found += [item.error for item in news.read()]
    assert found[0] is None and isinstance(found[1], BrokerError) and len(found) == 2


def test_a_full_pipe_is_an_error_and_no_half_line(news: News) -> None:
    with pytest.raises(BlockingIOError) as caught:
        while True:
            news.tell_running()
    assert caught.value.errno == errno.EAGAIN
    assert all(item.error is None for item in news.read())
