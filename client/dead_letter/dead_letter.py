"""A message that a group has given up, out of RocketMQ's topic %DLQ%GROUP."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.client.message import Message

PREFIX = "%DLQ%"
QUEUE = 0  # the topic has one queue
# Properties that say where a message came from and what happened to it: RocketMQ's, of version 5 too, and ours.
RETRY_TOPIC = "RETRY_TOPIC"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
REASON = "FAILURE_REASON"
DIGEST = "FAILURE_DIGEST"
UNIQUE_KEY = "UNIQ_KEY"
SHARDING_KEY = "__SHARDINGKEY"
# On a message that was sent again: the place of the dead letter, and the unique key that the message had before.
REDRIVEN_FROM = "REDRIVEN_FROM"
FIRST_UNIQUE_KEY = "REDRIVEN_UNIQ_KEY"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """group: that gave it up. offset: in the group's dead letters. id: of the message in them. topic: to which it was sent
    first; None: it does not say. tries: how often it was handed out. reason, digest: of its last failure; empty if it came from
    RocketMQ. first_id: id of the message that was sent first; None: it does not say. redriven: id of the message as it was sent
    again; None: it was not. message: as it stands in the dead letters."""

    group: str
    offset: int
    id: str
    topic: str | None
    tries: int
    reason: str
    digest: str
    first_id: str | None
    redriven: str | None
    message: Message = field(compare=False)

    @property
    def body(self) -> bytes:
        """A copy of the body."""
        return bytes(self.message)

    @property
    def died_ms(self) -> int:
        """When it was given up, milliseconds since the epoch."""
        return self.message.stored_ms

    @property
    def place(self) -> str:
        """Topic, queue and offset, such as "%DLQ%billing/0@17"."""
        return place_of(self.message)


def letter_of(group: str, message: Message, redriven: str | None) -> DeadLetter:
    properties = message.properties
    return DeadLetter(
        group=group,
        offset=message.offset,
        id=message.id,
        topic=topic_of(message),
        tries=message.reconsume_times,
        reason=properties.get(REASON, ""),
        digest=properties.get(DIGEST, ""),
        first_id=properties.get(ORIGIN_MESSAGE_ID) or properties.get(DLQ_ORIGIN_MESSAGE_ID),
        redriven=redriven,
        message=message,
    )


def topic_of(message: Message) -> str | None:
    """The topic to which a dead letter was sent first."""
    properties = message.properties
    return properties.get(RETRY_TOPIC) or properties.get(DLQ_ORIGIN_TOPIC)


def place_of(message: Message) -> str:
    return f"{message.topic}/{message.queue}@{message.offset}"


def kept_properties(message: Message) -> dict[str, str]:
    """The properties with which a dead letter is sent again: those of its sender, and where it comes from. Tags and keys are
    arguments of a send. Left out is what brokers have noted about it, or are asked for by it."""
    kept = {name: value for name, value in message.user_properties.items() if name not in (REASON, DIGEST, FIRST_UNIQUE_KEY)}
    first = message.properties.get(FIRST_UNIQUE_KEY) or message.properties.get(UNIQUE_KEY)
    return kept | {REDRIVEN_FROM: place_of(message), UNIQUE_KEY: message.id} | ({FIRST_UNIQUE_KEY: first} if first else {})
