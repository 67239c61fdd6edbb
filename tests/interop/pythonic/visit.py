"""A program of the client `rocketmq` from PyPI, which wraps RocketMQ's C++ client: sends what it is told, then prints what a
push consumer gets, as JSON lines, until it is killed. Arguments: its folder, a name server, a topic, a group, bodies."""

import json
import os
import sys
import threading

sys.path.insert(0, sys.argv[1])

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage, SendResult
from rocketmq.exceptions import RocketMQException


def show(kind: str, **said: object) -> None:
    # One write, because the consumer calls from several threads, whose lines must not mix.
    os.write(1, json.dumps({"kind": kind, **said}).encode() + b"\n")


def sent(topic: str, body: str) -> Message:
    message = Message(topic)
    message.set_tags("paid")
    message.set_keys(f"key-{body}")
    message.set_property("colour", "blue")
    message.set_body(body)
    return message


def send(producer: Producer, message: Message) -> SendResult:
    """Again if it fails: the client waits a few seconds for the topic's route, whatever patience it is told to have."""
    for _ in range(9):
        try:
            return producer.send_sync(message)
        except RocketMQException as error:
            print(error, file=sys.stderr)
    return producer.send_sync(message)


def text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def came(message: RecvMessage) -> None:
    told = {"body": message.body, "tags": message.tags, "keys": message.keys, "colour": message["colour"]}
    show("came", queue=message.queue_id, offset=message.queue_offset, **{name: text(value) for name, value in told.items()})


PATIENT_MS = 240_000  # for one answer; the client's own 3 s are too few for a busy machine: it would store a message twice
_, _, names, topic, group, *bodies = sys.argv
producer = Producer(group, timeout=PATIENT_MS)
producer.set_namesrv_addr(names)
producer.start()
for number, body in enumerate(bodies):
    message = sent(topic, body)
    if number % 2:
        producer.send_oneway(message)
    else:
        result = send(producer, message)
        show("sent", status=int(result.status), offset=result.offset)
consumer = PushConsumer(group)
consumer.set_namesrv_addr(names)
consumer.subscribe(topic, came)
consumer.start()
show("ready")
threading.Event().wait()
