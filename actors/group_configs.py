"""config/subscriptionGroup.json: the groups that RocketMQ lets consume from this store, and the user who began each. A RocketMQ
broker that does not create groups by itself, as is usual in production, would otherwise refuse a group that began here."""

from __future__ import annotations

from collections import Counter

from orbitmq.actors.caller import Caller, Share, require_maker
from orbitmq.store.config import DataVersion, GroupConfig, load_groups, store_groups
from orbitmq.store.layout import StoreLayout


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
        configs, version = {**self._configs, name: GroupConfig(name, maker=caller.mark)}, self._version.next()
        store_groups(self._layout, configs, version)
        self._configs, self._version = configs, version
