"""What workers noted (worker.py, toil) against the log."""

from __future__ import annotations

from pathlib import Path

import orbitmq
from tests.crash.worker import BODY
from tests.waiting import WATCHDOG_S, until

MARK = 0x57 << 56
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


def wrongs(folder: Path, wanted: set[tuple[int, ...]]) -> list[str]:
    """Every message was handed out, and none after it was known to be done; no answer that came in time was refused. wanted:
    (queue, offset, who, number) of each."""
    got: list[tuple[int, ...]] = []
    done: dict[tuple[int, int], tuple[int, int]] = {}
    first: dict[int, int] = {}  # generation: when it was seen first
    wrong = []
    for path in folder.glob("toil-*"):
        for line in path.read_text().split("\n")[:-1]:  # a line without an end was cut off
            kind, *words = line.split()
            numbers = tuple(map(int, words))
            generation, moment = numbers[-2:]
            first[generation] = min(moment, first.get(generation, moment))
            if kind == "G":
                got.append(numbers)
            elif kind == "R":
                wrong.append(f"an answer about queue {numbers[0]}, offset {numbers[1]} was refused, though it came in time")
            else:
                place = numbers[0], numbers[1]
                done[place] = min(numbers[2:], done.get(place, numbers[2:]))  # type: ignore[assignment]
    came = {numbers[:4] for numbers in got}
    if came != wanted:
        wrong.append(f"workers got {len(came & wanted)} of {len(wanted)} messages, and {len(came - wanted)} others")
    for queue, offset, _, _, generation, began in got:
        end = done.get((queue, offset))
        if end is None:
            continue
        later = first[generation] > first[end[0]] or (generation == end[0] and began > end[1])
        if later:
            when = f"handed out in {generation} at {began}, and done in {end[0]} at {end[1]}"
            wrong.append(f"queue {queue}, offset {offset} was {when}")
    return wrong


def chosen(client: orbitmq.Client, topic: str, sql: str) -> set[tuple[int, ...]]:
    """(queue, offset, who, number) of each message that the filter lets pass."""
    found: set[tuple[int, ...]] = set()
    with client.consumer(None, [topic], sql=sql) as consumer:
        while any(consumer.lag().values()):  # few at a time: each may be in a file of its own
            found |= {(each.queue, each.offset, *BODY.unpack_from(each.body)) for each in consumer.poll_batch(60, 0.1)}
    return found


def failures(client: orbitmq.Client, folder: Path, group: str) -> list[str]:
    """What workers noted (worker.py, fail): each answer that counted has put its message where it belongs, once, and nothing
    was put there twice."""
    noted: dict[str, set[int]] = {"ack": set(), "retry": set(), "dead": set(), "alien": set()}
    for path in folder.glob("fail-*"):
        for line in path.read_text().split("\n")[:-1]:
            kind, offset = line.split()
            noted[kind].add(int(offset))

    def there() -> bool:
        retries, dead = _sources(client, group)
        return noted["retry"] <= set(retries) and noted["dead"] <= set(dead)

    try:
        until(there, "every retry and dead letter to be in the log")
    except AssertionError as error:
        return [f"{error}: {missing(noted, *_sources(client, group))}"]
    retries, dead = _sources(client, group)
    print(f"{len(retries)} retries and {len(dead)} dead letters, {len(noted['retry'])} and {len(noted['dead'])} of them noted")
    wrong = [f"{len(found)} {what} are made of {len(set(found))} messages" for found, what in
             ((retries, "retries"), (dead, "dead letters")) if len(found) != len(set(found))]  # fmt: skip
    if both := set(retries) & set(dead) or noted["ack"] & (set(retries) | set(dead)):
        wrong.append(f"{sorted(both)[:10]} are retried and dead, or done")
    if noted["alien"]:
        wrong.append(f"{sorted(noted['alien'])[:10]} came, and nobody asked for them")
    if not retries or not dead:
        wrong.append("nothing has failed")
    return wrong


def missing(noted: dict[str, set[int]], retries: list[int], dead: list[int]) -> str:
    return f"retries {sorted(noted['retry'] - set(retries))[:10]}, dead letters {sorted(noted['dead'] - set(dead))[:10]}"


def _sources(client: orbitmq.Client, group: str) -> tuple[list[int], list[int]]:
    """Physical offsets of the messages that the retries and the dead letters of a group were made of."""
    retries = [source for source, real in _made(client, SCHEDULE) if real == f"%RETRY%{group}"]
    dead = [source for source, _ in _made(client, f"%DLQ%{group}")]
    assert all(source & 0xFF << 56 == MARK for source in [*retries, *dead])
    return [source - MARK for source in retries], [source - MARK for source in dead]


def _made(client: orbitmq.Client, topic: str) -> list[tuple[int, str | None]]:
    """(prepared offset, property REAL_TOPIC) of each message."""
    found: list[tuple[int, str | None]] = []
    if topic in {each.name for each in client.topics()}:
        with client.consumer(None, [topic]) as consumer:
            while any(consumer.lag().values()):  # few at a time: each may be in a file of its own
                found += [(m.prepared_offset, m.properties.get("REAL_TOPIC")) for m in consumer.poll_batch(60, WATCHDOG_S)]
    return found
