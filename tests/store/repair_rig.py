"""One repair of a store that a broker wrote, and the account of what is left of it."""

from __future__ import annotations

import orbitmq
from orbitmq.store import abort
from orbitmq.store.lock import StoreLock
from orbitmq.store.positions import Positions
from orbitmq.store.repair.choice import Choice
from orbitmq.store.repair.repair import Repair
from orbitmq.store.verify.findings import Verdict
from tests.store.damage import Place
from tests.store.stored_by_broker import SETTINGS, TOPICS, Stored


def repair(stored: Stored, choice: Choice = Choice.NONE) -> tuple[Repair, Verdict]:
    lock = StoreLock.acquire(stored.layout, "repair")
    try:
        job = Repair(stored.layout, SETTINGS, choice)
        job.survey()
        for finding in job.findings:
            assert job.deed(finding), finding
        return job, job.carry_out()
    finally:
        lock.release()


def read_all(stored: Stored, name: str) -> dict[Place, bytes]:
    """What a broker serves of the store. The broker also accepts one more message for each queue, at the next offset."""
    found: dict[Place, bytes] = {}
    sizes = {key: getattr(SETTINGS, key) for key in ("log_file_size", "queue_file_units", "index_slots", "index_entries")}
    with orbitmq.Broker(stored.layout.root, name=name, handlers=1, **sizes) as broker:
        known = {topic.name: topic for topic in broker.status().topics}
        ends = {(name, queue.queue): queue.max_offset for name in TOPICS for queue in known[name].queues}
        with broker.consumer(None, topics=list(TOPICS), start="earliest") as consumer:
            while any(position < ends[key] for key, position in consumer.position().items()):
                for each in consumer.poll_batch(500, timeout=0):
                    found[each.topic, each.queue, each.offset] = bytes(each)
        with broker.producer() as producer:
            for (topic, queue), end in ends.items():
                receipt = producer.send(topic, b"one more", queue=queue)
                assert receipt.offset == end
    return found


def account(stored: Stored, lost: set[Place]) -> None:
    """Everything that was sent is served, in its old place; of `lost` nothing."""
    assert stored.verify()[0].whole, stored.verify()[1]
    found = read_all(stored, "repaired")
    sent = {(*key, offset): body for key, bodies in stored.bodies.items() for offset, body in enumerate(bodies)}
    assert found == {place: body for place, body in sent.items() if place not in lost}
    assert stored.verify()[0].whole, "after the broker's life"


def dead(stored: Stored, flushed: int) -> None:
    """As a killed broker leaves it: nothing was certainly on disk from `flushed` on."""
    abort.create(stored.layout)
    record = Positions(stored.layout)
    record.record(flushed, 1)
    record.close()
