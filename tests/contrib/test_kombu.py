"""Goal: programs on kombu find what they are used to. Method: kombu's own objects, over a broker of real processes. The cases
are those that any transport of kombu's has to pass: publish and consume, settle, prefetch, several queues, exchanges, purge.

This tests contrib/kombu/transport.py, with contrib/kombu/channel.py, contrib/kombu/link.py, contrib/kombu/source.py and its two
kinds, contrib/kombu/work_source.py and contrib/kombu/log_source.py.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import kombu
import pytest
from kombu.exceptions import ChannelError

import orbitmq
from orbitmq.contrib.kombu.names import topic_of
from orbitmq.errors import MessageTooLarge
from tests.contrib.conftest import Connect
from tests.contrib.consuming import Consuming, consuming, left, publish, queue_of, size
from tests.waiting import WATCHDOG_S, until


@pytest.mark.parametrize(
    "body",
    [{"a": [1, None, "ä"]}, "text\nwith two lines", b"\x00\xff\n", b"", 17],
    ids=["json", "text", "bytes", "empty", "number"],
)
def test_what_is_sent_comes(connection: kombu.Connection, name: str, body: Any) -> None:
    publish(connection, name, body, headers={"h": "ä"}, correlation_id="c-1", priority=3)
    with consuming(connection, name) as consumer:
        (message,) = consumer.wait(1)
    assert message.payload == body and type(message.payload) is type(body)
    assert message.headers["h"] == "ä" and message.properties["correlation_id"] == "c-1"
    assert message.delivery_info == {"exchange": "", "routing_key": name}


def test_in_order_and_once(connection: kombu.Connection, connect: Connect, name: str) -> None:
    """What is acknowledged does not come again, in this connection or in another."""
    publish(connection, name, *range(20))
    assert left(connection, name, 20)
    with consuming(connection, name) as consumer:
        for message in consumer.wait(20):
            message.ack()
        assert consumer.bodies == list(range(20))
        assert consumer.nothing_more()
    connection.release()
    other = connect()
    assert queue_of(name)(other.default_channel).get() is None and size(other, name) == 0


def test_what_a_closed_connection_had_comes_again(connection: kombu.Connection, connect: Connect, name: str) -> None:
    """At once, and in order. Nothing was done with it, so this is no second delivery."""
    publish(connection, name, 1, 2, 3)
    with consuming(connection, name) as consumer:
        consumer.wait(3)[1].ack()
    connection.release()
    with consuming(connect(), name) as consumer:
        consumer.wait(2)
        assert consumer.bodies == [1, 3]
        assert not any(message.delivery_info.get("redelivered") for message in consumer.got)


def test_rejected(connection: kombu.Connection, name: str) -> None:
    """Put back, it comes again, marked as such; otherwise it is gone."""
    publish(connection, name, "again", "gone")
    with consuming(connection, name) as consumer:
        again, gone = consumer.wait(2)
        gone.reject()
        again.requeue()
        second = consumer.wait(3)[2]
        assert second.payload == "again" and second.delivery_info["redelivered"]
        second.ack()
        assert consumer.nothing_more()
    assert size(connection, name) == 0


def test_recover(connection: kombu.Connection, name: str) -> None:
    publish(connection, name, 1, 2)
    with consuming(connection, name) as consumer:
        consumer.wait(2)[0].ack()
        consumer.channel.basic_recover(requeue=True)
        assert consumer.wait(3)[2].payload == 2


def test_prefetch(connection: kombu.Connection, name: str) -> None:
    """No more come than may be in hand. The next one comes when another thread acknowledges one, which is how Celery's pools do
    it, and not when the wait is over."""
    publish(connection, name, *range(4))
    with consuming(connection, name, prefetch=2) as consumer:
        consumer.wait(2)
        assert consumer.nothing_more()
        begun = threading.Event()

        def settle() -> None:
            begun.wait(WATCHDOG_S)
            consumer.got[0].ack()

        thread = threading.Thread(target=settle)
        thread.start()
        begun.set()
        consumer.wait(3)
        thread.join()
        assert consumer.nothing_more() and consumer.bodies == [0, 1, 2]


def test_a_busy_consumer_holds_up_nobody(connect: Connect, name: str) -> None:
    """Its source has a message ready that it may not have: it soon goes to others."""
    busy, idle = connect(visibility_timeout=3600.0), connect()
    publish(busy, name, *range(3))
    with consuming(busy, name) as first, consuming(idle, name) as second:
        assert len(first.wait(1)) == 1  # and now it does something else
        assert sorted(message.payload for message in second.wait(2)) == [1, 2]


def test_without_acknowledgement(connection: kombu.Connection, connect: Connect, name: str) -> None:
    publish(connection, name, 1, 2)
    with consuming(connection, name, no_ack=True) as consumer:
        assert len(consumer.wait(2)) == 2
    assert queue_of(name)(connection.default_channel).get(no_ack=True) is None
    connection.release()
    assert size(connect(), name) == 0


def test_get(connection: kombu.Connection, name: str) -> None:
    """One at a time, without waiting: what was sent before is there, and None says that there is nothing."""
    queue = queue_of(name)(connection.default_channel)
    queue.declare()
    assert queue.get() is None
    for number in range(5):
        publish(connection, name, number)
        message = queue.get()
        assert message is not None and message.payload == number
        message.ack()
    assert queue.get() is None


def test_get_keeps_nothing_from_others(connect: Connect, name: str) -> None:
    """What comes after a `get` that found nothing goes to who waits for it."""
    connection = connect(visibility_timeout=3600.0)
    queue = queue_of(name)(connection.default_channel)
    queue.declare()
    assert queue.get() is None
    publish(connection, name, 1)
    with consuming(connect(), name) as consumer:
        assert consumer.wait(1)[0].payload == 1


def test_several_queues(connection: kombu.Connection, name: str) -> None:
    """One connection serves all its queues, whichever it began with."""
    names = [f"{name}-{number}" for number in range(3)]
    with consuming(connection, [queue_of(each) for each in names]) as consumer:
        for each in reversed(names):
            publish(connection, each, each)
        consumer.wait(3)
        assert {message.payload: message.delivery_info["routing_key"] for message in consumer.got} == {n: n for n in names}
        for each in names:
            publish(connection, each, *range(10))
        assert {message.delivery_info["routing_key"] for message in consumer.wait(33)[3:]} == set(names)


def test_cancelled(connect: Connect, name: str) -> None:
    """Who cancels gets no more, keeps no more from others, and can still settle."""
    connection = connect(visibility_timeout=3600.0)
    publish(connection, name, 1, 2)
    channel, got = connection.channel(), []
    with kombu.Consumer(channel, [queue_of(name)], on_message=got.append, prefetch_count=1) as consumer:
        while not got:
            connection.drain_events(timeout=WATCHDOG_S)
        consumer.cancel()
        source = connection.transport.source(name)
        until(lambda: not source._looks, "the thread to rest")
        got[0].ack()  # makes room for the second one, which nobody wants here
        assert Consuming(connection, channel).nothing_more()
        assert left(connection, name, 1) and len(got) == 1


def test_purge(connection: kombu.Connection, connect: Connect, broker: orbitmq.Broker, name: str) -> None:
    """What waits is gone, also what waits for its time; what somebody has in hand stays with him."""
    publish(connection, name, "mine")
    with consuming(connection, name) as consumer:
        (mine,) = consumer.wait(1)
        other = connect()
        publish(other, name, *range(5))
        publish(other, name, "later", headers=soon(3600))
        until(lambda: broker.delayed(topic_of(name)), "the delayed one")
        purged = 0
        while purged < 6:  # the consumer, which is busy, may hold one for a moment
            purged += queue_of(name)(other.default_channel).purge()
        mine.requeue()
        assert consumer.wait(2)[1].payload == "mine" and consumer.nothing_more() and purged == 6
    assert not broker.delayed(topic_of(name))


def soon(seconds: float) -> dict[str, str]:
    """Headers of a task that is to run then."""
    return {"eta": (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()}


def test_eta(connection: kombu.Connection, connect: Connect, broker: orbitmq.Broker, name: str) -> None:
    """The broker keeps a task until its time, so no worker has it in hand; then it comes without a time to wait for. With
    delay=False it comes at once, and its worker waits."""
    queue = queue_of(name)(connection.default_channel)
    queue.declare()
    delay = 0.5
    while True:
        headers = soon(delay)
        due = datetime.fromisoformat(headers["eta"]).timestamp()
        publish(connection, name, "later", headers=headers)
        publish(connection, name, "now")
        if time.time() < due:
            break
        assert left(connection, name, 2) and queue.purge() == 2  # the machine was too slow for that time
        assert delay < WATCHDOG_S
        delay *= 2
    with consuming(connection, name) as consumer:
        consumer.wait(2)
        came = time.time()
        assert consumer.bodies == ["now", "later"] and consumer.got[1].headers["eta"] is None
        assert came >= due
        for message in consumer.got:
            message.ack()
        far = soon(3600)
        publish(connect(delay=False), name, "kept by the worker", headers=far)
        assert consumer.wait(3)[2].headers["eta"] == far["eta"]
    assert not broker.delayed(topic_of(name))


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout"])
def test_exchanges(connection: kombu.Connection, name: str, kind: str) -> None:
    """A message goes to each queue that is bound with its key."""
    exchange = kombu.Exchange(f"{name}-{kind}", type=kind)
    queues = {key: kombu.Queue(f"{name}-{key}", exchange, routing_key=key) for key in ("a.b", "a.*", "#.b", "c")}
    for queue in queues.values():
        queue(connection.default_channel).declare()
    connection.Producer(exchange=exchange).publish(kind, routing_key="a.b")
    expected = {"direct": {"a.b"}, "topic": {"a.b", "a.*", "#.b"}, "fanout": set(queues)}[kind]
    got = {key for key, queue in queues.items() if queue(connection.default_channel).get(no_ack=True) is not None}
    assert got == expected


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout"])
def test_queues_of_other_processes(connect: Connect, name: str, kind: str) -> None:
    """A queue that lives no longer than its connection gets what others publish, who know nothing of it: broadcasts and replies
    of Celery's are sent so. It gets what comes after it was bound."""
    exchange = kombu.Exchange(f"{name}-{kind}", type=kind)
    sender, listeners = connect(), [connect(), connect()]
    # each connection of this process knows the others' bindings; another process does not
    for each in (sender, *listeners):
        each.ensure_connection()
        each.transport.state = type(each.transport.state)()
    queues = [kombu.Queue(f"{name}-{number}", exchange, routing_key=f"to.{number}", exclusive=True) for number in range(2)]
    producer = sender.Producer(exchange=exchange)
    exchange(sender.default_channel).declare()
    producer.publish("too early", routing_key="to.0")
    with consuming(listeners[0], queues[:1]) as first, consuming(listeners[1], queues[1:]) as second:
        producer.publish("1", routing_key="to.1")
        producer.publish("0", routing_key="to.0")
        producer.publish("-", routing_key="to.nobody")
        if kind == "fanout":
            first.wait(3)
            second.wait(3)
            assert first.bodies == second.bodies == ["1", "0", "-"]
        else:
            first.wait(1)
            second.wait(1)
            assert (first.bodies, second.bodies) == (["0"], ["1"]) and first.nothing_more()


def test_a_reply(connect: Connect, name: str) -> None:
    """Sent by a queue's name alone, as Celery's results are. It is put back like any other."""
    asker, answerer = connect(), connect()
    with consuming(asker, [kombu.Queue(name, exclusive=True)]) as consumer:
        answerer.Producer().publish("the answer", routing_key=name)
        consumer.wait(1)[0].requeue()
        second = consumer.wait(2)[1]
        assert second.payload == "the answer" and second.delivery_info["redelivered"]
        second.ack()
        assert size(asker, name) == 0
        answerer.Producer().publish("another", routing_key=name)
        until(lambda: size(asker, name) == 1)
        assert queue_of(name)(asker.default_channel).purge() == 1 and consumer.nothing_more()


def test_declared_by_one_connection_and_consumed_by_another(connect: Connect, name: str) -> None:
    """As Celery awaits results: what comes between is not lost."""
    declarer, answerer, consumer_of = connect(), connect(), connect()
    exchange = kombu.Exchange(f"{name}-x", type="topic")
    queue = kombu.Queue(name, exchange, routing_key="a.#", auto_delete=True, durable=False)
    queue(declarer.default_channel).declare()
    answerer.Producer().publish("by name", routing_key=name)
    answerer.Producer(exchange=exchange).publish("by key", routing_key="a.b")
    with consuming(consumer_of, [queue]) as consumer:
        consumer.wait(2)
        assert sorted(consumer.bodies) == ["by key", "by name"] and consumer.nothing_more()


def test_a_queue_that_is_bound_twice(connection: kombu.Connection, name: str) -> None:
    """What came before it was bound a second time is not lost."""
    one, other = (kombu.Exchange(f"{name}-{number}", type="fanout") for number in range(2))
    with consuming(connection, [kombu.Queue(name, one, exclusive=True)]) as consumer:
        connection.Producer(exchange=one).publish("first")
        other(consumer.channel).declare()
        consumer.channel.queue_bind(name, other.name)
        connection.Producer(exchange=other).publish("second")
        consumer.wait(2)
        assert sorted(consumer.bodies) == ["first", "second"]


def test_what_goes_nowhere(connection: kombu.Connection, name: str) -> None:
    producer = connection.Producer()
    with pytest.raises(ChannelError, match="404"):
        producer.publish("x", exchange=f"{name}-nobody", routing_key="a")
    exchange = kombu.Exchange(name)
    producer.publish("dropped, as kombu's users know it", exchange=exchange, declare=[exchange], routing_key="a")
    with pytest.raises(ChannelError, match="NO_ROUTE"):
        producer.publish("x", exchange=exchange, routing_key="a", mandatory=True)
    with pytest.raises(ChannelError, match="NOT_FOUND"):
        queue_of(name)(connection.default_channel).queue_declare(passive=True)


def test_too_large(connect: Connect, name: str) -> None:
    """The error says which knob to turn, and repeating is not tried. With that knob turned it goes."""
    small = connect(message_max=4096)
    with pytest.raises(MessageTooLarge, match="message_max"):
        publish(small, name, "x" * 8192, retry=True)
    assert MessageTooLarge not in small.recoverable_channel_errors and issubclass(MessageTooLarge, small.channel_errors)
    publish(connect(), name, "x" * 8192)


def test_deleted(connection: kombu.Connection, connect: Connect, broker: orbitmq.Broker, name: str) -> None:
    """With its topic and its group. Who has declared the queue before, and sends to it again, makes it anew."""
    other = connect()
    publish(other, name, 1)
    queue = queue_of(name)(connection.default_channel)
    queue.delete(if_empty=True)
    message = until(queue.get, "the message, because the queue was not empty")
    assert message.payload == 1
    queue.delete()
    topic = topic_of(name)
    assert topic not in {each.name for each in broker.topics()} and topic not in {each.name for each in broker.groups()}
    publish(other, name, 2)
    with consuming(connection, name) as consumer:
        assert consumer.wait(1)[0].payload == 2


def test_what_other_programs_send(connection: kombu.Connection, broker: orbitmq.Broker, name: str) -> None:
    """It reaches kombu's consumers as bytes; and a task is found by its id, and its name is its tag."""
    queue_of(name)(connection.default_channel).declare()
    with broker.producer() as producer:
        producer.send(topic_of(name), b"\xff\nplain")
        producer.send(topic_of(name), b'{"kombu": 1, "properties": {}}\nlike kombu\'s')
    publish(connection, name, {"a": 1}, headers={"id": "t-1", "task": "shop.charge"})
    with consuming(connection, name) as consumer:
        plain, alike, task = consumer.wait(3)
        assert plain.body == b"\xff\nplain" and plain.content_type == "application/data"
        assert alike.body == b"like kombu's" and alike.headers == {}
        assert task.payload == {"a": 1}
    (found,) = until(lambda: broker.find(topic_of(name), "t-1"), "the task in the index")
    assert found.tags == "shop.charge" and bytes(found).endswith(b'\n{"a": 1}')
