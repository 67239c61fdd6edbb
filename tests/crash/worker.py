"""The load's processes, each a program of its own, so that each may be killed and started again (load.py starts them).

    python worker.py produce|delay|transact|check|feed|chain|share|toil|fail|keep|stir|remote <broker> <file> <number> <seed>

All of them outlive the broker: while none answers they ask again. They run until their standard input is closed.

produce  sends numbered messages, one by one, in batches and in atomic batches, with keys, some to be on disk
         first, some that must be refused, and notes each one's verdict, a line a message
delay    sends numbered messages that wait a second at most, cancels some, and notes each one's verdict and what became of it
transact begins transactions, ends them, some twice or not at all, and notes what it asked for and what became of it
check    is asked about transactions that nobody has ended, and notes what it says
feed     sends numbered messages to the beginning of a chain of topics
chain    a member of three groups, each of which reads a topic of the chain and writes the next one, exactly once
share    a member of the group "share": notes what it got, then commits
toil     a worker of the group "toil": notes what it got and what it has acknowledged for certain, and leaves some to others
fail     a worker of the group "fail": fails with much of what it gets, and notes what it has answered for certain
keep     takes all queues, and stores each batch's results together with its positions, in one transaction
remote   a client of RocketMQ's protocol: sends, ends transactions, pulls; notes what was answered (remote_worker.py)
stir     gives the coordinator work: sessions, topics, members that come and go, changes of groups, and a client that breaks
         the protocol
"""

from __future__ import annotations

import random
import select
import sqlite3
import struct
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TextIO

import orbitmq
from orbitmq import errors
from orbitmq.client.consumer.consumer import Consumer
from orbitmq.client.producer.producer import Pending, Producer
from orbitmq.client.receipt import Receipt
from orbitmq.client.transaction.check_function import CheckAnswer
from orbitmq.client.transaction.open_transactions import OpenTransaction
from orbitmq.client.transaction.transaction import Transaction
from orbitmq.client.work.session import WorkSession
from orbitmq.shm.durability import Durability

BODY = struct.Struct("<II")
TOPIC = "ledger"
SIDE = "side"
LATER = "later"  # for delayed messages
SETTLED = "settled"  # for transactions
REMOTE = "remote"  # for clients of the gateway
CHAINED = struct.Struct("<III")
CHAIN = (1, 2, 3)  # stages
SEALED = "sealed"  # nobody may write to it
GROUP = "share"
SIDE_GROUP = "side"
SPARES = ("spare", "spare", "spare", "rest", "rest", "long-rest")  # topics that are made and deleted; some stay so for a while
WORK_GROUP = "toil"
WORK_WANTED = "KEYS IS NULL OR KEYS NOT ENDSWITH '7'"  # what toil and fail ask for
FAIL_GROUP = "fail"
FAIL_TRIES = 2
SIDE_WORK = "side-toil"
# the broker is dead, or busy with its own death; PerhapsStored is a BrokerStopped too
AWAY = (errors.BrokerError, errors.TimedOut)
TIMEOUT_S = 60
IN_TIME_S = 1  # before its deadline, an answer surely came in time
MESSAGE_MAX = 16 << 10
ATOMIC_MOST = 20  # more would pass half a lane


class GivenUpError(Exception):
    """A program that has failed in the middle of a batch."""


def chain_topic(stage: int) -> str:
    """Which the stage writes, and the next one reads; also the name of the stage's group."""
    return f"chain-{stage}"


def chained(value: int, stage: int) -> int:
    """What the stage computes."""
    return (value * 31 + stage) % 0x10000


def over(seconds: float) -> bool:
    """True once standard input was closed; waits so long for it, which paces the load."""
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def connected(name: str) -> orbitmq.Client | None:
    """None if the end comes before a broker does."""
    while not over(0.01):
        with suppress(*AWAY):
            client = orbitmq.connect(name, timeout=TIMEOUT_S)
            client.topics()
            return client
    return None


class Producing:
    """One producer's life."""

    sender: Producer

    def __init__(self, who: int, seed: int, ledger: TextIO) -> None:
        self.who = who
        self.rng = random.Random(seed)
        self.ledger = ledger
        self.ledger_of_batches = Path(ledger.name).with_name(f"atomic-{who}")
        self.number = 0

    def step(self) -> None:
        count = self.rng.choice((1, 1, 1, 1, 3, 3, 20, 20, 100, 100, 400))  # the last is more than a lane takes
        durability: Durability = "flushed" if self.rng.random() < 0.2 else "appended"
        bodies = [BODY.pack(self.who, self.number + n) + bytes(self.rng.randrange(600)) for n in range(count)]
        keys = [f"{self.who}-{self.number + n}" for n in range(count)]
        way = self.rng.randrange(4)
        ids = keys if self.rng.random() < 0.5 else None
        sent = 0
        try:
            if self.rng.random() < 0.05:
                count = 1
                self.sender.send(SEALED, bodies[0])
                offsets = [-1]
            elif count == 1:
                how: dict[str, Any] = {"durability": durability, "dedup": ids and ids[0]}
                offsets = [self.sender.send(TOPIC, bodies[0], keys=keys[0], **how).physical_offset]
            elif way == 0:
                offsets = self._one_by_one(bodies)
            elif way == 1 and count <= ATOMIC_MOST:
                sent = count
                offsets = self._atomic(bodies, durability, f"batch {self.who}-{self.number}" if ids else None)
            else:
                sent = count
                done = self.sender.send_batch(TOPIC, bodies, keys=keys, durability=durability, dedup=ids)
                offsets = [receipt.physical_offset for receipt in done]
                if ids and count <= 20:
                    with suppress(*AWAY):
                        done = self.sender.send_batch(TOPIC, bodies, durability=durability, dedup=ids)
                        assert [receipt.physical_offset for receipt in done] == offsets
            verdicts = [str(offset) for offset in offsets]
        except errors.NoPermission:
            verdicts = ["refused"] * count
        except (errors.PerhapsStored, errors.TimedOut) as error:
            sent = count if error.sent is None else error.sent
            verdicts = ["perhaps"] * sent + ["refused"] * (count - sent)
        except errors.BrokerError as error:
            sent = error.sent or 0
            verdicts = ["perhaps"] * sent + ["refused"] * (count - sent)
        self.ledger.write("".join(f"{self.number + n} {verdict}\n" for n, verdict in enumerate(verdicts)))
        self.ledger.flush()
        self.number += len(verdicts)

    def _atomic(self, bodies: list[bytes], durability: Durability, dedup: str | None) -> list[str | int]:
        """All or none; some batches are refused because of their last message. Notes first which these are. One with an
        id is sent several times, also if nobody knows what became of it."""
        with self.ledger_of_batches.open("a") as notes:
            notes.write(f"{self.number} {len(bodies)}\n")
        refused = self.rng.random() < 0.2
        lost: errors.PerhapsStored | None = None
        offsets: list[str | int] | None = None
        for _ in range(4 if dedup else 1):
            try:
                again = self._batch(bodies, durability, dedup, refused)
            except errors.PerhapsStored as error:
                lost = lost or error
                if offsets is None and not dedup:
                    raise
            except AWAY:
                if offsets is not None:
                    break
                if lost is not None:
                    raise lost from None
                raise
            else:
                assert offsets in (None, again), "the second batch is the first"
                offsets = again
        if offsets is None:
            assert lost is not None
            raise lost
        return offsets

    def _batch(self, bodies: list[bytes], durability: Durability, dedup: str | None, refused: bool) -> list[str | int]:
        with self.sender.batch(durability=durability, dedup=dedup) as batch:
            for body in bodies:
                batch.send(TOPIC, body)
            if refused:
                batch.send(SEALED, b"")
        return [receipt.physical_offset for receipt in batch.receipts]

    def _one_by_one(self, bodies: list[bytes]) -> list[str | int]:
        """Without waiting in between; a verdict each."""
        pending: list[Pending | None] = []
        for body in bodies:
            try:
                pending.append(self.sender.send_async(TOPIC, body))
            except errors.BrokerError:
                pending.append(None)
        verdicts: list[str | int] = []
        for each in pending:
            try:
                verdicts.append("refused" if each is None else each.result(TIMEOUT_S).physical_offset)
            except errors.PerhapsStored:
                verdicts.append("perhaps")
        return verdicts


def produce(name: str, path: Path, who: int, seed: int) -> None:
    with path.open("w") as ledger:
        producing = Producing(who, seed, ledger)
        while (client := connected(name)) is not None:
            with suppress(*AWAY):
                producing.sender = client.producer(window=1024, message_max=MESSAGE_MAX, timeout=TIMEOUT_S)
                while not over(producing.rng.choice((0, 0.01, 0.02))):
                    producing.step()
                producing.sender.close()
                break
        ledger.write(f"{producing.number} end\n")


def delay(name: str, path: Path, who: int, seed: int) -> None:
    rng = random.Random(seed)
    number = 0
    with path.open("w") as ledger, path.with_name(f"cancelled-{who}").open("w") as cancelled:
        while (client := connected(name)) is not None:
            with suppress(*AWAY):
                sender = client.producer(window=1024, message_max=MESSAGE_MAX, timeout=TIMEOUT_S)
                while not over(0.02):
                    bodies = [BODY.pack(who, number + n) + bytes(rng.randrange(600)) for n in range(rng.choice((1, 1, 5, 50)))]
                    how: dict[str, Any] = rng.choice(({"delay_level": 1}, {"delay": 0.05}, {"delay": rng.random()}))
                    verdicts = _send_delayed(sender, bodies, **how)
                    first, number = number, number + len(bodies)
                    ledger.write("".join(f"{first + n} {_place(verdict)}\n" for n, verdict in enumerate(verdicts)))
                    ledger.flush()
                    if "delay" in how and rng.random() < 0.5:
                        stored = {first + n: each for n, each in enumerate(verdicts) if isinstance(each, Receipt)}
                        _cancel(client, {n: each for n, each in stored.items() if rng.random() < 0.5}, cancelled)
                sender.close()
                break
        ledger.write(f"{number} end\n")


def _cancel(client: orbitmq.Client, receipts: dict[int, Receipt], notes: TextIO) -> None:
    """Notes each one's number twice: before it is cancelled, and with the answer."""
    notes.write("".join(f"{number} asked\n" for number in receipts))
    notes.flush()
    answers = client.cancel_batch(list(receipts.values()), timeout=TIMEOUT_S)
    notes.write("".join(f"{number} {'never' if never else 'late'}\n" for number, never in zip(receipts, answers, strict=True)))
    notes.flush()


def _place(verdict: Receipt | str) -> str:
    return verdict if isinstance(verdict, str) else str(verdict.physical_offset)


def _send_delayed(sender: Producer, bodies: list[bytes], **how: Any) -> list[Receipt | str]:
    sent = len(bodies)
    try:
        if len(bodies) == 1:
            return [sender.send(LATER, bodies[0], **how)]
        return list(sender.send_batch(LATER, bodies, **how))
    except (errors.PerhapsStored, errors.TimedOut) as error:
        sent = len(bodies) if error.sent is None else error.sent
    except errors.BrokerError as error:
        sent = error.sent or 0
    return ["perhaps"] * sent + ["refused"] * (len(bodies) - sent)


def transact(name: str, path: Path, who: int, seed: int) -> None:
    """A line for each step: number, and "begin", "commit", "rollback" before it is asked for, "committed" or "rolled" after."""
    rng = random.Random(seed)
    number = 0
    with path.open("w", buffering=1) as ledger:
        while (client := connected(name)) is not None:
            with suppress(*AWAY):
                sender = client.producer(window=64, message_max=MESSAGE_MAX, timeout=TIMEOUT_S, group=f"group-{who % 3}")
                for left in client.open_transactions():  # of the dead, and some of others that live
                    with suppress(errors.TransactionSettled, errors.UnknownTransaction):
                        client.rollback_transaction(left, timeout=TIMEOUT_S)
                while not over(rng.choice((0, 0.02))):
                    begun = []
                    for _ in range(rng.choice((1, 1, 4))):
                        number += 1
                        ledger.write(f"{number} begin\n")
                        body = BODY.pack(who, number) + bytes(rng.randrange(600))
                        begun.append((number, sender.transaction(SETTLED, body)))
                    for each, transaction in begun:
                        _settle_some(rng, ledger, each, transaction)
                sender.close()
                break


def _settle_some(rng: random.Random, ledger: TextIO, number: int, transaction: Transaction) -> None:
    """Ends it as chance says, perhaps more than once: the first end counts."""
    durability: Any = rng.choice(("appended", "appended", "flushed"))
    for doing in rng.choice((("commit",), ("commit",), ("rollback",), ("commit", "rollback"), ("rollback", "commit"), ())):
        ledger.write(f"{number} {doing}\n")
        transaction.state = "open"  # the broker is asked again
        with suppress(errors.TransactionSettled):
            if doing == "commit":
                transaction.commit(durability=durability)
                ledger.write(f"{number} committed\n")
            else:
                transaction.rollback(durability=durability)
                ledger.write(f"{number} rolled\n")


def check(name: str, path: Path, _who: int, seed: int) -> None:
    """A line for each question: who, number, and the answer, before it is given."""
    rng = random.Random(seed)
    with path.open("w", buffering=1) as notes:

        def ask(transaction: OpenTransaction) -> CheckAnswer:
            answer: CheckAnswer = rng.choice(("commit", "rollback", "unknown"))
            who, number = BODY.unpack_from(transaction.body)
            notes.write(f"{who} {number} {answer}\n")
            return answer

        while (client := connected(name)) is not None:
            with suppress(*AWAY), ExitStack() as checkers:
                for group in range(3):
                    checkers.enter_context(client.check_transactions(f"group-{group}", ask))
                while not over(0.05):
                    client.topics()
                break


def feed(name: str, path: Path, who: int, seed: int) -> None:
    rng = random.Random(seed)
    number = 0
    while (client := connected(name)) is not None:
        with suppress(*AWAY):
            sender = client.producer(window=64, message_max=MESSAGE_MAX, timeout=TIMEOUT_S)
            while not over(0.01):
                bodies = [CHAINED.pack(who, number + n, 0) for n in range(rng.choice((1, 3, 20)))]
                number += len(bodies)
                sender.send_batch(chain_topic(0), bodies)
            sender.close()
            return


def chain(name: str, path: Path, _who: int, seed: int) -> None:
    rng = random.Random(seed)
    while (client := connected(name)) is not None:
        with suppress(*AWAY), ExitStack() as open_now:
            sender = open_now.enter_context(client.producer(window=64, message_max=MESSAGE_MAX, timeout=TIMEOUT_S))
            stages = []
            for stage in CHAIN:
                source, patience = [chain_topic(stage - 1)], rng.choice((0, 5))
                stages.append(open_now.enter_context(client.consumer(chain_topic(stage), source, revoke_timeout=patience)))
            while True:
                found = [_pass_on(rng, sender, stage, consumer) for stage, consumer in zip(CHAIN, stages, strict=True)]
                if not any(found) and over(0.005):
                    return


def _pass_on(rng: random.Random, sender: Producer, stage: int, consumer: Consumer) -> bool:
    """A batch of one stage. Some are given up, whose messages come again. Each queue's messages go to the queue of the same
    number."""
    messages = consumer.poll_batch(rng.choice((1, 10, 40)), timeout=0)
    durability: Durability = "flushed" if rng.random() < 0.1 else "appended"
    with suppress(errors.Fenced, GivenUpError), sender.batch(durability=durability) as batch:
        batch.commit(consumer)
        for message in messages:
            who, number, value = CHAINED.unpack(message.body)
            batch.send(chain_topic(stage), CHAINED.pack(who, number, chained(value, stage)), queue=message.queue)
        # Now and then queues go to another member before the batch is sent.
        select.select([], [], [], rng.choice((0, 0, 0.02)))
        if rng.random() < 0.1:
            raise GivenUpError
    return bool(messages)


def share(name: str, path: Path, _who: int, seed: int) -> None:
    rng = random.Random(seed)
    with path.open("w") as notes:
        while (client := connected(name)) is not None:
            with suppress(*AWAY), client.consumer(GROUP, [TOPIC]) as consumer:
                while True:
                    batch = consumer.poll_batch(rng.choice((10, 100, 1000)), timeout=0.05)
                    for message in batch:
                        who, number = BODY.unpack_from(message.body)
                        notes.write(f"{message.queue} {message.offset} {who} {number}\n")
                    notes.flush()
                    with suppress(errors.Fenced):
                        consumer.commit()
                    # Now and then the group moves on between two calls.
                    select.select([], [], [], rng.choice((0, 0, 0, 0.02)))
                    if not batch and over(0):
                        return


def toil(name: str, path: Path, _who: int, seed: int) -> None:
    """Lines: G queue offset who number, and D queue offset; then the broker's generation, and when the take began or the answer
    was known to count, by time.monotonic_ns."""
    rng = random.Random(seed)
    with path.open("w") as notes:
        while (client := connected(name)) is not None:
            with suppress(*AWAY):
                while True:  # a session each time, so that the group begins and ends too
                    in_hand = rng.choice((1, 50, 2000))
                    how: dict[str, Any] = {"in_hand": in_hand, "key_ordered": True, "sql": WORK_WANTED}
                    with client.work_session(WORK_GROUP, [TOPIC], visibility=3600, **how) as worker:
                        if _toil_for_a_while(worker, notes, rng):
                            return


def _toil_for_a_while(worker: WorkSession, notes: TextIO, rng: random.Random) -> bool:
    """True if all is done, and no more is to come."""
    for _ in range(rng.choice((1, 10, 100))):
        generation, began = worker.generation, time.monotonic_ns()
        found = worker.take(rng.choice((1, 10, 200)), 0.05)
        for each in found:
            who, number = BODY.unpack_from(each.message.body)
            notes.write(f"G {each.message.queue} {each.offset} {who} {number} {generation} {began}\n")
        notes.flush()
        rest, kept = [], []
        for each in found:
            (kept if rng.random() < 0.9 else rest).append(each)
        worker.ack(kept)
        if rest:
            worker.extend(rest[0], 600)
            worker.nack(rest[0], delay=rng.choice((0, 0.01)), reason="it is left to others")
            worker.give_back(rest[1:3])  # the others come again when the session ends
            worker.ack(rest[3:])
            kept += rest[3:]
        refused = set(map(id, worker.settled(TIMEOUT_S)))
        in_time = time.monotonic() + IN_TIME_S
        if worker.generation == generation:
            now = time.monotonic_ns()
            wrongly = [each for each in found if id(each) in refused and each.deadline > in_time]
            notes.write("".join(f"R {e.message.queue} {e.offset} {generation} {now}\n" for e in wrongly))
            notes.write("".join(f"D {e.message.queue} {e.offset} {generation} {now}\n" for e in kept if id(e) not in refused))
        if not found and over(0):
            return True
    return False


def fail(name: str, path: Path, _who: int, seed: int) -> None:
    """Lines: ack, retry or dead, and the physical offset of the message, once the answer was known to count; alien: of one that
    nobody asked for."""
    rng = random.Random(seed)
    how: dict[str, Any] = {"visibility": 3600, "max_tries": FAIL_TRIES, "sql": WORK_WANTED}
    with path.open("w") as notes:
        while (client := connected(name)) is not None:
            with suppress(*AWAY), client.work_session(FAIL_GROUP, [TOPIC], **how) as worker:
                while True:
                    generation = worker.generation
                    found = worker.take(rng.choice((1, 20)), 0.05)
                    aliens = [m.physical_offset for m in (each.message for each in found) if "7" in [key[-1] for key in m.keys]]
                    notes.write("".join(f"alien {place}\n" for place in aliens))
                    answers = [(each, rng.choice(("ack", "ack", "again", "nack"))) for each in found]
                    worker.ack([each for each, answer in answers if answer == "ack"])
                    for each, answer in answers:
                        if answer != "ack":
                            worker.nack(each, None if answer == "nack" else 0, reason=f"{each.delivery}", digest="d")
                    refused = set(map(id, worker.settled(TIMEOUT_S)))
                    if worker.generation == generation:
                        for each, answer in answers:
                            last = each.delivery >= FAIL_TRIES
                            kind = "ack" if answer == "ack" else "dead" if last else "retry" if answer == "nack" else None
                            if kind and id(each) not in refused:
                                notes.write(f"{kind} {each.message.physical_offset}\n")
                        notes.flush()
                    if not found and over(0):
                        return


def keep(name: str, path: Path, _who: int, seed: int) -> None:
    rng = random.Random(seed)
    results = sqlite3.connect(path, isolation_level=None)
    results.execute("PRAGMA synchronous = OFF")  # what dies is this process, not the machine
    columns = "queue INT, offset INT, who INT, number INT, PRIMARY KEY (queue, offset)"
    results.execute(f"CREATE TABLE IF NOT EXISTS result ({columns})")
    results.execute("CREATE TABLE IF NOT EXISTS position (queue INT PRIMARY KEY, offset INT)")
    while (client := connected(name)) is not None:
        with suppress(*AWAY), client.consumer(None, [TOPIC]) as consumer:
            for queue, offset in results.execute("SELECT queue, offset FROM position").fetchall():
                consumer.seek(TOPIC, queue, offset)
            while True:
                batch = consumer.poll_batch(rng.choice((10, 100, 1000)), timeout=0.05)
                if not batch:
                    if over(0) and not any(consumer.lag().values()):
                        return
                    continue
                results.execute("BEGIN")
                for message in batch:
                    row = (message.queue, message.offset, *BODY.unpack_from(message.body))
                    results.execute("INSERT INTO result VALUES (?, ?, ?, ?)", row)
                    results.execute("INSERT OR REPLACE INTO position VALUES (?, ?)", (message.queue, message.offset + 1))
                results.execute("COMMIT")


def stir(name: str, path: Path, who: int, seed: int) -> None:
    rng = random.Random(seed)
    made = 0
    while (client := connected(name)) is not None:
        with suppress(*AWAY):
            while not over(0.01):
                match rng.randrange(8):
                    case 0:
                        with client.producer(window=64, message_max=MESSAGE_MAX, timeout=TIMEOUT_S) as sender:
                            sender.send(SIDE, b"x")
                    case 1:
                        with client.consumer(GROUP, [TOPIC]):
                            pass
                    case 2:
                        with client.consumer(None, [SIDE]) as consumer:
                            consumer.poll(0)
                    case 3 if made < 200:
                        made += 1
                        client.create_topic(f"side-{seed}-{who}-{made // 4}", 1 + made % 4)
                    case 4:
                        client.status()
                    case 5:
                        with suppress(errors.UnknownGroup, errors.GroupInUse, errors.UnknownTopic, errors.Full):
                            _look_after(client, rng.choice(SPARES))
                    case 6:
                        with suppress(errors.GroupInUse, errors.UnknownTopic):
                            _work_and_consume(client)
                    case _:
                        _break_protocol(client)


def _look_after(client: orbitmq.Client, spare: str) -> None:
    """The group whose messages are counted gets some of them again; a group and a topic beside it are changed in every way.
    spare: a topic that is made, and deleted: reput removes its queues if nobody makes it again within a second or two."""
    client.purge_topic(SIDE)
    client.set_permissions(SIDE, read=True, write=True)
    client.create_topic(spare, 1)
    with client.producer(window=64, message_max=MESSAGE_MAX, timeout=TIMEOUT_S) as sender:
        sender.send(spare, b"x")
    client.delete_topic(spare)
    client.reset_group(GROUP, "-20")
    client.unlock_queues(SIDE_GROUP, client.lock_queues(SIDE_GROUP, [(SIDE, 0)], "stir"), "stir")
    with client.consumer(SIDE_GROUP, [SIDE]):
        client.pause_group(SIDE_GROUP)
    client.resume_group(SIDE_GROUP)
    client.reset_group(SIDE_GROUP, "earliest")
    client.delete_group(SIDE_GROUP)


def _work_and_consume(client: orbitmq.Client) -> None:
    """A group has workers first, which are set back, and consumers then."""
    with client.work_session(SIDE_WORK, [SIDE], visibility=1) as worker:
        worker.ack(worker.take(10, 0.0))
        worker.take(3, 0.0)
        client.reset_group(SIDE_WORK, "-20")
    with client.consumer(SIDE_WORK, [SIDE]):
        pass


def _break_protocol(client: orbitmq.Client) -> None:
    from tests.crash.raw_session import RawSession

    session = RawSession(client)
    session.put(b"garbage")
    session.close()


def remote(name: str, path: Path, who: int, seed: int) -> None:
    from tests.crash.remote_worker import RemoteLoad

    while (client := connected(name)) is not None:
        life = RemoteLoad(client, path, who, seed, REMOTE, lambda number: BODY.pack(who, number) + bytes(seed % 100))
        while not over(0.01):
            life.run(lambda: over(0))


if __name__ == "__main__":
    roles = (produce, delay, transact, check, feed, chain, share, toil, fail, keep, stir, remote)
    work = {each.__name__: each for each in roles}[sys.argv[1]]
    work(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
