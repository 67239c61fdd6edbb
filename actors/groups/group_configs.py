"""config/subscriptionGroup.json: the groups that RocketMQ lets consume from this store, and the user who began each. A RocketMQ
broker that does not create groups by itself, as is usual in production, would otherwise refuse a group that began here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from orbitmq.actors.sessions.caller import Caller, Share, require_maker
from orbitmq.errors import SettingError
from orbitmq.shm.crash_point import crash_point
from orbitmq.store.config import DataVersion, GroupConfig, load_groups, store_groups
from orbitmq.store.layout import StoreLayout

# What an operator may change of a group.
SHAPES: dict[str, type] = dict.fromkeys(("consume_enable", "consume_from_min", "consume_broadcast", "notify_changes"), bool)
SHAPES |= dict.fromkeys(("retry_queues", "retry_max", "broker_id", "which_broker_when_slow"), int)
TRIES_MAX = 500  # of a message in a group of workers; far below what its word has room for


class GroupConfigs:
    """share: what one user may begin; shared: whether everybody may join every group."""

    def __init__(self, layout: StoreLayout, share: Share, shared: bool) -> None:
        self._layout = layout
        self._share = share
        self._shared = shared
        # Kept whole, so that settings of a group survive that only a RocketMQ broker uses.
        self._configs: dict[str, GroupConfig] = {}
        self._version = DataVersion()

    def load(self) -> None:
        """Raises: StoreFailed."""
        self._configs, self._version = load_groups(self._layout)

    def admit(self, caller: Caller, name: str) -> None:
        """Lets the user who began a group join it, and the broker's own user. A member takes queues from the other members, and
        commits for all of them, so others must not join.

        Raises: NoPermission: it is another user's group. Full: it would be a new group, and the user has its share.
        """
        known = self._configs.get(name)
        if known is None:
            self._share.check(caller, Counter(config.maker for config in self._configs.values()))
        elif not self._shared:
            require_maker(caller, known.maker, f"join the group {name!r}", "or to set shared_groups")

    def add(self, caller: Caller, name: str) -> None:
        """Makes sure that the file names the group. Raises: OSError: it does not."""
        if name in self._configs:
            return
        self._replace({**self._configs, name: GroupConfig(name, maker=caller.mark)})

    def knows(self, name: str) -> bool:
        return name in self._configs

    def maker(self, name: str) -> int | None:
        """Mark of the user who began the group (sessions/caller.py)."""
        known = self._configs.get(name)
        return None if known is None else known.maker

    def paused(self, name: str) -> bool:
        """True if the group's members are to get nothing, which in RocketMQ too is a setting of the group."""
        known = self._configs.get(name)
        return known is not None and not known.consume_enable

    def retry_queues(self, name: str) -> int:
        """Queues of the group's retry topic."""
        known = self._configs.get(name) or GroupConfig(name)
        return max(1, known.retry_queues)

    def max_tries(self, name: str) -> int:
        """How often the group's workers get a message before it goes to the dead letters."""
        known = self._configs.get(name) or GroupConfig(name)
        return min(max(1, known.retry_max), TRIES_MAX)

    def set_max_tries(self, caller: Caller, name: str, tries: int) -> None:
        """Raises: OSError: the file does not say so, and nothing has changed."""
        known = self._configs.get(name) or GroupConfig(name, maker=caller.mark)
        if known.retry_max != tries:
            self._replace({**self._configs, name: replace(known, retry_max=tries)})

    def all_paused(self) -> set[str]:
        return {name for name in self._configs if self.paused(name)}

    def pause(self, caller: Caller, name: str, paused: bool) -> None:
        """Raises: OSError: the file does not say so, and nothing has changed."""
        known = self._configs.get(name) or GroupConfig(name, maker=caller.mark)
        if known.consume_enable == paused:
            self._replace({**self._configs, name: replace(known, consume_enable=not paused)})

    def shape(self, caller: Caller, name: str, settings: Mapping[str, bool | int]) -> None:
        """Gives the group these settings, by GroupConfig's names; a group that there is not begins. Raises: NoPermission: it is
        another user's; Full: as admit; SettingError; OSError: the file does not say so, and nothing has changed."""
        for setting, value in settings.items():
            if type(value) is not SHAPES.get(setting) or not 0 <= value < 1 << 31:
                why = "groups have no such setting, or it cannot have this value"
                text = f"cannot give the group {name!r} the {setting} {value!r:.64}: {why}"
                raise SettingError(text, name=setting, value=value)
        if name not in self._configs:
            self.admit(caller, name)
        require_maker(caller, self.maker(name) if self.knows(name) else caller.mark, f"change the group {name!r}")
        known = self._configs.get(name) or GroupConfig(name, maker=caller.mark)
        fresh = replace(known, **settings)  # type: ignore[arg-type]
        if self._configs.get(name) != fresh:
            self._replace({**self._configs, name: fresh})

    def remove(self, name: str) -> None:
        """Raises: OSError: the file still names the group."""
        if name in self._configs:
            self._replace({other: config for other, config in self._configs.items() if other != name})

    def _replace(self, configs: dict[str, GroupConfig]) -> None:
        version = self._version.next()
        store_groups(self._layout, configs, version)
        self._configs, self._version = configs, version
        crash_point("group_configs_stored")
