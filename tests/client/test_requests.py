"""Goal: a request gets its reply, from a consumer, a worker or a coroutine, and nothing else counts as its reply. Method: a
real broker; what cannot come from a well-behaved responder is put into the topic of replies by a producer of the test."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import orbitmq
from orbitmq.client.aio.requests import AsyncRequests
from orbitmq.client.producer.settings import MESSAGE_MAX, MESSAGE_USUAL
from orbitmq.client.request.call import CallTable
from orbitmq.client.request.call_producer import CallProducer, message_max_for
from orbitmq.client.request.calls import Calls, calls_of
from orbitmq.client.request.request_form import REPLY_TO_CLIENT, is_request, new_client_id, request_properties
from orbitmq.errors import (
    Closed,
    MessageTooLarge,
    PropertyError,
    RequestTimeout,
    Retry,
    SettingError,
    TopicNameError,
    UnknownQueue,
    UnknownTopic,
    UsageError,
)
from orbitmq.native._types import Message
from orbitmq.shm.reply_topic import REPLY_HOURS, REPLY_QUEUES, REPLY_TOPIC, reply_queue
from orbitmq.store.config import DataVersion, TopicConfig, store_topics
from orbitmq.store.layout import StoreLayout
from tests.client.awaitable import run_watched
from tests.trees import small_broker
from tests.waiting import WATCHDOG_S, until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[orbitmq.Broker]:
    sizes = {"log_file_size": 16 << 20, "lane_capacity": 16 << 20, "message_max": 4 << 20}
    with small_broker(tmp_path_factory.mktemp("store"), **sizes) as broker:
        yield broker


@contextmanager
def responder(broker: orbitmq.Client, topic: str, answer: Callable[[Message], object]) -> Iterator[None]:
    """A consumer in a thread that calls `answer` with each message. Raises what it raises."""
    broken: list[BaseException] = []
    with broker.consumer(None, [topic]) as consumer:

        def run() -> None:
            try:
                for message in consumer:
                    answer(message)
            except BaseException as error:
                broken.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            consumer.interrupt()
            consumer.close()
            thread.join(WATCHDOG_S)
    assert not thread.is_alive()
    kept = [error for error in broken if not isinstance(error, orbitmq.errors.Interrupted)]
    if kept:
        raise kept[0]


def upper(message: Message) -> None:
    message.reply(bytes(message).upper())


def test_what_is_on_disk(broker: orbitmq.Broker, name: str) -> None:
    """Goal: requests and replies have RocketMQ's properties, and the topic of replies its name; each requester's replies are in
    one queue and have its tag."""
    broker.create_topic(name, 1)
    calls = calls_of(broker.connection)
    with responder(broker, name, lambda each: each.reply("ok", keys="k1", properties={"mine": "1"}, flag=3)):
        reply = broker.request(name, b"hello", WATCHDOG_S, tags="t", keys=["a", "b"], properties={"own": "2"}, flag=-5)
    with broker.consumer(None, [name]) as consumer:
        request = consumer.poll(WATCHDOG_S)
    assert request is not None and request.tags == "t" and request.keys == ["a", "b"] and request.flag == -5
    number = request.properties["CORRELATION_ID"]
    common = {"CORRELATION_ID": number, "REPLY_TO_CLIENT": calls.client_id, "TTL": str(int(WATCHDOG_S * 1000))}
    assert request.properties == {"TAGS": "t", "KEYS": "a b", "own": "2", **common}
    assert reply.properties == {"TAGS": calls.client_id, "KEYS": "k1", "mine": "1", "MSG_TYPE": "reply", **common}
    assert (bytes(reply), reply.flag, reply.topic) == (b"ok", 3, "DefaultCluster_REPLY_TOPIC")
    (topic,) = [each for each in broker.topics() if each.name == REPLY_TOPIC]
    assert (topic.queues, topic.perm, topic.retention_hours) == (REPLY_QUEUES, 6, REPLY_HOURS)
    assert reply.queue == reply_queue(calls.client_id, REPLY_QUEUES)
    assert is_request(request.properties) and not is_request(reply.properties)


def test_threads_tasks_and_workers(broker: orbitmq.Broker, name: str) -> None:
    """Goal: many requests at once, of threads and tasks, get their own replies. Half of them are answered by workers."""
    broker.create_topic(name, 2)
    broker.create_topic(f"{name}-jobs", 2)
    wrong: list[object] = []

    def ask(client: orbitmq.Client, first: int) -> None:
        for number in range(first, first + 25):
            topic = name if number % 2 else f"{name}-jobs"
            if bytes(client.request(topic, f"m{number}", WATCHDOG_S)) != b"M%d" % number:
                wrong.append(number)

    async def ask_later() -> list[bytes]:
        async with orbitmq.aio.connect(broker.name) as client:
            both = (name, f"{name}-jobs")
            return [bytes(each) for each in await asyncio.gather(
                *(client.request(both[number % 2], f"a{number}", WATCHDOG_S) for number in range(100))
            )]  # fmt: skip

    worker = broker.worker(f"{name}-group", [f"{name}-jobs"], concurrency=2)
    working = threading.Thread(target=worker.run, args=(lambda job: job.reply(job.body.upper()),))
    with responder(broker, name, upper), orbitmq.connect(broker.name) as other:
        working.start()
        clients = (broker, broker, other, other)
        threads = [threading.Thread(target=ask, args=(client, 100 * at)) for at, client in enumerate(clients)]
        for thread in threads:
            thread.start()
        assert run_watched(ask_later()) == [b"A%d" % number for number in range(100)]
        for thread in threads:
            thread.join(WATCHDOG_S)
        worker.stop()
        working.join(WATCHDOG_S)
        worker.close()
    assert wrong == [] and not any(thread.is_alive() for thread in (*threads, working))


def test_a_loop_replies(broker: orbitmq.Broker, name: str) -> None:
    """Goal: the awaitable client replies too, and to messages of any consumer."""
    broker.create_topic(name, 1)

    async def main() -> bytes:
        async with orbitmq.aio.connect(broker.name) as client:
            asked = asyncio.create_task(client.request(name, b"x", WATCHDOG_S, keys="k"))
            assert isinstance(client, AsyncRequests)
            consumer = await client.consumer(None, [name])
            message = await consumer.poll(WATCHDOG_S)
            assert message is not None
            assert (await client.reply(message, memoryview(b"yes"), properties={"p": "q"})).topic == REPLY_TOPIC
            with pytest.raises(UsageError, match="it is a reply itself"):
                await client.reply(await asked, b"x")
            return bytes(await asked)

    assert run_watched(main()) == b"yes"


def test_no_reply(broker: orbitmq.Broker, name: str) -> None:
    """Goal: the error says what is known about the request, and a late reply harms nobody."""
    broker.create_topic(name, 1)
    calls = calls_of(broker.connection)
    calls.start()  # now, so that the time is not over before the request is sent
    with pytest.raises(RequestTimeout) as caught:
        broker.request(name, b"x", 0.5)
    error = caught.value
    said = "its receipt has not come either" if error.receipt is None else f"it is stored as {name}/0@0"
    assert f"{name!r} within 0.5 s: {said}" in str(error)
    assert (error.receipt or error.pending.result(WATCHDOG_S)).offset == 0  # the receipt may come late too
    assert error.timeout == 0.5 and error.topic == name and error.retry is Retry.LOOK_FIRST
    with broker.consumer(None, [name]) as consumer:
        message = consumer.poll(WATCHDOG_S)
        assert message is not None and message.properties["CORRELATION_ID"] == error.correlation_id
        dropped = calls.table.dropped
        message.reply(b"late")
        until(lambda: calls.table.dropped == dropped + 1, "the late reply to be dropped")

    async def late() -> None:
        async with orbitmq.aio.connect(broker.name) as client:
            with pytest.raises(RequestTimeout) as caught:
                await client.request(name, b"y", 0.05)
            assert (caught.value.receipt or await caught.value.pending).offset == 1

    run_watched(late())


def test_the_first_reply_counts(broker: orbitmq.Broker, name: str) -> None:
    """Goal: a second reply, one with another's correlation id, and one for another client are not taken for the reply."""
    broker.create_topic(name, 1)
    calls = calls_of(broker.connection)
    dropped = calls.table.dropped

    def forge(message: Message) -> None:
        with broker.producer() as producer:
            own = request_properties("of-nobody", calls.client_id, 1.0)
            put(producer, own, calls.client_id)
            other = request_properties(message.properties["CORRELATION_ID"], "another", 1.0)
            put(producer, other, calls.client_id)  # its tag is the same, as if the hashes of two were
            put(producer, {}, calls.client_id)
        message.reply(b"first")
        message.reply(b"second")

    def put(producer: orbitmq.Producer, own: dict[str, str], tag: str) -> None:
        queue = reply_queue(calls.client_id, REPLY_QUEUES)
        producer.send(REPLY_TOPIC, b"forged", queue=queue, tags=tag, **{"_own": own} if own else {})  # type: ignore[arg-type]

    calls.start()
    with responder(broker, name, forge):
        assert bytes(broker.request(name, b"x", WATCHDOG_S)) == b"first"
        until(lambda: calls.table.dropped == dropped + 2, "the second reply and the forged one to be dropped")


def test_others_replies_are_not_read(broker: orbitmq.Broker, name: str) -> None:
    """Goal: a requester is not woken for the queues of others, and reads no record of theirs in its own queue."""
    broker.create_topic(name, 1)
    with responder(broker, name, upper), orbitmq.connect(broker.name) as client:
        client.request(name, b"x", WATCHDOG_S)
        calls = calls_of(client.connection)
        (reader,) = calls._reader
        consumer = reader._consumer
        own = (REPLY_TOPIC, reply_queue(calls.client_id, REPLY_QUEUES))
        assert set(consumer.paused) == {(REPLY_TOPIC, queue) for queue in range(REPLY_QUEUES)} - {own}
        dropped = calls.table.dropped
        with client.producer() as producer:
            for _ in range(100):
                producer.send(REPLY_TOPIC, b"x", queue=own[1], tags="another")
        client.request(name, b"y", WATCHDOG_S)
        assert calls.table.dropped == dropped


def test_refusals(broker: orbitmq.Broker, name: str) -> None:
    broker.create_topic(name, 1)
    with broker.producer() as producer, broker.consumer(None, [name]) as consumer:
        producer.send(name, b"plain")
        message = consumer.poll(WATCHDOG_S)
        assert message is not None
        with pytest.raises(UsageError, match="it is no request, so nobody waits for a reply"):
            message.reply(b"x")
        with pytest.raises(TypeError):
            message.reply()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="could not reply to None: it is not a Message"):
            broker.reply(None, b"x")  # type: ignore[arg-type]
        for reserved in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "MSG_TYPE"):
            with pytest.raises(PropertyError, match=r"it is set by request\(\) and reply\(\)"):
                producer.send(name, b"x", properties={reserved: "1"})
            with pytest.raises(PropertyError, match=reserved):
                broker.request(name, b"x", properties={reserved: "1"})
    for bad in (0, -1.0, float("nan"), "5", True, None):
        with pytest.raises(SettingError, match="it is a number of seconds, above 0"):
            broker.request(name, b"x", bad)  # type: ignore[arg-type]
    with pytest.raises(UnknownTopic):
        broker.request("no-such", b"x")
    with pytest.raises(UnknownTopic):
        broker.request("no-such", b"x", 10**400)
    with pytest.raises(TypeError, match="a body must be bytes, str or a buffer, not <class 'int'>"):
        broker.request(name, 5)  # type: ignore[arg-type]
    with pytest.raises(UnknownQueue):
        broker.request(name, b"x", queue=99)
    with pytest.raises(MessageTooLarge):
        broker.request(name, bytes(5 << 20))
    with pytest.raises(TopicNameError, match="replies are kept there"):
        broker.create_topic(REPLY_TOPIC)
    with pytest.raises(TopicNameError, match="replies are kept there"):
        broker.delete_topic(REPLY_TOPIC)
    with pytest.raises(TopicNameError, match="replies are kept there"):
        broker.set_permissions(REPLY_TOPIC, read=True, write=False)


def test_a_message_without_a_client(broker: orbitmq.Broker, name: str) -> None:
    """Goal: what came by no connection is replied to over a client that is named."""
    broker.create_topic(name, 1)

    def answer(message: Message) -> None:
        copy = Message.from_record(message.record())
        with pytest.raises(UsageError, match="no client"):
            copy.reply(b"x")
        assert broker.reply(copy, b"over " + bytes(copy)).topic == REPLY_TOPIC

    with responder(broker, name, answer):
        assert bytes(broker.request(name, b"me", WATCHDOG_S)) == b"over me"


def test_large_bodies(broker: orbitmq.Broker, name: str) -> None:
    """Goal: neither the request nor the reply is bound by the usual size of a session."""
    broker.create_topic(name, 1)
    large = bytes(3_000_000)
    with responder(broker, name, lambda each: each.reply(bytes(each)[:-1])):
        assert bytes(broker.request(name, large, WATCHDOG_S)) == large[:-1]
    assert message_max_for(b"x") == message_max_for(memoryview(b"x")) == message_max_for("x") == MESSAGE_USUAL
    assert message_max_for(large) == message_max_for(memoryview(large)) == message_max_for("x" * 300_000) == MESSAGE_MAX


def test_closing_ends_waits(broker: orbitmq.Broker, name: str) -> None:
    broker.create_topic(name, 1)
    client = orbitmq.connect(broker.name)
    ended: list[BaseException] = []

    def ask() -> None:
        try:
            client.request(name, b"x", WATCHDOG_S)
        except BaseException as error:
            ended.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    calls = calls_of(client.connection)
    until(lambda: len(calls.table._calls) == 3 and broker.topic(name).queues[0].max_offset == 3, "the requests to wait")
    client.close()
    for thread in threads:
        thread.join(WATCHDOG_S)
    assert [type(error) for error in ended] == [Closed] * 3
    with pytest.raises(Closed):
        client.request(name, b"x")
    with pytest.raises(Closed):
        calls.producer(b"x")


def test_two_threads_make_one_reader(broker: orbitmq.Broker) -> None:
    with orbitmq.connect(broker.name) as client:
        calls = Calls(client.connection)
        threads = [threading.Thread(target=calls.start) for _ in range(4)]
        threads += [threading.Thread(target=calls.producer, args=(b"x",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WATCHDOG_S)
        assert len(calls._reader) == len(calls._producers) == 1 and calls.ready
        made = calls.producer(b"x")
        assert isinstance(made, CallProducer) and calls.producer(b"x", for_loop=True) is not made is calls.producer(b"x")
        (reader,) = calls._reader
        assert reader._thread is not None
        calls.close()
        assert not calls.ready
        until(lambda: not reader._thread.is_alive(), "the end of the reader")  # type: ignore[union-attr]


def test_a_table_that_has_ended() -> None:
    """Goal: a request that begins while the client is closing does not wait for its time."""
    table = CallTable()
    table.end()
    call = table.expect()
    call.sleep(WATCHDOG_S)
    assert call.over
    with pytest.raises(Closed):
        call.taken()
    table.forget(call)


def test_client_ids() -> None:
    """Goal: no two clients have the same id; it can be a tag."""
    found = {new_client_id() for _ in range(1000)}
    assert len(found) == 1000 and not any(" " in each or "|" in each for each in found)
    assert {reply_queue(each, 8) for each in found} == set(range(8)) and {reply_queue(each, 1) for each in found} == {0}
    assert {reply_queue(each, 100) for each in found} == set(range(REPLY_QUEUES)), "more queues move nobody"


def test_a_store_of_rocketmqs(tmp_path: Path) -> None:
    """Goal: RocketMQ's own topic of replies, of one queue, gets the others; and requests of its clients can be replied to."""
    layout = StoreLayout.at(tmp_path)
    layout.make_folders()
    store_topics(layout, {name: TopicConfig(name, 1, 1, perm=6) for name in (REPLY_TOPIC, "t")}, DataVersion())
    with small_broker(tmp_path) as broker, responder(broker, "t", upper):
        assert bytes(broker.request("t", b"x", WATCHDOG_S)) == b"X"
        assert {each.name: each.queues for each in broker.topics()} == {REPLY_TOPIC: REPLY_QUEUES, "t": 1}
        with broker.producer() as producer, broker.consumer(None, [REPLY_TOPIC], start="latest") as consumer:
            own = {REPLY_TO_CLIENT: "10.0.0.1@7#9", "CORRELATION_ID": "theirs", "TTL": "3000"}
            producer.send("t", b"java", **{"_own": own})  # type: ignore[arg-type]
            reply = consumer.poll(WATCHDOG_S)
            assert reply is not None and bytes(reply) == b"JAVA" and reply.properties.items() >= own.items()


def test_the_turn_to_read_goes_on(broker: orbitmq.Broker, name: str) -> None:
    """Goal: when the thread that reads leaves, with its reply or without, another one reads. Method: the first thread's time is
    over, or its reply comes, while others sleep; nothing else wakes them."""
    broker.create_topic(name, 1)
    calls = calls_of(broker.connection)
    with orbitmq.connect(broker.name) as client, broker.consumer(None, [name]) as consumer:
        calls = calls_of(client.connection)
        reader = calls.prepare()
        got: list[object] = []

        def ask(body: bytes, timeout: float) -> None:
            try:
                got.append(bytes(client.request(name, body, timeout)))
            except RequestTimeout:
                got.append(None)

        def begin(body: bytes, timeout: float) -> threading.Thread:
            thread = threading.Thread(target=ask, args=(body, timeout))
            thread.start()
            return thread

        first = begin(b"first", 3.0)
        until(lambda: reader._reading, "the first to read")
        others = [begin(b"other", WATCHDOG_S) for _ in range(3)]
        first.join(WATCHDOG_S)
        assert got == [None]
        asked: list[Message] = []
        until(lambda: asked.extend(consumer.poll_batch(10, 0)) or len(asked) == 4, "all requests")
        until(lambda: reader._reading, "another one to read")
        for message in asked[1:]:
            before = len(got)
            message.reply(b"yes")
            until(lambda before=before: len(got) > before, "the reply")  # type: ignore[misc]
        for thread in others:
            thread.join(WATCHDOG_S)
        assert got[1:] == [b"yes"] * 3 and reader._thread is None and not reader._turns.locked()


def test_an_interrupted_turn_loses_no_reply(broker: orbitmq.Broker, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: Ctrl-C in the thread that reads does not lose replies to the others that it has read."""
    broker.create_topic(name, 1)
    hand = CallTable.hand
    interrupted: list[str] = []

    def interrupt_once(table: CallTable, correlation_id: str, reply: Message) -> None:
        if not interrupted:
            interrupted.append(correlation_id)
            raise KeyboardInterrupt
        hand(table, correlation_id, reply)

    monkeypatch.setattr(CallTable, "hand", interrupt_once)
    ended: list[str] = []

    def ask(client: orbitmq.Client) -> None:
        try:
            ended.append(bytes(client.request(name, b"x", WATCHDOG_S)).decode())
        except (KeyboardInterrupt, RequestTimeout) as error:
            ended.append(type(error).__name__)

    with orbitmq.connect(broker.name) as client, broker.consumer(None, [name], start="earliest") as consumer:
        threads = [threading.Thread(target=ask, args=(client,)) for _ in range(2)]
        reader = calls_of(client.connection).prepare()
        threads[0].start()
        assert consumer.poll(WATCHDOG_S) is not None
        until(lambda: reader._reading, "a thread that reads")
        threads[1].start()
        message = consumer.poll(WATCHDOG_S)
        assert message is not None
        message.reply(b"z")
        for thread in threads:
            thread.join()
    assert sorted(ended) == ["KeyboardInterrupt", "z"]


def test_a_signal_handler(broker: orbitmq.Broker, name: str) -> None:
    """Goal: a request in a signal handler does not wait for its own thread."""
    broker.create_topic(name, 1)
    told: list[BaseException] = []

    def handler(*_: object) -> None:
        try:
            client.request(name, b"y", WATCHDOG_S)
        except UsageError as error:
            told.append(error)

    def answer(message: Message) -> None:
        until(lambda: reader._reading, "the thread that waits for this reply")
        os.kill(os.getpid(), signal.SIGUSR1)
        until(lambda: told, "the handler")
        message.reply(b"z")

    with orbitmq.connect(broker.name) as client:  # one whose replies no thread reads
        reader = calls_of(client.connection).prepare()
        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with responder(broker, name, answer):
                assert bytes(client.request(name, b"x", WATCHDOG_S)) == b"z"
        finally:
            signal.signal(signal.SIGUSR1, before)
    assert "its thread waits for a reply" in str(told[0])
