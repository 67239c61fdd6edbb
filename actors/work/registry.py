"""Groups that have workers instead of consumers: who works in which group, and how far each group is. The dispatcher hands out
(native/actors/dispatcher/dispatcher.h); this tells it, by the work plan, which groups, queues and sessions there are.

A group has either workers or consumers. Its offset goes over from one to the other when the last of them has left. What workers
have done beyond the offset, out of order, is forgotten when a consumer joins."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from orbitmq.actors import events
from orbitmq.actors.groups.group_configs import TRIES_MAX
from orbitmq.actors.groups.group_registry import GroupRegistry
from orbitmq.actors.groups.groups import EARLIEST, FROM_LAST, LATEST, check_group_name
from orbitmq.actors.groups.offsets import Offsets
from orbitmq.actors.later import Later
from orbitmq.actors.sessions.caller import Caller
from orbitmq.actors.sessions.sessions import Session
from orbitmq.actors.topics.topic_registry import TopicRegistry
from orbitmq.actors.tree import Tree
from orbitmq.actors.work.filters import EVERYTHING, WorkFilter, check_same, with_filter
from orbitmq.errors import GroupInUse, NoPermission, OrbitError, SettingError
from orbitmq.errors.remedy import hint
from orbitmq.native._core import lib
from orbitmq.shm.crash_point import crash_point
from orbitmq.shm.random_number import random_number
from orbitmq.shm.topic_table import PERM_READ, QueueKey
from orbitmq.store import config
from orbitmq.store.delays import DELAY_TOPIC
from orbitmq.store.file_system import disk_error
from orbitmq.store.work import files as work_files
from orbitmq.store.work import plan as work_plan
from orbitmq.store.work.plan import TOPICS_MAX, PlannedGroup, PlannedWorker

VISIBILITY_MS_MIN = 100
PARTING_LOOK_S = 0.5  # between two looks at whether all is settled that the last workers of groups have left
RETRY, DEAD = "%RETRY%", "%DLQ%"  # before the group's name: its topics for what comes again, and for what does not


class WorkRegistry:
    """lives: whether a session of this slot and epoch still has its slot; stays: and its end has not begun."""

    def __init__(
        self, tree: Tree, topics: TopicRegistry, offsets: Offsets, groups: GroupRegistry, *,
        lives: Callable[[int, int], bool], stays: Callable[[int, int], bool],
    ) -> None:  # fmt: skip
        self._tree = tree
        self._layout = tree.settings.layout
        self._topics = topics
        self._offsets = offsets
        self._groups = groups
        self._lives = lives
        self._stays = stays
        self._plan: dict[str, PlannedGroup] = {}
        self._behind = False  # the plan's file says less than we know
        self._parting_at = 0.0  # groups without workers are not looked at before then

    def load(self) -> None:
        """Restores what a predecessor of the same generation knew."""
        self._plan = work_plan.load(self._layout, self._tree.generation)
        for group in self._groups:
            if group.members:  # it died before it could
                work_files.remove(self._layout, group.name)
        # What a predecessor had read may not be in consumerOffset.json yet.
        for name in work_files.groups(self._layout):
            for queue, floor in work_files.floors(self._layout, name, self._offsets.of_group(name)).items():
                self._offsets.set(name, queue, floor)
        # It may have died between the change of a topic and that of the plan.
        for name, planned in list(self._plan.items()):
            try:
                fitting = self._fitting(name, self._reopened(name, planned))
            except OrbitError as error:  # the disk is full; those that have files go on
                events.warn(str(error))
                continue
            if fitting != planned:
                self._try_store({**self._plan, name: fitting})

    def _reopened(self, name: str, group: PlannedGroup) -> PlannedGroup:
        """The group, of which some queues may have got another file without a word to the dispatcher: a predecessor died while
        it reset them."""
        queues = []
        for known in group.queues:
            offset = self._offsets.get(name, known[:2])
            opening = work_files.renewed(work_files.path_of(self._layout, name, known[:2]))
            queues.append(known if not opening or offset is None else (*known[:3], opening, offset))
        return replace(group, queues=queues)

    # ---- what workers ask for

    def join(
        self, session: Session, name: Any, topics: list[str], *, start: str, in_hand: int, visibility_ms: int,
        max_tries: int | None = None, key_ordered: bool = False, queue_ordered: bool = False, asked: WorkFilter = EVERYTHING,
    ) -> None:
        """Makes the session a worker of the group. Asking again for the same changes nothing. asked: what it wants.

        Raises: GroupNameError, UnknownTopic, SettingError, Full; GroupInUse: the group has consumers, or workers with another
            order or another filter; Later: such workers have closed, and are about to be gone; NoPermission: the group is
            another user's, or the store is read-only; StoreFull.
        """
        check_group_name(name)
        self._check(name, topics, start, in_hand, visibility_ms, max_tries)
        self._check_free(session, name, in_hand, visibility_ms)
        members = self._groups.find(name)
        if members is not None and members.members:
            raise self._in_use(name, "work in", "consumer", [member.pid for member in members.members.values()])
        if self._tree.settings.read_only:
            raise NoPermission(
                f"cannot work in the group {name!r}: the store was opened read-only",
                hint=hint("start the broker without {read_only of broker}"),
                group=name,
            )
        self._check_order(name, key_ordered, queue_ordered)
        self._groups.configs.admit(Caller.marked(session.user), name)
        wanted = sorted({self._topics.get(topic).name for topic in topics})
        before = self._plan.get(name)
        key = (session.slot, session.epoch)

        def other(still: Callable[[int, int], bool]) -> Callable[[PlannedWorker], bool]:
            return lambda each: (each.slot, each.epoch) != key and still(each.slot, each.epoch)

        try:
            check_same(name, before, wanted, asked, other(self._lives))
        except GroupInUse as error:
            check_same(name, before, wanted, asked, other(self._stays))
            raise Later(error) from None
        self._groups.begin(Caller.marked(session.user), name)
        group = PlannedGroup(_opening()) if before is None else replace(before)
        group.paused, group.key_ordered, group.queue_ordered = self._groups.paused(name), key_ordered, queue_ordered
        filtered = wanted
        wanted = self._with_retries(name, wanted)
        group.topics = [*group.topics, *(topic for topic in wanted if topic not in group.topics)]
        others = len(set(group.topics) - {RETRY + name})  # there is always room for the retries
        if others >= TOPICS_MAX:
            text = f"cannot work in the group {name!r}: its workers would take {others} topics, at most {TOPICS_MAX - 1}"
            raise SettingError(text, name="topics", value=others, limit=TOPICS_MAX - 1)
        self._add_queues(name, group, start)
        if max_tries is not None:
            self._groups.configs.set_max_tries(Caller.marked(session.user), name, max_tries)
        group.max_tries = self._groups.configs.max_tries(name)
        group.closed = self._closed(group.topics)
        bits = sum(1 << group.topics.index(topic) for topic in wanted)
        # What failed has passed the filter before.
        chosen = sum(1 << group.topics.index(topic) for topic in filtered if topic != RETRY + name)
        group.filters = with_filter(group, chosen, asked)
        workers = [worker for worker in group.workers if (worker.slot, worker.epoch) != key]
        mine = PlannedWorker(session.slot, session.epoch, bits, in_hand, visibility_ms, session.process.pid)
        group.workers = [*workers, mine]
        try:
            self._store({**self._plan, name: group})
        except OSError as error:
            raise disk_error(error, self._layout.work_plan, 4096, f"the workers of the group {name!r}") from error

    def _check(
        self, name: str, topics: list[str], start: str, in_hand: int, visibility_ms: int, max_tries: object
    ) -> None:
        def refuse(setting: str, value: object, why: str) -> SettingError:
            return SettingError(f"cannot work in the group {name!r} with {setting} {value!r}: {why}", name=setting, value=value)

        if not topics:
            raise refuse("topics", topics, "it needs at least one topic")
        if start not in (EARLIEST, LATEST, FROM_LAST):
            raise refuse("start", start, "it is neither earliest nor latest")
        if not 1 <= in_hand <= lib.WORK_WINDOW:
            raise refuse("in_hand", in_hand, f"it lies outside 1 to {lib.WORK_WINDOW:,}")
        if not VISIBILITY_MS_MIN <= visibility_ms <= lib.WORK_WAIT_MS_MAX:
            limits = f"{VISIBILITY_MS_MIN / 1000:g} to {lib.WORK_WAIT_MS_MAX / 1000:g} seconds"
            raise refuse("visibility", visibility_ms / 1000, f"it lies outside {limits}")

        number = isinstance(max_tries, int) and not isinstance(max_tries, bool) and 1 <= max_tries <= TRIES_MAX
        if max_tries is not None and not number:
            raise refuse("max_tries", max_tries, f"it lies outside 1 to {TRIES_MAX}")

    def _check_free(self, session: Session, name: str, in_hand: int, visibility_ms: int) -> None:
        """A session has one pair of rings, so it works in one group; and the dispatcher has taken what it said first.

        Raises: SettingError: it works already, in another group or with other settings."""
        key, asked = (session.slot, session.epoch), (name, in_hand, visibility_ms)
        for other, group in self._plan.items():
            for worker in group.workers:
                if (worker.slot, worker.epoch) == key and (other, worker.in_hand, worker.visibility_ms) != asked:
                    had = f"with in_hand {worker.in_hand} and visibility {worker.visibility_ms / 1000:g}"
                    why = f"session {session.slot} works in the group {other!r} already, {had}"
                    raise SettingError(
                        f"cannot work in the group {name!r}: {why}", hint="open another session", name="group", value=name
                    )

    def _check_order(self, name: str, key_ordered: object, queue_ordered: object) -> None:
        """Raises: SettingError; GroupInUse: messages of one key, or of one queue, would be in two hands; Later: all others
        have closed."""
        for setting, value in (("key_ordered", key_ordered), ("queue_ordered", queue_ordered)):
            if not isinstance(value, bool):
                text = f"cannot work in the group {name!r} with {setting} {value!r}: it is neither True nor False"
                raise SettingError(text, name=setting, value=value)
        if key_ordered and queue_ordered:
            text = f"cannot work in the group {name!r} with both key_ordered and queue_ordered: a group has only one order"
            raise SettingError(text, name="queue_ordered", value=queue_ordered)
        group = self._plan.get(name)
        if group is None or (group.key_ordered, group.queue_ordered) == (key_ordered, queue_ordered):
            return
        setting, mine, theirs = (
            ("key_ordered", key_ordered, group.key_ordered)
            if group.key_ordered != key_ordered
            else ("queue_ordered", queue_ordered, group.queue_ordered)
        )
        others = [each for each in group.workers if self._lives(each.slot, each.epoch)]
        if not others:
            return
        pids = sorted({worker.pid for worker in others})
        error = GroupInUse(
            f"cannot work in the group {name!r} with {setting} {mine}: its {len(others)} "
            f"worker{'s' if len(others) > 1 else ''}, of process {', '.join(map(str, pids[:5]))}, came with "
            f"{setting} {theirs}",
            hint=f"give all workers of a group the same {setting}, or close the others first",
            group=name,
            members=len(others),
            pids=pids,
        )
        raise error if any(self._stays(worker.slot, worker.epoch) for worker in others) else Later(error)

    def _with_retries(self, name: str, topics: list[str]) -> list[str]:
        """All workers of a group take its retries."""
        retry = self._topics.find(RETRY + name)
        return topics if retry is None or retry.name in topics else [*topics, retry.name]

    def prepare_retries(self, name: str) -> None:
        """A message of the group is to come again, or to be a dead letter: makes the topics for that, and its workers take the
        former. Raises: TopicNameError, Full, StoreFull; OSError."""
        self._topics.add_waiting(DELAY_TOPIC)
        self._topics.add_own(RETRY + name, self._groups.configs.retry_queues(name))
        self._topics.add_own(DEAD + name, 1)
        group = self._plan.get(name)
        if group is not None:
            self._store({**self._plan, name: self._taking_retries(name, group)})

    def _taking_retries(self, name: str, group: PlannedGroup) -> PlannedGroup:
        """The group with the queues of its retry topic, if there is one."""
        retry = self._topics.find(RETRY + name)
        if retry is None or any(queue[0] == retry.name for queue in group.queues):
            return group
        fresh = replace(group)
        if retry.name not in group.topics:
            bit = 1 << len(group.topics)
            fresh.topics = [*group.topics, retry.name]
            fresh.workers = [worker._replace(topics=worker.topics | bit) for worker in group.workers]
        return self._fitting(name, fresh)

    def _add_queues(self, name: str, group: PlannedGroup, start: str) -> None:
        """Gives the group the queues that its topics have and it does not; each with a file of its own."""
        known = {(topic, queue) for topic, queue, *_ in group.queues}
        queues = list(group.queues)
        for topic_name in group.topics:
            topic = self._topics.find(topic_name)
            if topic is None:
                continue  # it was deleted
            fresh = [(topic_name, queue) for queue in range(topic.queues) if (topic_name, queue) not in known]
            seen = self._offsets.knows(name, topic_name)
            try:
                work_files.make(self._layout, name, fresh)
            except OSError as error:
                need = len(fresh) * lib.WORK_FILE_SIZE
                raise disk_error(error, self._layout.work, need, f"the state of the work of the group {name!r}") from error
            for key in fresh:
                offset = self._offsets.get(name, key)
                if offset is None:
                    bounds = self._topics.bounds(topic.first_slot + key[1])
                    latest = start == LATEST or (start == FROM_LAST and bounds.minimum)
                    offset = bounds.maximum if latest and not seen and topic_name != RETRY + name else bounds.minimum
                    self._offsets.set(name, key, offset)
                queues.append((*key, topic.first_slot + key[1], group.opening, offset))
        group.queues = queues

    def planned(self, name: str) -> PlannedGroup | None:
        """A group that has workers."""
        return self._plan.get(name)

    # ---- changes around it

    def tidy(self) -> None:
        """Forgets workers whose sessions are gone, and groups without workers. Called from time to time."""
        fresh: dict[str, PlannedGroup] = {}
        now = time.monotonic()
        looks = now >= self._parting_at
        if looks:
            self._parting_at = now + PARTING_LOOK_S
        for name, group in self._plan.items():
            workers = [worker for worker in group.workers if self._lives(worker.slot, worker.epoch)]
            if workers:
                fresh[name] = group if len(workers) == len(group.workers) else replace(group, workers=workers)
                with suppress(OrbitError):  # at the next look
                    # A predecessor may have made the topic, and no more.
                    fresh[name] = self._taking_retries(name, fresh[name])
            elif not (group.workers or looks) or not self._settled(name, group):
                # The dispatcher takes what they had in hand, and puts what failed into the log.
                fresh[name] = replace(group, workers=[])
        if self._behind or fresh != self._plan:
            self._try_store(fresh)

    def _settled(self, name: str, group: PlannedGroup) -> bool:
        """Takes how far a group is whose workers have all ended into the table of offsets. False: the dispatcher has to do
        something for it still, and the group may get further."""
        settled = True
        for topic, queue, *_ in group.queues:
            found = work_files.left(work_files.path_of(self._layout, name, (topic, queue)))
            if found is not None:
                self._offsets.set(name, (topic, queue), found.floor)
                settled = settled and not found.unsettled
        return settled

    def topic_changed(self, topic: str) -> None:
        """The topic has more queues, may or may not be read any more, or was deleted."""
        for name, group in list(self._plan.items()):
            if topic in group.topics:
                self._try_store({**self._plan, name: self._fitting(name, group)})

    def _fitting(self, name: str, group: PlannedGroup) -> PlannedGroup:
        """The group, with its topics as they are now. Raises: StoreFull: there is no room for the state of new queues."""
        queues = [queue for queue in group.queues if self._topics.find(queue[0]) is not None]
        fresh = replace(group, queues=queues, closed=self._closed(group.topics))
        self._add_queues(name, fresh, EARLIEST)
        return fresh

    def _closed(self, topics: list[str]) -> int:
        found = [self._topics.find(topic) for topic in topics]
        return sum(1 << at for at, topic in enumerate(found) if topic is None or not topic.perm & PERM_READ)

    def pause(self, name: str) -> None:
        """The group was paused or resumed, or its messages get another number of tries."""
        group, tries = self._plan.get(name), self._groups.configs.max_tries(name)
        if group is not None and (group.paused, group.max_tries) != (self._groups.paused(name), tries):
            self._try_store({**self._plan, name: replace(group, paused=self._groups.paused(name), max_tries=tries)})

    def reset(self, name: str, offsets: Mapping[QueueKey, int]) -> None:
        """Workers of the group go on at these offsets, and what they have in hand from before does not count. Each queue gets
        another file, so that nobody reads where it was before; the dispatcher leaves the old one when it has the plan.

        Raises: OSError: some of the queues may be where they were."""
        group = self._plan[name]
        queues = []
        for known in group.queues:
            to = offsets.get(known[:2])
            opening = known[3] if to is None else _opening()
            if to is not None:
                work_files.renew(self._layout, name, known[:2], opening)
            queues.append(known if to is None else (*known[:3], opening, to))
        self._store({**self._plan, name: replace(group, queues=queues)})

    def collect_of(self, name: str) -> bool:
        """Takes the group's floors into the table of offsets. False: it has no workers, and is forgotten here."""
        group = self._plan.get(name)
        if group is None:
            return False
        if group.workers:
            self._collect(name, group)
        else:
            self._settled(name, group)
            self._try_store({other: entry for other, entry in self._plan.items() if other != name})
        return bool(group.workers)

    def refuse_while_working(self, name: str, doing: str) -> None:
        """Raises: GroupInUse: the group has workers; Later: all of them have closed, and the dispatcher takes their last
        answers."""
        if (group := self._plan.get(name)) is not None and (workers := group.workers):
            error = self._in_use(name, doing, "worker", [worker.pid for worker in workers])
            raise error if any(self._stays(worker.slot, worker.epoch) for worker in workers) else Later(error)
        self.collect_of(name)

    def hand_over(self, name: str) -> None:
        """The group goes on where its offsets say: it gets consumers, or was moved or deleted. Raises: OSError."""
        if name not in self._plan:
            work_files.remove(self._layout, name)

    # ---- offsets

    def collect(self) -> None:
        """Takes the floors into the table of offsets."""
        for name, group in self._plan.items():
            self._collect(name, group)

    def _collect(self, name: str, group: PlannedGroup) -> None:
        for topic, queue, *_ in group.queues:
            found = work_files.read(work_files.path_of(self._layout, name, (topic, queue)))
            if found is not None:
                self._offsets.set(name, (topic, queue), found.floor)

    def stored(self, offsets: config.Offsets) -> None:
        """consumerOffset.json has this content. Raises: OSError."""
        work_files.tell_all(self._layout, offsets, self._plan.keys())

    # ---- behind them

    def _in_use(self, name: str, doing: str, kind: str, pids: list[int]) -> GroupInUse:
        count, several = len(pids), "s" if len(pids) > 1 else ""
        shown = ", ".join(map(str, sorted(set(pids))[:5]))
        return GroupInUse(
            f"cannot {doing} the group {name!r}: it has {count} {kind}{several}, of process {shown}",
            hint=f"close its {kind}s first, or use another group: a group has either consumers or workers",
            group=name,
            members=count,
            pids=sorted(set(pids)),
        )

    def _store(self, plan: dict[str, PlannedGroup]) -> None:
        """Raises: OSError: the plan is as before."""
        work_plan.store(self._layout, self._tree.generation, plan)
        self._plan = plan
        self._behind = False
        lib.control_raise_work(self._tree.control, self._tree.wake)
        crash_point("work_registry_raised")

    def _try_store(self, plan: dict[str, PlannedGroup]) -> None:
        try:
            self._store(plan)
        except OSError as error:
            # The dispatcher sees by itself that sessions have ended.
            if not self._behind:
                events.warn(f"cannot write down which workers there are: {error}")
            self._plan, self._behind = plan, True


def _opening() -> int:
    """Never 0, which is no opening."""
    return random_number(63)
