"""A role of the load (worker.py): a client of RocketMQ's protocol. It sends numbered messages alone and in batches, some as
requests to which it replies, ends half messages that it has begun, commits an offset, pulls what was acknowledged, and gives
some of it back as dead letters, and pops what others and it have sent. It sends nothing twice, so nothing may come twice. It
signs what it asks, or speaks TLS too, or comes from where neither is asked for. Beside it, somebody with a wrong key asks in
vain.

Lines of its ledger: "s NUMBER" before a send, "a NUMBER QUEUE OFFSET" after its answer; "b FIRST COUNT" before a batch, which
is answered as its single messages are; "h NUMBER" before a half message is begun, and "c NUMBER" after its commit was
answered; "g NUMBER" before a message is given back, and "d NUMBER" after that was answered; "o QUEUE OFFSET RECONSUMED" when a
message was popped, and "k" with the same after its acknowledgement was answered in time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import orbitmq
from orbitmq import errors
from orbitmq.shm.reply_topic import REPLY_TOPIC
from tests.actors.pop_client import ACK, NOTIFICATION, POP, Popped, popped
from tests.actors.remoting_client import PULL, SUBSCRIPTION, Remote, Said, records
from tests.actors.remoting_kinds import SecureSigning, Signing
from tests.crash.remote_account import ACCOUNT, INVISIBLE_MS, PLAIN_HOST, POPPING, SECRET

BATCH, COMMIT_OFFSET, END, MEMBERS, HEARTBEAT, BACK, REPLY = 320, 15, 37, 38, 34, 36, 325
SUCCESS, FOUND_NOTHING, NOT_SERVED, POLLING_TIMEOUT = 0, 19, (1, 14, 17), 210
REFUSED = "AclException"
COMMIT = 8
WITH_COMMIT, PASSED_OVER = 1, (19, 20, 21)  # of a pull: a flag, and answers without messages
QUEUES = 4
AWAY = (errors.BrokerError, errors.TimedOut)
BEAT_S = 30.0  # as RocketMQ's clients; who is silent for longer than 120 s is no member any more
BEAT = b'{"clientID":"%d@crash","consumerDataSet":[{"groupName":"remote","subscriptionDataSet":[{"topic":"remote"}]}]}'


class RemoteLoad:
    """One life. body: of a number."""

    def __init__(
        self, client: orbitmq.Client, path: Path, who: int, seed: int, topic: str, body: Callable[[int], bytes]
    ) -> None:
        self._client = client
        self._rng = random.Random(seed)
        self._who = who
        self._topic = topic
        self._body = body
        self._ledger = path.open("a", buffering=1)
        self._number = 0
        self._seen: list[tuple[int, int, int, int]] = []  # what was acknowledged: number, queue, offset, place in the log

    def run(self, over: Callable[[], bool]) -> None:
        """Until the gateway is gone, or it is over. Raises: AssertionError: an answer is wrong."""
        with suppress(OSError, *AWAY), self._connected(SECRET) as remote:
            beat_at_s = 0.0
            while not over():
                if time.monotonic() >= beat_at_s:
                    remote.until(remote.put(HEARTBEAT, BEAT % self._who))
                    beat_at_s = time.monotonic() + BEAT_S
                deeds = (self._send, self._batch, self._transact, self._request, self._pull, self._commit, self._give_back)
                self._rng.choice((*deeds, self._pop, self._ask, self._lie))(remote)

    def _connected(self, secret: str) -> Remote:
        listens = self._client.status().listens
        if self._who % 3 == 0 and secret == SECRET:
            return Remote(listens, host=PLAIN_HOST)
        return (Signing if self._who % 3 == 1 else SecureSigning)(listens, ACCOUNT, secret)

    def _lie(self, _: Remote) -> None:
        """Whose key is wrong is refused. What it has sent is noted nowhere, so it may not be stored."""
        if self._rng.randrange(8):
            return
        with self._connected("guessed") as other:
            other.put(310, self._body(self._take(1)), **other.send_fields(self._topic, 0))
            assert REFUSED in (other.answered().remark or "")

    def _request(self, remote: Remote) -> None:
        """Sends a request, to which it replies itself."""
        told = f"CORRELATION_ID\1c\2REPLY_TO_CLIENT\1{self._who}@crash\2TTL\0011000\2".encode()
        self._send(remote, told)
        opaque = remote.put(REPLY, b"reply", **remote.send_fields(REPLY_TOPIC, 0, told + b"MSG_TYPE\1reply\2"))
        assert self._answer(remote, opaque).code in (SUCCESS, *NOT_SERVED)

    def _send(self, remote: Remote, properties: bytes = b"") -> None:
        number, queue = self._take(1), self._rng.randrange(QUEUES)
        self._note(f"s {number}")
        opaque = remote.put(310, self._body(number), **remote.send_fields(self._topic, queue, properties))
        said = self._answer(remote, opaque)
        if said.code == SUCCESS:
            self._acknowledged(number, int(said.fields["queueId"]), int(said.fields["queueOffset"]), said.fields["msgId"])
        else:
            assert said.code in NOT_SERVED, said

    def _batch(self, remote: Remote) -> None:
        count, queue = self._rng.randrange(2, 8), self._rng.randrange(QUEUES)
        first = self._take(count)
        self._note(f"b {first} {count}")
        entries = b"".join(map(_entry, (self._body(first + n) for n in range(count))))
        opaque = remote.put(BATCH, entries, **remote.send_fields(self._topic, queue, b"", m="true"))
        said = self._answer(remote, opaque)
        if said.code == SUCCESS:
            for n in range(count):
                self._acknowledged(first + n, queue, int(said.fields["queueOffset"]) + n, said.fields["msgId"].split(",")[n])
        else:
            assert said.code in NOT_SERVED, said

    def _transact(self, remote: Remote) -> None:
        number = self._take(1)
        self._note(f"h {number}")
        name = f"{self._who}-{number}"
        properties = f"TRAN_MSG\1true\2UNIQ_KEY\1{name}\2PGROUP\1nobody\2".encode()
        opaque = remote.put(310, self._body(number), **remote.send_fields(self._topic, 0, properties, f=4))
        half = self._answer(remote, opaque)
        if half.code != SUCCESS or self._rng.randrange(4) == 0:
            return
        place = {"tranStateTableOffset": half.fields["queueOffset"], "commitLogOffset": int(half.fields["msgId"][16:], 16)}
        opaque = remote.put(END, commitOrRollback=COMMIT, producerGroup="nobody", msgId=name, transactionId=name, **place)
        if self._answer(remote, opaque).code == SUCCESS:
            self._note(f"c {number}")

    def _pull(self, remote: Remote) -> None:
        """What was acknowledged is where its answer said; it may not be indexed yet."""
        if not self._seen:
            return
        number, queue, offset, _ = self._rng.choice(self._seen)
        opaque = remote.put(PULL, **remote.pull_fields(self._topic, queue, offset, suspend_ms=50, most=1))
        said = self._answer(remote, opaque)
        if said.code == SUCCESS:
            (record,) = records(said.body)
            assert self._body(number) in record, (number, queue, offset)
        end = int(said.fields.get("maxOffset", 0))
        self._answer(remote, remote.put(PULL, **remote.pull_fields(self._topic, queue, end, suspend_ms=20)))

    def _give_back(self, remote: Remote) -> None:
        if not self._seen:
            return
        number, _, _, place = self._rng.choice(self._seen)
        self._note(f"g {number}")
        if self._rng.randrange(2):
            fields: dict[str, object] = {"group": "remote", "offset": place, "delayLevel": -1, "maxReconsumeTimes": 16}
            opaque = remote.put(BACK, **fields, originTopic=self._topic)
        else:
            first = f"RETRY_TOPIC\1{self._topic}\2ORIGIN_MESSAGE_ID\1{place:X}\2".encode()
            fields = remote.send_fields("%RETRY%remote", 0, first, j=1, l=1)
            opaque = remote.put(310, self._body(number), **fields)
        said = self._answer(remote, opaque)
        if said.code == SUCCESS:
            self._note(f"d {number}")
        else:
            assert said.code in NOT_SERVED, said

    def _pop(self, remote: Remote) -> None:
        """Of some messages it says nothing more. An acknowledgement that was answered within the invisible time came in time,
        for the gateway that handed out has not died: the connection is the same."""
        fields = {"consumerGroup": POPPING, "topic": self._topic, "queueId": -1, "maxMsgNums": self._rng.randint(1, 8)}
        times = {"invisibleTime": INVISIBLE_MS, "pollTime": 100, "bornTime": 0, "initMode": 0}
        until_s = time.monotonic() + INVISIBLE_MS / 1000
        said = self._answer(remote, remote.put(POP, **fields, **times))
        if said.code != SUCCESS:
            assert said.code in (POLLING_TIMEOUT, *NOT_SERVED), said
            return
        for each in popped(said):
            place = f"{each.queue} {each.offset} {each.reconsumed}"
            self._note(f"o {place}")
            if self._rng.randrange(4) == 0:
                continue
            said = self._answer(remote, remote.put(ACK, **_receipt(each)))
            if said.code == SUCCESS and time.monotonic() < until_s:
                self._note(f"k {place}")

    def _ask(self, remote: Remote) -> None:
        """Whether there is something to pop."""
        place = {"consumerGroup": POPPING, "topic": self._topic, "queueId": -1, "pollTime": 20, "bornTime": 0}
        said = self._answer(remote, remote.put(NOTIFICATION, **place))
        assert said.code in (SUCCESS, *NOT_SERVED), said

    def _commit(self, remote: Remote) -> None:
        opaque = remote.put(COMMIT_OFFSET, consumerGroup="remote", topic=self._topic, queueId=0, commitOffset=0)
        assert self._answer(remote, opaque).code in (SUCCESS, *NOT_SERVED)
        fields = {**remote.pull_fields(self._topic, 0, 0, most=1), "sysFlag": SUBSCRIPTION | WITH_COMMIT}
        assert self._answer(remote, remote.put(PULL, **{**fields, "consumerGroup": "remote"})).code in (SUCCESS, *PASSED_OVER)
        opaque = remote.put(MEMBERS, consumerGroup="remote")
        assert b"%d@crash" % self._who in self._answer(remote, opaque).body

    def _answer(self, remote: Remote, opaque: int) -> Said:
        """Answers come in any order, but here is only one request at a time."""
        said = remote.answered()
        assert said.opaque == opaque and REFUSED not in (said.remark or ""), said
        return said

    def _take(self, count: int) -> int:
        self._number += count
        return self._number - count

    def _acknowledged(self, number: int, queue: int, offset: int, id: str) -> None:
        self._note(f"a {number} {queue} {offset}")
        self._seen.append((number, queue, offset, int(id[16:], 16)))

    def _note(self, line: str) -> None:
        self._ledger.write(line + "\n")


def _receipt(message: Popped) -> dict[str, object]:
    place = {"topic": message.topic, "queueId": message.queue, "offset": message.offset}
    return {"consumerGroup": POPPING, "extraInfo": message.receipt, **place}


def _entry(body: bytes) -> bytes:
    """A message in the body of a batch, without properties."""
    return b"".join(size.to_bytes(4, "big") for size in (22 + len(body), 0, 0, 0, len(body))) + body + bytes(2)
