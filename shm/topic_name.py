"""Names that a topic may have; native/shared/topics.h has the rule."""

from __future__ import annotations

from shlex import quote

from orbitmq.errors import TopicNameError
from orbitmq.native._core import ffi, lib

NAME_MAX: int = lib.TOPIC_NAME_MAX  # bytes


def check_topic_name(name: object) -> None:
    """Raises: TopicNameError: has .topic, and .at, the index of the forbidden byte, or .limit."""
    if not isinstance(name, str):
        raise TopicNameError(f"cannot name a topic {name!r}: a name is a str", hint="give the name as a str", topic=name)
    encoded = name.encode(errors="surrogatepass")
    at = ffi.new("uint32_t *")
    fault = lib.topic_name_check(encoded, len(encoded), at)
    if fault == lib.TOPIC_NAME_EMPTY:
        raise TopicNameError("cannot name a topic '': the name is empty", hint="use at least 1 character", topic=name)
    if fault == lib.TOPIC_NAME_LONG:
        text = f"cannot name a topic {name[:32]!r}...: the name has {len(encoded)} bytes, and the limit is {NAME_MAX}"
        raise TopicNameError(text, hint="use a shorter name", topic=name, size=len(encoded), limit=NAME_MAX)
    if fault:
        character = encoded[: at[0]].decode(errors="ignore")
        bad = name[len(character)]
        raise TopicNameError(
            f"cannot name a topic {name!r}: {bad!r} is not allowed in a name",
            hint="use letters, digits, and any of % | _ -",
            topic=name,
            at=at[0],
            character=bad,
        )


def reserved_topic(name: str) -> str | None:
    """Why no sender may create or write a topic of this name; None: it is an ordinary topic. A store of RocketMQ's may hold
    such a topic, which can be read."""
    encoded = name.encode(errors="surrogatepass")
    why = lib.reserved_topic_why(encoded, len(encoded))
    return None if why == ffi.NULL else ffi.string(why).decode()


def kept_topic(name: str) -> bool:
    """True for a topic that brokers, groups or the tracing of clients keep beside those of users. "All topics" does not
    include these."""
    encoded = name.encode(errors="surrogatepass")
    return reserved_topic(name) is not None or bool(lib.reserved_topic_of_traces(encoded, len(encoded)))


def check_new_topic_name(name: object) -> None:
    """Raises: TopicNameError: as check_topic_name; or the name is one of RocketMQ's own."""
    check_topic_name(name)
    assert isinstance(name, str)
    why = reserved_topic(name)
    if why is not None:
        raise TopicNameError(f"cannot name a topic {name!r}: {why}", hint="choose another name", topic=name)


def how_to_make(name: str) -> str:
    """The hint for a missing topic."""
    why = reserved_topic(name)
    return f"create it: orbitmq topic create {quote(name)}" if why is None else f"nobody can make a topic of this name: {why}"


def possible(name: str, queue: int) -> bool:
    """True for a queue that a topic can have and a consumer can hold. Another broker's log may name other queues, because its
    checksum covers bodies only."""
    encoded = name.encode(errors="surrogateescape")
    return lib.topic_name_check(encoded, len(encoded), ffi.new("uint32_t *")) == 0 and bool(queue < lib.SESSION_QUEUES_MAX)
