"""Checks that a broker serves what was sent: every message by its offset, and by tag, by time, by key and by id."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import orbitmq
from tests.interop.judge import Judge
from tests.interop.letters import Letter, of_orbitmq, of_rocketmq
from tests.trees import indexed

SAMPLE = 200  # keys and ids that are looked up, of all that were sent
HITS_MAX = 64  # of one look-up; RocketMQ's limit


def by_rocketmq(judge: Judge, sent: list[Letter], rng: random.Random, *, times: bool = True, keys: bool = True) -> None:
    """Asks RocketMQ's client about all messages of one topic.

    times, keys: search for these as well. RocketMQ's search by time is exact only in queue files that it has not written
        itself, and after a kill it forgets keys.
    """
    topic = sent[0].topic
    found = pulled(judge, topic)
    assert_same(found, sent)
    assert_same(pulled(judge, topic, tags="paid || 日本"), [letter for letter in sent if letter.tags in ("paid", "日本")])
    for queue, letters in _queues(found).items():
        assert judge.bounds(topic)[queue] == (letters[0].offset, letters[-1].offset + 1)
        if times:
            _assert_times(letters, lambda asked: list(judge.ask("search", topic=topic, queue=queue, times=asked)))
    if keys:
        wanted = _sample_of_keys(sent, rng)
        hits = judge.ask("find", topic=topic, keys=list(wanted))
        for (key, holders), shown in zip(wanted.items(), hits, strict=True):
            assert_same(map(of_rocketmq, shown), holders, f"with key {key}")
    some = rng.sample(sent, min(SAMPLE, len(sent)))
    shown = judge.ask("view", topic=topic, ids=[judge.here(letter.id) for letter in some])
    assert [of_rocketmq(one) for one in shown] == some


def by_orbitmq(broker: orbitmq.Client, sent: list[Letter], rng: random.Random) -> None:
    """Asks OrbitMQ's client about all messages of one topic."""
    topic = sent[0].topic
    found = stored(broker, topic)
    assert_same(found, sent)
    assert_same(stored(broker, topic, tags="paid || 日本"), [letter for letter in sent if letter.tags in ("paid", "日本")])
    with broker.consumer(None, topics=[topic]) as consumer:

        def search(queue: int, asked: list[int]) -> list[int]:
            places = []
            for ms in asked:
                consumer.seek_to_time(ms, nearest=True)  # as RocketMQ searches
                places.append(consumer.position()[topic, queue])
            return places

        for queue, letters in _queues(found).items():
            _assert_times(letters, lambda asked: search(queue, asked))
    for key, holders in _sample_of_keys(sent, rng).items():
        assert_same(map(of_orbitmq, broker.find(topic, key, most=HITS_MAX)), holders, f"with key {key}")
    for letter in rng.sample(sent, min(SAMPLE, len(sent))):
        assert of_orbitmq(broker.message(letter.id)) == letter


def pulled(judge: Judge, topic: str, **fields: Any) -> list[Letter]:
    """Every message of the topic, by RocketMQ's client."""
    return [of_rocketmq(shown) for shown in judge.ask("pull", topic=topic, **fields)]


def stored(broker: orbitmq.Client, topic: str, tags: str | None = None) -> list[Letter]:
    """Every message of the topic, by OrbitMQ's client."""
    indexed(broker)
    known = next(found for found in broker.status().topics if found.name == topic)
    found: list[Letter] = []
    with broker.consumer(None, topics=[topic], tags=tags) as consumer:
        while any(consumer.position()[topic, queue.queue] < queue.max_offset for queue in known.queues):
            found += map(of_orbitmq, consumer.poll_batch(1000, timeout=0))
    return found


def assert_same(found: Iterable[Letter], sent: Iterable[Letter], what: str = "in all") -> None:
    """Every letter that was sent was found, whole, at its place and once, and no other."""
    places = sorted(found, key=lambda letter: letter.place)
    wanted = sorted(sent, key=lambda letter: letter.place)
    came, expected = (Counter(letter.place for letter in letters) for letters in (places, wanted))
    assert came == expected, f"{what}: missing {sorted(expected - came)}, more than was sent {sorted(came - expected)}"
    for one, other in zip(places, wanted, strict=True):
        differ = [name for name in Letter.__slots__ if name != "stored_ms" and getattr(one, name) != getattr(other, name)]
        assert not differ, f"{what}: {[(name, getattr(one, name), getattr(other, name)) for name in differ]}"


def assert_among(sent: Iterable[Letter], found: Iterable[Letter]) -> None:
    """As assert_same, if others may have been found as well."""
    wanted = list(sent)
    places = {letter.place for letter in wanted}
    assert_same((letter for letter in found if letter.place in places), wanted)


def assert_dense(found: Iterable[Letter]) -> None:
    """Each queue's offsets begin at 0 and have no gaps."""
    for letters in _queues(found).values():
        assert [letter.offset for letter in letters] == list(range(len(letters)))


def _queues(letters: Iterable[Letter]) -> dict[int, list[Letter]]:
    queues: dict[int, list[Letter]] = defaultdict(list)
    for letter in sorted(letters, key=lambda letter: letter.place):
        queues[letter.queue].append(letter)
    return queues


def _assert_times(letters: list[Letter], search: Callable[[list[int]], list[int]]) -> None:
    """Each letter of a queue is found by its store time, or another one of that time; the first one for an earlier time, the
    last one for a later time."""
    times = list(dict.fromkeys(letter.stored_ms for letter in letters))
    assert times == sorted(times) and times[0] > 0
    first = letters[0].offset
    found = search([times[0] - 10_000, *times, times[-1] + 10_000])
    assert found[0] == first
    assert found[-1] == letters[-1].offset
    assert [letters[offset - first].stored_ms for offset in found[1:-1]] == times


def _sample_of_keys(sent: list[Letter], rng: random.Random) -> dict[str, list[Letter]]:
    """Some keys, and which letters have them; one that no letter has."""
    holders: dict[str, list[Letter]] = defaultdict(list)
    for letter in sent:
        for key in letter.keys:
            holders[key].append(letter)
    assert max(map(len, holders.values())) <= HITS_MAX, "one look-up cannot find them all"
    some = rng.sample(sorted(holders), min(SAMPLE, len(holders)))
    return {key: holders[key] for key in some} | {"nobody's": []}
