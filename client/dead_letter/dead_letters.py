"""The dead letters of a group: lists them, sends them again, and removes them.

RocketMQ keeps them in the topic %DLQ%GROUP, which only grows; so a letter that was sent again stays there until it is purged,
and is recognized by what was sent (redrive.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from orbitmq.client.admin.topic_administration import PURGE_WAYS
from orbitmq.client.argument import check_flag, most_or_all, whole
from orbitmq.client.dead_letter.dead_letter import PREFIX, QUEUE, DeadLetter, letter_of
from orbitmq.client.dead_letter.redrive import Redrive, sent_again
from orbitmq.client.group_name import check_group_type
from orbitmq.client.lookup import Attached, messages_between
from orbitmq.client.parameters import spelled
from orbitmq.client.unclosed import Shown
from orbitmq.errors import OffsetOutOfRange, SettingError, UnknownGroup
from orbitmq.native._types import Message
from orbitmq.shm.means import means
from orbitmq.shm.topic_name import check_topic_name
from orbitmq.shm.topic_table import QueueBounds, Topic, TopicTable

if TYPE_CHECKING:
    from datetime import datetime

    from orbitmq.client.client import Client
    from orbitmq.client.several import Several

Letters = list[DeadLetter]


@spelled
class DeadLetters(Shown):
    """Made by `Client.dead_letters()`. Iterating it gives those that were not sent again, oldest first.

    All that it does raises UnknownGroup if the group neither exists nor has a topic of dead letters.
    """

    def __init__(self, client: Client, group: str) -> None:
        """Raises: GroupNameError, TopicNameError: no group has this name."""
        check_group_type(group)
        check_topic_name(PREFIX + group)
        self._client = client
        self.group = group
        self.topic = PREFIX + group

    def __iter__(self) -> Iterator[DeadLetter]:
        return self._letters(redriven=False)

    def list(self, *, redriven: bool | None = False, most: int | None = None) -> Letters:
        """Oldest first.

        Args:
            redriven: False: only those that were not sent again; True: only those that were; None: both.
            most: how many at most; None: all.

        Raises: SettingError: `most` is below 1. CorruptRecord: one of them is damaged. BrokerNotRunning. TimedOut: reput is
            behind the log's end, and does not say that it cannot go on, as on a full disk: then the list has what is there.
        """
        most = most_or_all(most, f"list the dead letters of the group {self.group!r}")
        if redriven is not None:
            check_flag(redriven, f"list the dead letters of the group {self.group!r}", "redriven")
        with means(f"list the dead letters of the group {self.group!r}"):
            return list(islice(self._letters(redriven=redriven), most))

    def letter(self, offset: int) -> DeadLetter:
        """The one at this offset. Raises: OffsetOutOfRange: there is none. CorruptRecord: it is damaged. BrokerNotRunning."""
        with means(f"look at dead letter {offset} of the group {self.group!r}"):
            offset = whole(offset, f"find a dead letter of the group {self.group!r}", "offset")
            bounds = self.bounds
            if bounds.minimum <= offset < bounds.maximum:
                for message in self._messages(offset, offset + 1):
                    return letter_of(self.group, message, sent_again(self._attached, message))
            raise OffsetOutOfRange(
                f"could not find dead letter {offset} of the group {self.group!r}: it has {_range(bounds)}",
                topic=self.topic,
                queue=QUEUE,
                offset=offset,
                minimum=bounds.minimum,
                maximum=bounds.maximum,
            )

    @property
    def bounds(self) -> QueueBounds:
        """Offsets of the dead letters that are there, sent again or not: [minimum, maximum). Raises: TimedOut: reput is behind
        the log's end."""
        return self._bounds()

    def _bounds(self, *, partly: bool = False) -> QueueBounds:
        """Everything here begins with them, so that what was just sent again is seen to be. partly: as
        Attachment.wait_caught_up."""
        self._client.connection.caught_up(f"look for dead letters of the group {self.group!r}", partly=partly)
        topic = self._found()
        return QueueBounds(0, 0) if topic is None else TopicTable(self._attached.topics).bounds(topic.first_slot + QUEUE)

    def redrive(self, offsets: Several[int] | None = None, *, most: int | None = None) -> Letters:
        """Sends dead letters again, to the topics to which they were sent first, oldest first: as new messages, with body,
        tags, keys, flag and the sender's properties as they were. The property REDRIVEN_FROM says which dead letter a message
        was. Returns those that were sent, with `redriven`.

        Each is sent once, however often this is called, and whichever process is killed meanwhile, this one too: a letter that
        was sent is found by the unique key of what was sent, which is the letter's id. One process at a time does this for a
        group.

        Args:
            offsets: only these; one that was sent again before is passed over. None: all that were not.
            most: how many at most; None: all.

        Raises: UnknownTopic, UsageError: the topic of one does not exist or is not known. NoPermission. OffsetOutOfRange.
            GroupInUse: another process is doing this. All those before anything is sent. MessageTooLarge, PropertiesTooLarge,
            PropertyError: a letter, such as one of another broker's, cannot be sent; all others were sent. StoreFull,
            BrokerStopped and what a send raises. After a send, `sent` says how many have been sent; repeating is safe.
        """
        with means(f"redrive the dead letters of the group {self.group!r}"):
            most = most_or_all(most, f"redrive the dead letters of the group {self.group!r}")
            wanted = None if offsets is None else _offsets(offsets)
            bounds = self.bounds
            if bounds.minimum == bounds.maximum:  # the topic has no folder to lock, if it never had a message
                for offset in wanted or ():
                    self.letter(offset)
                return []
            with Redrive(self._client, self.group) as redrive:
                if wanted is None:
                    chosen = self._letters(redriven=False)
                else:
                    found = map(self.letter, wanted)
                    chosen = (each for each in list(found) if each.redriven is None)
                return redrive.send(list(islice(chosen, most)))

    def purge(self, to: str | int | datetime = "latest", *, dry_run: bool = False) -> int:
        """Removes dead letters for good, sent again or not, from the oldest on. Returns how many.

        Args:
            to: the first that stays: "latest": none; an offset; a datetime or its text in ISO 8601: no letter that died at or
                after it goes.
            dry_run: remove nothing; only return how many it would be.

        Raises: SettingError; OffsetOutOfRange: there are fewer; NoPermission: another user made the topic; StoreFull. Nothing
            was removed then.
        """
        check_flag(dry_run, f"purge the dead letters of the group {self.group!r}", "dry_run")
        if self._found() is None:
            from orbitmq.client.admin.group_reset import target_of

            target_of(to, f"purge the dead letters of the group {self.group!r}", PURGE_WAYS)
            return 0
        return sum(each.messages for each in self._client.purge_topic(self.topic, to, dry_run=dry_run))

    def _letters(self, *, redriven: bool | None) -> Iterator[DeadLetter]:
        bounds = self._bounds(partly=True)
        for message in self._messages(bounds.minimum, bounds.maximum):
            letter = letter_of(self.group, message, sent_again(self._attached, message))
            if redriven is None or redriven == (letter.redriven is not None):
                yield letter

    def _messages(self, begin: int, end: int) -> Iterator[Message]:
        topic = self._found()
        if topic is None:
            return
        yield from messages_between(self._attached, topic.first_slot + QUEUE, begin, end)

    def _found(self) -> Topic | None:
        """None: the group exists, and none of its messages has died. Raises: UnknownGroup."""
        topic = TopicTable(self._attached.topics).find(self.topic)
        if topic is None:  # a topic may outlive its group; so only without one the group is asked for
            try:
                self._client.connection.ask("groups", group=self.group)
            except UnknownGroup as error:
                text = f"could not look for dead letters of the group {self.group!r}: there is no such group"
                raise error.reworded(text, error.remedy) from None
        return topic

    @property
    def _attached(self) -> Attached:
        return self._client.connection.attachment

    def _words(self) -> str:
        return f"of the group {self.group!r} at the broker {self._client.name!r}"


def groups_with_letters(attached: Attached) -> list[str]:
    """The groups that have a topic of dead letters, by name."""
    names = (topic.name for topic in TopicTable(attached.topics))
    return sorted(name[len(PREFIX) :] for name in names if name.startswith(PREFIX))


def _offsets(offsets: object) -> Sequence[int]:
    """Each once, in their order. Raises: SettingError: it is one offset, or something in it is none."""
    if isinstance(offsets, int | str | bytes) or not isinstance(offsets, Iterable):
        text = f"could not redrive {offsets!r:.100}: offsets of dead letters are a list"
        way = f"write [{offsets}]" if isinstance(offsets, int) else "write [17, 19]"
        raise SettingError(text, hint=way, setting="offsets", value=offsets)
    return sorted({whole(each, "redrive dead letters", "offset") for each in offsets})


def _range(bounds: QueueBounds) -> str:
    return f"offsets {bounds.minimum} to {bounds.maximum - 1}" if bounds.maximum > bounds.minimum else "none"
