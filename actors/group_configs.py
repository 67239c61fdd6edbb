"""config/subscriptionGroup.json: the groups that RocketMQ lets consume of this store. A broker of its kind that makes no
groups by itself, as is usual in production, would turn away a group that began to consume here."""

from __future__ import annotations

from orbitmq.store.config import DataVersion, GroupConfig, load_groups, store_groups
from orbitmq.store.layout import StoreLayout


class GroupConfigs:
    def __init__(self, layout: StoreLayout) -> None:
        self._layout = layout
        # Kept whole: a RocketMQ broker's settings of a group that mean nothing here survive.
        self._configs: dict[str, GroupConfig] = {}
        self._version = DataVersion()

    def load(self) -> None:
        """Raises: StoreFailed."""
        self._configs, self._version = load_groups(self._layout)

    def add(self, name: str) -> None:
        """Makes sure that the file names the group. Raises: OSError: it does not."""
        if name in self._configs:
            return
        configs, version = {**self._configs, name: GroupConfig(name)}, self._version.next()
        store_groups(self._layout, configs, version)
        self._configs, self._version = configs, version
