"""What clients of RocketMQ's protocol have sent, at the end of a load: what was acknowledged is stored once, where the answer
said; everything else once or not at all; a batch whole or not at all; a half message's message only if it was committed;
and what was given back is a dead letter, at most as often as it was given back. What was popped, and acknowledged in time, is
not handed out again; everything else is."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import orbitmq
from tests.actors.remoting_kinds import CERTIFICATES
from tests.crash.ledger import BODY, Account
from tests.crash.worker import REMOTE
from tests.trees import everything
from tests.waiting import until

Message = tuple[int, ...]
PLAIN_HOST = "127.0.0.2"
POPPING = "popping"  # the group that pops
INVISIBLE_MS = 1500
ACCOUNT, SECRET = "the-crowd", "of-the-crowd"
RULES = f"""\
globalWhiteRemoteAddresses: [{PLAIN_HOST}]
accounts:
- accessKey: {ACCOUNT}
  secretKey: {SECRET}
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: PUB|SUB
"""


def settings_for_remote(folder: Path) -> dict[str, Any]:
    """A gateway for clients that sign, or come from PLAIN_HOST, with and without TLS."""
    rules = folder / "plain_acl.yml"
    rules.write_text(RULES)
    tls = {f"tls_{kind}": str(CERTIFICATES / f"first.{end}") for kind, end in (("cert", "pem"), ("key", "key"))}
    return {"listen": "127.0.0.1:0", "acl": str(rules), **tls}


def settle_remote(client: orbitmq.Client, folder: Path, account: Account) -> None:
    stored = [(BODY.unpack_from(body), queue, offset) for body, queue, offset, _ in everything(client, REMOTE)]
    came = Counter(message for message, *_ in stored)
    places = {(message, queue, offset) for message, queue, offset in stored}
    sent: set[Message] = set()
    committed: set[Message] = set()
    given: Counter[Message] = Counter()
    dead: set[Message] = set()
    handed: dict[Message, int] = {}
    done: dict[Message, int] = {}
    for path in folder.glob("remote-*"):
        who = int(path.name.partition("-")[2])
        for kind, lines in _lines(path).items():
            for numbers in lines:
                message = (who, numbers[0])
                match kind:
                    case "s" | "h":
                        sent.add(message)
                    case "b":
                        batch = [(who, numbers[0] + n) for n in range(numbers[1])]
                        sent.update(batch)
                        if len({came[each] for each in batch}) > 1:
                            account.wrong.append(f"the batch of {numbers[1]} from {message} on was stored in part")
                    case "a":
                        account.acknowledged += 1
                        if (message, *numbers[1:]) not in places:
                            account.wrong.append(f"{message} was acknowledged at {numbers[1:]}, and is not there")
                    case "g":
                        given[message] += 1
                    case "o" | "k":
                        known = handed if kind == "o" else done
                        place = numbers[0], numbers[1]
                        known[place] = max(numbers[2], known.get(place, 0))
                    case "d":
                        dead.add(message)
                    case _:
                        committed.add(message)
    account.wrong += _settle_popped(client, {(queue, offset) for _, queue, offset in stored}, handed, done)
    account.stored += len(stored)
    account.wrong += [f"{message} came {times} times" for message, times in came.items() if times > 1]
    account.wrong += [f"{message} came, and nobody has sent it" for message in came if message not in sent]
    letters = Counter(BODY.unpack_from(body) for body, *_ in everything(client, f"%DLQ%{REMOTE}"))
    account.wrong += [f"{message} was given back, and is no dead letter" for message in dead if not letters[message]]
    account.wrong += [f"{message} has {count} dead letters" for message, count in letters.items() if count > given[message]]
    account.wrong += [f"{message} was committed, and did not come" for message in committed if not came[message]]


def _settle_popped(
    client: orbitmq.Client, messages: set[Message], handed: dict[Message, int], done: dict[Message, int]
) -> list[str]:
    """Deliveries are counted, and counts never fall, so that one behind the delivery that was acknowledged has a larger number.
    The rest comes to a worker, if the last clients' time for it is over."""
    wrong = [f"{place} was popped again, and was done" for place, tried in done.items() if handed[place] > tried]
    came = set(handed)
    with client.work_session(POPPING, [REMOTE]) as worker:

        def finished() -> bool:
            for each in worker.take(50, timeout=0.1):  # few at a time: each may be in a file of its own
                place = each.message.queue, each.message.offset
                if each.message.topic == REMOTE:
                    came.add(place)
                    if place in done:
                        wrong.append(f"{place} was handed out at the end, and was done")
                worker.ack([each])
            return not sum(queue.lag_messages for queue in client.group(POPPING).queues if queue.topic == REMOTE)

        until(finished, "what was not acknowledged")
    return wrong + [f"{place} came to nobody" for place in messages - came]


def _lines(path: Path) -> dict[str, list[list[int]]]:
    found: dict[str, list[list[int]]] = defaultdict(list)
    for line in path.read_text().split("\n")[:-1]:  # a line without an end was cut off
        kind, *numbers = line.split()
        found[kind].append([int(number) for number in numbers])
    return found
