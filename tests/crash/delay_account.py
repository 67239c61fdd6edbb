"""Delayed messages at the end of a load: each that is stored must come once, but for those that were cancelled, and no other.
If somebody was told that one never comes, it must not; if he was told that it is too late, it must."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orbitmq
from orbitmq.store.delays import DELAY_TOPICS
from tests.crash.ledger import BODY, Account, settle
from tests.crash.worker import LATER
from tests.trees import everything
from tests.waiting import until

LAST = BODY.pack(2**32 - 1, 0)
Row = tuple[bytes, int, int, int]  # body, queue, queue offset, physical offset


def settle_delayed(client: orbitmq.Client, folder: Path, account: Account) -> None:
    """The messages that were cancelled would have come before the last one, which is sent here."""
    with client.producer() as sender:
        sender.send(LATER, LAST, delay=1.0)
    until(lambda: LAST in _came(client), "the last delayed message to come")
    waiting = [row for place, name in enumerate(DELAY_TOPICS) for row in _messages(client, name, 100 * place, account)]
    waited = settle({int(path.name.partition("-")[2]): path for path in folder.glob("delay-*")}, waiting)
    account.wrong += waited.wrong
    account.acknowledged += waited.acknowledged
    account.stored += waited.stored
    answers = _answers(folder)
    must = {body for body, *_ in waiting if answers.get(BODY.unpack_from(body), "late") == "late"}
    until(lambda: must <= set(_came(client)), "every delayed message to come")
    came = [body for body in _came(client) if body != LAST]
    if len(came) != len(set(came)) or not set(came) <= {body for body, *_ in waiting}:
        account.wrong.append(f"{len(came)} delayed messages came, {len(waiting)} were stored: some twice, or others")
    again = [BODY.unpack_from(body) for body in came if answers.get(BODY.unpack_from(body)) == "never"]
    account.wrong += [f"the delayed message {message} was cancelled, and came" for message in again]


def _came(client: orbitmq.Client) -> list[bytes]:
    return [body for body, *_ in everything(client, LATER)]


def _messages(client: orbitmq.Client, name: str, first_queue: int, account: Account) -> Iterator[Row]:
    """Of a topic in which they wait, without records that cancel, which have no body. Queues and offsets are numbered anew."""
    if not any(topic.name == name and queue.max_offset for topic in client.status().topics for queue in topic.queues):
        return
    seen: Counter[int] = Counter()
    messages: Counter[int] = Counter()
    for body, queue, offset, physical in sorted(everything(client, name), key=lambda row: row[1:3]):
        if offset != seen[queue]:
            account.wrong.append(f"offsets of {name}, queue {queue}, are not dense")
        seen[queue] = offset + 1
        if body and body != LAST:
            yield body, first_queue + queue, messages[queue], physical
            messages[queue] += 1


def _answers(folder: Path) -> dict[tuple[int, int], str]:
    """By (producer, number): "never", "late", or "asked" if nobody was told."""
    found: dict[tuple[int, int], str] = {}
    for path in folder.glob("cancelled-*"):
        who = int(path.name.partition("-")[2])
        for line in path.read_text().split("\n")[:-1]:
            number, _, answer = line.partition(" ")
            found[who, int(number)] = answer
    return found
