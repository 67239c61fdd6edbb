"""A chain of three stages at the end of a load: the last topic is what a plain computation makes of the first one."""

from __future__ import annotations

from collections import defaultdict

import orbitmq
from tests.crash.ledger import Account
from tests.crash.worker import CHAIN, CHAINED, chain_topic, chained
from tests.trees import everything

Queues = dict[int, list[tuple[int, int, int]]]


def settle_chain(client: orbitmq.Client, account: Account) -> None:
    """Queue by queue, in order: nothing is missing, nothing comes twice, nothing overtakes."""
    wanted = _queues(client, 0)
    account.acknowledged += sum(map(len, wanted.values()))
    for stage in CHAIN:
        wanted = {
            queue: [(who, number, chained(value, stage)) for who, number, value in messages]
            for queue, messages in wanted.items()
        }
        found = _queues(client, stage)
        for queue in sorted(wanted.keys() | found.keys()):
            account.wrong += differences(f"stage {stage}, queue {queue}", found.get(queue, []), wanted.get(queue, []))
    account.stored += sum(map(len, found.values()))


def differences(where: str, found: list[tuple[int, int, int]], wanted: list[tuple[int, int, int]]) -> list[str]:
    if found == wanted:
        return []
    missing, foreign = {*wanted} - {*found}, {*found} - {*wanted}
    return [
        f"{where}: {len(found)} messages instead of {len(wanted)}; "
        f"{len(missing)} are missing, such as {min(missing, default=None)}; {len(found) - len({*found})} come twice; "
        f"{len(foreign)} are wrong, such as {min(foreign, default=None)}"
    ]


def _queues(client: orbitmq.Client, stage: int) -> Queues:
    placed: dict[int, dict[int, tuple[int, int, int]]] = defaultdict(dict)
    for body, queue, offset, _ in everything(client, chain_topic(stage)):
        placed[queue][offset] = CHAINED.unpack(body)
    return {queue: [messages[offset] for offset in sorted(messages)] for queue, messages in placed.items()}
