"""Goal: names that RocketMQ keeps for itself are recognised by every caller, and no other name is. Method: the lists of its
sources, similar names, and a plain search compared with the core's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import TopicNameError
from orbitmq.native._core import ffi, lib
from orbitmq.shm.property_name import NOTE, REPLY, WISH, reserved_property, why_reserved
from orbitmq.shm.topic_name import check_new_topic_name, check_topic_name, kept_topic, reserved_topic

ARGUMENTS = ["TAGS", "KEYS"]
NOTES = ["WAIT", "CLUSTER", "TRACE_ON", "__CRC32#", "MIN_OFFSET", "MAX_OFFSET", "MSG_REGION", "CONSUME_START_TIME"]
WISHES = [
    "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP", "BUYER_ID", "ORIGIN_MESSAGE_ID",
    "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "TRAN_PREPARED_QUEUE_OFFSET",
    "TRANSACTION_CHECK_TIMES", "ARRIVE_TIME", "PUSH_REPLY_TIME",
    "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET", "TIMER_DELAY_SEC",
    "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "POP_CK", "1ST_POP_TIME", "DLQ_ORIGIN_TOPIC",
    "DLQ_ORIGIN_MESSAGE_ID",
]
REPLIES = ["CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "MSG_TYPE"]
TOPICS = [
    "SCHEDULE_TOPIC_XXXX", "%RETRY%g", "%DLQ%g", "%LMQ%q", "TBW102", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT",
    "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "RMQ_SYS_TRACE_TOPIC2",
    "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_c", "DefaultCluster_REPLY_TOPIC",
]


def found(properties: bytes) -> bytes | None:
    name = ffi.new("struct slice *")
    if not lib.reserved_find(properties, len(properties), name):
        return None
    return bytes(ffi.buffer(name.data, name.size))


def test_every_name_and_its_neighbours() -> None:
    kinds = dict.fromkeys(ARGUMENTS, lib.RESERVED_ARGUMENT) | dict.fromkeys(NOTES, NOTE) | dict.fromkeys(WISHES, WISH)
    kinds |= dict.fromkeys(REPLIES, REPLY)
    kinds["UNIQ_KEY"] = lib.RESERVED_ID
    for name, kind in kinds.items():
        assert reserved_property(name) == kind, name
        for near in (name[:-1], name + "x", name.lower(), name[:-1] + "?", "x" + name[1:]):
            assert reserved_property(near) == kinds.get(near, 0), near
    for name in ("__SHARDINGKEY", "INSTANCE_ID"):  # clients set them, for readers
        assert reserved_property(name) == 0
    assert reserved_property("") == reserved_property("color") == reserved_property("x" * 40_000) == 0
    assert all(why_reserved(kind) for kind in (lib.RESERVED_ARGUMENT, NOTE, WISH, REPLY))
    assert not why_reserved(0) and not why_reserved(lib.RESERVED_ID)


WORDS = st.sampled_from([*WISHES, *NOTES, *REPLIES, *ARGUMENTS, "UNIQ_KEY", "color", "a", "DELA", ""])


@given(st.lists(st.tuples(WORDS, st.sampled_from(["", "1", "DELAY"]))), st.booleans())
def test_the_first_that_no_sender_may_set(pairs: list[tuple[str, str]], ended: bool) -> None:
    """What is no property, for lack of a name or a value, does not count here either; and requests and replies travel so."""
    text = "\2".join(f"{name}\1{value}" for name, value in pairs) + ("\2" if ended else "")
    wanted = (name for name, value in pairs if name and value and (name in NOTES or name in WISHES))
    assert found(text.encode()) == (next((name.encode() for name in wanted), None))


def test_topics() -> None:
    for name in TOPICS:
        assert reserved_topic(name)
        check_topic_name(name)  # such a topic may be there
        assert kept_topic(name)
        with pytest.raises(TopicNameError, match="RocketMQ"):
            check_new_topic_name(name)
    near = ("schedule_topic_xxxx", "SCHEDULE_TOPIC_XXXXX", "x%RETRY%g", "TBW1022", "RMQ", "REPLY_TOPIC")
    for name in ("orders", "RETRY", "BenchmarkTest", "DefaultCluster_REPLY_TOPIC2", *near):
        assert reserved_topic(name) is None
        check_new_topic_name(name)
        assert not kept_topic(name)
    with pytest.raises(TopicNameError, match="is not allowed"):
        check_new_topic_name("a b")


@pytest.mark.parametrize("name", ["RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_cn-hangzhou"])
def test_topics_of_traces(name: str) -> None:
    """Clients send there: senders may, too, but whoever wants all topics does not get them."""
    assert reserved_topic(name) is None and kept_topic(name)
    check_new_topic_name(name)
