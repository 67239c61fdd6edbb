"""Transactions at the end of a load: a message is in its topic once if somebody was told that it was committed, and never if he
was told that it was rolled back, or did not ask for a commit. Each half message has at most one operation message, and exactly
one if it has ended. A check-back is asked about each as often as the settings say at most, and what is given up is never
sent."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import orbitmq
from orbitmq.store.halves import GIVEN_UP_TOPIC, HALF_TOPIC, OP_TOPIC
from tests.crash.ledger import BODY, Account
from tests.crash.worker import SETTLED
from tests.trees import everything

CHECKS_MAX = 3


def settle_transactions(client: orbitmq.Client, folder: Path, account: Account) -> None:
    steps = _steps(folder)
    came = Counter(BODY.unpack_from(body) for body, *_ in everything(client, SETTLED))
    halves = {offset: BODY.unpack_from(body) for body, _, offset, _ in everything(client, HALF_TOPIC)}
    checked = _checked(folder)
    for message, answers in checked.items():
        if "commit" in answers:
            steps[message].add("commit")
    account.wrong += [f"{message} was checked {len(all_)} times" for message, all_ in checked.items() if len(all_) > CHECKS_MAX]
    given_up = Counter(BODY.unpack_from(body) for body, *_ in everything(client, GIVEN_UP_TOPIC))
    account.wrong += [f"{message} was given up {times} times" for message, times in given_up.items() if times > 1]
    account.wrong += [f"{message} was given up, and came" for message in given_up if came[message]]
    account.wrong += [f"{message} was given up, and its producer committed it" for message in given_up
                      if "committed" in steps.get(message, ())]  # fmt: skip
    ended = Counter(int(bytes(body)) for body, *_ in everything(client, OP_TOPIC))
    account.acknowledged += sum(1 for told in steps.values() if "committed" in told)
    account.stored += sum(came.values())
    for message, told in steps.items():
        if {"committed", "rolled"} <= told:
            account.wrong.append(f"the transaction {message} was committed and rolled back")
        if "committed" in told and came[message] != 1:
            account.wrong.append(f"the transaction {message} was committed, and its message came {came[message]} times")
        if came[message] and ("rolled" in told or "commit" not in told):
            account.wrong.append(f"the message of the transaction {message} came, of which its producer noted {sorted(told)}")
    if checked:
        account.wrong += [f"the half message {half} has not ended" for half in halves if not ended[half]]
    of_half = Counter(halves.values())
    account.wrong += [f"{message} came, and its producer has not begun it" for message in came if message not in steps]
    account.wrong += [f"{message} came {times} times" for message, times in came.items() if times > 1]
    account.wrong += [f"{message} has {times} half messages" for message, times in of_half.items() if times > 1]
    account.wrong += [f"the half message {half} was settled {times} times" for half, times in ended.items() if times > 1]
    account.wrong += [f"the half message {half} was settled, and does not exist" for half in ended if half not in halves]
    for half, message in halves.items():
        told = steps.get(message, set())
        if bool(told & {"committed", "rolled"}) > bool(ended[half]) or (came[message] and not ended[half]):
            account.wrong.append(f"the transaction {message} has ended, and its half message {half} is not settled")


def _checked(folder: Path) -> dict[tuple[int, ...], list[str]]:
    """What check-backs were answered."""
    found: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for path in folder.glob("check-*"):
        for line in path.read_text().split("\n")[:-1]:
            who, number, answer = line.split()
            found[int(who), int(number)].append(answer)
    return found


def _steps(folder: Path) -> dict[tuple[int, ...], set[str]]:
    found: dict[tuple[int, ...], set[str]] = defaultdict(set)
    for path in folder.glob("transact-*"):
        who = int(path.name.partition("-")[2])
        for line in path.read_text().split("\n")[:-1]:
            number, _, step = line.partition(" ")
            found[who, int(number)].add(step)
    return found
