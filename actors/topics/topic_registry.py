"""Topics: config/topics.json on disk and the topic table in shared memory, kept the same. The coordinator adds topics; the
supervisor fills the table before any other process runs.

Every change is made in the file first, and in the table only when it is on disk there. So nobody, nor a backup, finds a topic,
a queue or a message of one that the file does not name; and a change that cannot be written down is not made at all. After a
death between the two, the next coordinator, or the next start, does the rest. Deletions have their own file, and the same
order (purges.py)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from orbitmq.actors.sessions.caller import OPERATOR, Caller, Share, require_maker
from orbitmq.actors.topics.purges import Purges
from orbitmq.actors.topics.topic_settings import (
    check_settings,
    durable_of,
    exists_otherwise,
    hours_of,
    permitted,
    with_settings,
)
from orbitmq.errors import Full, NoPermission, SettingError
from orbitmq.errors.remedy import Knob, hint
from orbitmq.native._core import ffi, lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.durability import Durability
from orbitmq.shm.missing_topic import missing_topic
from orbitmq.shm.reply_topic import REPLY_HOURS, REPLY_QUEUES, REPLY_TOPIC
from orbitmq.shm.topic_name import check_new_topic_name, check_topic_name, possible, reserved_topic
from orbitmq.shm.topic_table import PERM_READ, PERM_READ_WRITE, PERM_WRITE, Topic, TopicTable
from orbitmq.store.config import DataVersion, TopicConfig, load_topics, store_topics
from orbitmq.store.delays import DELAY_TOPIC, DELAY_TOPICS
from orbitmq.store.group_commits import COMMITS_TOPIC
from orbitmq.store.halves import TRANSACTION_TOPICS
from orbitmq.store.layout import StoreLayout
from orbitmq.store.recovery.report import RecoveryReport

# A topic may grow to this many queues without moving those it has, or to twice its first number.
SPARE_SLOTS = 16


class TopicRegistry(TopicTable):
    """Args: table: the tree's, a `struct topics *`. shares: what one user may take of topics and of queues; None: all."""

    def __init__(
        self, layout: StoreLayout, table: Any, shares: tuple[Share, Share] | None = None, *, read_only: bool = False
    ) -> None:
        super().__init__(table)
        self._layout = layout
        self.purges = Purges(layout, TopicTable(table))
        self._shares = shares
        # Kept whole, so that settings of a topic survive that only a RocketMQ broker uses.
        self._configs: dict[str, TopicConfig] = {}
        self._version = DataVersion()
        self._read_only = read_only
        self._behind = False  # the file is behind, after a write that failed

    def load(self, report: RecoveryReport | None = None) -> list[str]:
        """Adds to the table what the file has: if a coordinator died between the two, its successor finishes the change. Adds
        to the file what only the table has, if another program, or a .bak that was read instead, has taken it out of the file.
        Entries that cannot be topics stay in the file only.

        report: what recovery found in queues and log; topics get room for that. Returns the topics whose permission a
        predecessor had changed in the file only. Raises: Full: the table has none.
        """
        changed = []
        self._configs, self._version = load_topics(self._layout)
        self._forget_deleted()
        found = _queues_found(report) if report is not None else {}
        for name, config in self._configs.items():
            if not possible(name, 0):
                continue
            queues = max(config.read_queues, config.write_queues, found.get(name, 1), _least_queues(name))
            topic = self.find(name)
            if topic is None:
                topic = self._revive(config, queues) or self._add(config, queues)
            elif topic.queues < queues:
                lib.topic_set_queues(self._table, topic.index, min(queues, topic.slot_capacity))
            if topic.perm != (perm := permitted(name, config.perm)):
                lib.topic_set_perm(self._table, topic.index, perm)
                changed.append(name)
            self._keep(topic.index, config)
        missing = [topic for topic in self if topic.name not in self._configs]
        if missing:
            described = {topic.name: self._described(topic.name, topic.queues, topic.perm) for topic in missing}
            self._store({**self._configs, **described})
        return changed

    def seed(self, report: RecoveryReport) -> None:
        """Gives queues their bounds as recovery found them, and adds to the table topics that only queues or log have. Those
        that cannot exist are left out, as reput will leave out their records."""
        found = _queues_found(report)
        for name, _ in report.missing_topics:
            if name in found:
                self.adopt(name, found[name])
        for queue in report.queues:
            if not possible(queue.topic, queue.queue):
                continue
            topic = self.find_even_deleted(queue.topic)
            if topic is None or queue.queue >= topic.queues:
                topic = self.adopt(queue.topic, queue.queue + 1)
            slot = topic.first_slot + queue.queue
            end = self.purges.ends(queue.topic).get(queue.queue, 0)
            if queue.next_offset >= end:
                lib.queue_recovered(self._table, slot, queue.min_offset, queue.max_offset, queue.physical_end)
            else:  # the log does not hold all that the topic got before it was deleted
                lib.queue_recovered(self._table, slot, end, end, queue.physical_end)

    def get(self, name: str) -> Topic:
        """Raises: UnknownTopic: has .topic."""
        topic = self.find(name)
        if topic is None:
            raise missing_topic(self, name, "use")
        return topic

    def create(
        self,
        name: str,
        queues: int,
        perm: int | None = None,
        retention_hours: int | None = None,
        durability: Durability | None = None,
        *,
        caller: Caller = OPERATOR,
    ) -> Topic:
        """A new topic; or an existing one with the same settings; or an existing one with more queues, another retention or
        another durability, which only its maker and the broker's own user may change. A topic that was deleted may be made
        again: its queues' offsets go on.

        perm: None: that of the existing topic; of a new one, all.
        retention_hours: how long its messages are kept; 0: for ever; AS_THE_BROKER; None: unchanged, and the broker's setting
            for a new topic.
        durability: what receipts wait for if a sender does not say; None: unchanged, and "appended" for a new topic.

        The file comes first: if the change cannot be written there, it is not made at all. If the coordinator dies when the
        file has the change and the table does not, its successor adds it.

        Raises: TopicNameError, SettingError; TopicExists: with other settings; NoPermission: it is another user's; Full: no
            room in the table, or the user has its share, or, with the limit "reput", a deleted topic cannot be made again yet;
            OSError: the file cannot be written.
        """
        check_new_topic_name(name)
        topic = self.find(name)
        if perm is None:
            perm = PERM_READ_WRITE if topic is None else topic.perm
        check_settings(name, queues, perm, retention_hours, durability)
        config = self._configs.get(name) or TopicConfig(name)
        if topic is None or queues > topic.queues or name not in self._configs:
            config = replace(config, perm=perm, read_queues=queues, write_queues=queues)
        config = with_settings(config, retention_hours, durability)
        place = self.find_even_deleted(name)
        if topic is None:
            self._check_shares(caller, queues)
            config = replace(config, maker=caller.mark)
            if place is None:
                self._capacity(name, queues)
            elif queues > place.slot_capacity:
                raise Full(
                    f"cannot make the topic {name!r} again with {queues} queues: the place of the deleted one has room for "
                    f"{place.slot_capacity}",
                    hint="take fewer; or restart the broker, which gives the topic another place, and try again",
                    limit="queues",
                    topic=name,
                )
        elif topic.perm != perm or queues < topic.queues or queues > topic.slot_capacity:
            raise exists_otherwise(topic, queues, perm)
        if topic is not None and self._configs.get(name) != config:
            require_maker(caller, config.maker, f"change the topic {name!r}")
        if self._read_only and self._configs.get(name) != config:
            raise NoPermission(
                f"cannot create or change the topic {name!r}: the store was opened read-only",
                hint=hint(
                    "start the broker without {read_only of broker}; if the store is damaged, repair it first (orbitmq repair)"
                ),
                topic=name,
            )
        if topic is None:
            return self._make(config, queues)
        if self._behind or self._configs.get(name) != config:
            self._store({**self._configs, name: config})
        if queues > topic.queues:
            self._grow(topic, queues)
        self._keep(topic.index, config)
        return self._live(topic.index)

    def add_waiting(self, name: str) -> None:
        """Makes sure of one of the topics in which messages wait for their time, or for the end of a transaction, and of no
        other: that of levels takes many queues. Raises: Full; OSError: it cannot be written down, and does not exist."""
        assert name in (*DELAY_TOPICS, *TRANSACTION_TOPICS, COMMITS_TOPIC), name
        if self.find(name) is None or name not in self._configs or self._behind:
            self.adopt(name, _least_queues(name))

    def add_own(self, name: str, queues: int, hours: int | None = None) -> Topic:
        """Makes sure of a topic that the broker itself needs, such as a group's retries or dead letters. The file comes first:
        a retry that is on its way to a topic which only the table has would be lost in the next start, which finds no record
        of it. hours: how long a new one's messages are kept. Raises: TopicNameError; Full; OSError."""
        check_topic_name(name)
        topic = self.find(name)
        if topic is not None and name in self._configs and not self._behind:
            return topic
        place = self.find_even_deleted(name)
        if topic is not None:
            return self.adopt(name, queues)
        if place is None:
            self._capacity(name, queues)
        if place is not None:
            queues = min(queues, place.slot_capacity)
        config = TopicConfig(name, queues, queues, perm=PERM_READ_WRITE, retention_hours=hours)
        return self._make(config, queues)

    def add_replies(self) -> None:
        """Makes sure of the topic in which replies are kept. Raises: Full; OSError."""
        self.add_own(REPLY_TOPIC, REPLY_QUEUES, REPLY_HOURS)

    def changeable(self, name: Any, caller: Caller, doing: str, *, letters: bool = False, left: bool = False) -> Topic:
        """The topic, if the user may change it. letters: it may hold a group's dead letters. left: it is of a group that is
        gone. Raises: TopicNameError, UnknownTopic; NoPermission: it is another user's, or RocketMQ's own, or the store is only
        read."""
        dead = letters and isinstance(name, str) and name.startswith("%DLQ%")
        (check_topic_name if dead or left else check_new_topic_name)(name)
        topic = self.get(name)
        require_maker(caller, (self._configs.get(name) or TopicConfig(name)).maker, f"{doing} the topic {name!r}")
        if self._read_only:
            raise NoPermission(
                f"cannot {doing} the topic {name!r}: the store was opened read-only",
                hint=hint("start the broker without {read_only of broker}"),
                topic=name,
            )
        return topic

    def permit(self, name: Any, perm: object, *, caller: Caller = OPERATOR) -> Topic:
        """Says what clients may do with the topic: PERM_READ, PERM_WRITE, both or neither. The file comes first.

        Raises: as `changeable`; SettingError; OSError: nothing has changed.
        """
        topic = self.changeable(name, caller, "change the permission of")
        if not isinstance(perm, int) or isinstance(perm, bool) or perm & ~PERM_READ_WRITE:
            raise SettingError(
                f"cannot give the topic {name!r} the permission {perm!r:.64}: it must be 0, {PERM_WRITE} to write, {PERM_READ} "
                f"to read or {PERM_READ_WRITE} for both",
                name="perm",
                value=perm,
            )
        config = self._configs.get(name) or TopicConfig(name, read_queues=topic.queues, write_queues=topic.queues)
        # Bit 0 is RocketMQ's own.
        config = replace(config, perm=config.perm & ~PERM_READ_WRITE | perm)
        if self._behind or self._configs.get(name) != config:
            self._store({**self._configs, name: config})
        lib.topic_set_perm(self._table, topic.index, config.perm)
        crash_point("topic_registry_permitted")
        return self._live(topic.index)

    def adopt(self, name: str, queues: int) -> Topic:
        """A topic that the log knows, or that is about to get its first message: creates it, or gives it the queues that the
        log shows. The file comes first. Raises: TopicNameError; Full; OSError: the table has not changed."""
        check_topic_name(name)
        queues = max(queues, _least_queues(name))
        place = self.find_even_deleted(name)
        if place is None:
            self._capacity(name, queues)
        elif queues > place.slot_capacity:
            raise Full(
                f"cannot give the topic {name!r} {queues} queues: it has room for {place.slot_capacity}",
                hint="restart the broker: a start makes room for every queue that the log holds",
                limit="queues",
                topic=name,
            )
        deleted = name in self.purges.deleted if place is None else place.deleted
        queues, perm = (queues, PERM_READ_WRITE) if place is None else (max(queues, place.queues), place.perm)
        config = self._described(name, queues, perm)
        if not deleted and (self._behind or self._configs.get(name) != config):
            self._store({**self._configs, name: config})
        if place is None:
            return self._add(config, queues, deleted=deleted)
        if queues > place.queues:
            self._grow(place, queues)
        return self._live(place.index)

    def delete(self, topic: Topic) -> None:
        """The topic does not exist from here on; one of its name may be made again. Raises: OSError: it still exists, or will
        be gone for good with the next try or the next coordinator."""
        self.purges.delete(topic, self._version.counter)
        self._forget_deleted()

    def _forget_deleted(self) -> None:
        """Takes deleted topics out of the file, and marks them in the table: what their deletion, cut short, has left. A topic
        that another program has put into the file since is not deleted any more."""
        for name, counter in dict(self.purges.deleted).items():
            if name in self._configs and not self.purges.hides(name):
                self.purges.made(name, store=not self._read_only)
            elif name in self._configs and self._version.counter > counter:
                self.purges.forget(name, store=not self._read_only)
        left = {name: config for name, config in self._configs.items() if name not in self.purges.deleted}
        for name in self.purges.deleted:
            place = self.find_even_deleted(name)
            if place is not None and not place.deleted:
                lib.topic_set_deleted(self._table, place.index, True)
        if left != self._configs:
            self._store(left)

    def _make(self, config: TopicConfig, queues: int) -> Topic:
        """See purges.py for the steps if a topic of this name was deleted. Raises: Full: it is too early; OSError."""
        name = config.name
        if not self.purges.begin_again(name):
            raise Full(
                f"cannot make the topic {name!r} again yet: reput has not passed the messages of the deleted topic",
                hint="try again, which is safe; if it lasts, orbitmq status shows why reput does not go on",
                limit="reput",
                topic=name,
            )
        try:
            self._store({**self._configs, name: config})
        except OSError:
            self.purges.stay_deleted(name, self._version.counter)
            raise
        topic = self._revive(config, queues) or self._add(config, queues)
        self.purges.made(name)
        return self._live(topic.index)

    def _revive(self, config: TopicConfig, queues: int) -> Topic | None:
        """Gives a topic that is made again its old place in the table, where its queues' numbers go on. None: it has none."""
        place = self.find_even_deleted(config.name)
        if place is None:
            return None
        lib.topic_set_queues(self._table, place.index, min(queues, place.slot_capacity))
        lib.topic_set_perm(self._table, place.index, permitted(config.name, config.perm))
        self._keep(place.index, config)
        self.purges.apply_to(place)
        lib.topic_set_deleted(self._table, place.index, False)
        crash_point("topic_registry_revived")
        return self._live(place.index)

    def _add(self, config: TopicConfig, queues: int, *, deleted: bool = False) -> Topic:
        """A topic that RocketMQ keeps for itself can be read here, and nobody may write to it."""
        name, encoded = config.name, config.name.encode()
        perm = permitted(name, config.perm)
        index = ffi.new("uint32_t *")
        capacity, first = self._capacity(name, queues), int(lib.topics_queue_count(self._table))
        for queue, end in self.purges.ends(name).items():
            if queue < capacity:
                lib.queue_recovered(self._table, first + queue, end, end, 0)
        # Before anybody sees the topic: a message that comes at once must wait for the disk already if the file says so.
        lib.topics_expect(self._table, encoded, len(encoded), hours_of(config), durable_of(config))
        lib.topics_add(self._table, encoded, len(encoded), queues, capacity, perm, index)
        if deleted:
            lib.topic_set_deleted(self._table, index[0], True)
        crash_point("topic_registry_added")
        return self._live(index[0])

    def _grow(self, topic: Topic, queues: int) -> None:
        lib.topic_set_queues(self._table, topic.index, queues)
        crash_point("topic_registry_grown")

    def _check_shares(self, caller: Caller, queues: int) -> None:
        """Raises: Full: another topic with so many queues is more than the user may have."""
        if self._shares is None:
            return
        topics, slots = Counter[int | None](), Counter[int | None]()
        for topic in self:
            config = self._configs.get(topic.name)
            maker = config.maker if config is not None else None
            topics[maker] += 1
            slots[maker] += topic.slot_capacity
        for share, held, wanted in zip(self._shares, (topics, slots), (1, queues), strict=True):
            share.check(caller, held, wanted)

    def _capacity(self, name: str, queues: int) -> int:
        """How many slots a new topic gets. Raises: Full: the table has no room."""
        encoded = name.encode()
        for capacity in (max(2 * queues, SPARE_SLOTS), queues):
            result = lib.topics_room(self._table, encoded, len(encoded), capacity)
            if result == lib.TOPICS_ADDED:
                return capacity
            if result == lib.TOPICS_FULL:
                break
        limit, setting = ("topics", "topic_capacity") if result == lib.TOPICS_FULL else ("queues", "queue_capacity")
        raise Full(
            f"cannot add the topic {name!r} with {queues} queues: the table of {limit} is full",
            hint=hint("raise {} and restart the broker", Knob(setting, of="broker")),
            limit=limit,
            topic=name,
        )

    def _live(self, index: int) -> Topic:
        """The topic of an index that is known to be in use."""
        topic = self._see(index)
        assert topic is not None
        return topic

    def _described(self, name: str, queues: int, perm: int) -> TopicConfig:
        """What the file is to say of a topic that the table has, or is to have, with this permission."""
        config = self._configs.get(name) or TopicConfig(name)
        # The file says what RocketMQ may do there; the table says what clients may do here.
        perm = config.perm if reserved_topic(name) else perm
        return replace(config, perm=perm, read_queues=queues, write_queues=queues)

    def _keep(self, index: int, config: TopicConfig) -> None:
        """Tells the table how long a topic's messages are kept, and what its receipts wait for, once the file says so."""
        lib.topic_set_retention(self._table, index, hours_of(config))
        crash_point("topic_registry_kept")
        lib.topic_set_durable(self._table, index, durable_of(config))
        crash_point("topic_registry_durable")

    def _store(self, configs: dict[str, TopicConfig] | None = None) -> None:
        """configs: what they are to be. They count once the file says so. In a store that is opened read-only the file stays as
        it is."""
        configs = self._configs if configs is None else configs
        configs = {name: config for name, config in configs.items() if not self.purges.hides(name)}
        if self._read_only:
            self._configs = configs
            return
        self._version = self._version.next()
        self._behind = True
        store_topics(self._layout, configs, self._version)
        crash_point("topic_registry_stored")
        self._configs = configs
        self._behind = False


def _least_queues(name: str) -> int:
    """Each delay level has its queue, even if another broker's log shows only some of them; so has each of those that share the
    replies, of which RocketMQ's topic has one queue."""
    return int(lib.DELAY_LEVELS) if name == DELAY_TOPIC else REPLY_QUEUES if name == REPLY_TOPIC else 1


def _queues_found(report: RecoveryReport) -> dict[str, int]:
    """For each topic that recovery found in queues or log, how many queues it must have."""
    found: dict[str, int] = {}
    for state in report.queues:
        if possible(state.topic, state.queue):
            found[state.topic] = max(found.get(state.topic, 0), state.queue + 1)
    return found
