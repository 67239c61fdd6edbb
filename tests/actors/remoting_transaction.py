"""Transactions as a client of RocketMQ's begins and ends them."""

from __future__ import annotations

from tests.actors.remoting_client import SEND_V2, Remote, Said
from tests.actors.shared_broker import OWN_TOPIC

SUCCESS = 0
END = 37
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


def half_properties(id: str, more: str = "") -> bytes:
    return f"{more}TRAN_MSG\1true\2UNIQ_KEY\1{id}\2WAIT\1true\2PGROUP\1shop\2".encode()


def begin(remote: Remote, id: str, body: bytes = b"half", more: str = "", *, topic: str = OWN_TOPIC, **others: object) -> Said:
    """The answer to the send of a half message; meanwhile the broker may ask about others."""
    fields = remote.send_fields(topic, 1, half_properties(id, more), **{"f": 4, **others})
    said = remote.answer_amid(remote.put(SEND_V2, body, **fields))
    assert said.code == SUCCESS and said.fields["transactionId"] == id and said.fields["queueId"] == "1"
    return said


def end_fields(half: Said, how: int, **others: object) -> dict[str, object]:
    """As Java's client fills them from the answer to its send."""
    id, place = half.fields["transactionId"], int(half.fields["msgId"][16:], 16)
    told = {"producerGroup": "shop", "tranStateTableOffset": half.fields["queueOffset"], "commitLogOffset": place}
    return {**told, "commitOrRollback": how, "fromTransactionCheck": "false", "msgId": id, "transactionId": id, **others}


def end(remote: Remote, half: Said, how: int, **others: object) -> Said:
    return remote.ask(END, **end_fields(half, how, **others))
