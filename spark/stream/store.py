"""The store as a stream sees it, look after look: through restarts of its broker, and while its files change."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from orbitmq.errors import BrokerError, OrbitError, StoreSettingsError, TimedOut
from orbitmq.spark.source import snapshot
from orbitmq.spark.source.options import SourceOptions
from orbitmq.store import positions
from orbitmq.store.layout import StoreLayout
from orbitmq.tables import extents
from orbitmq.tables.extents import AWAY_S, Snapshot
from orbitmq.tables.selection import APPENDED

# Errors that occur when a broker dies or starts. While it recovers a store, the files may be half made, or gone since they were
# listed.
_PASSING = (BrokerError, TimedOut, OSError, StoreSettingsError)
_log = logging.getLogger("orbitmq")


class StreamStore:
    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._away_since: float | None = None
        self.last: Snapshot | None = None

    def look(self) -> Snapshot | None:
        """What the store holds now; None while its broker is away, for up to AWAY_S. The first look does not wait for the
        broker: a user who names a broker that does not run has to learn that at once. It does wait until everything
        acknowledged by then is flushed, so that a query of a single batch leaves none of it out.

        Raises: BrokerNotRunning, BrokerStopped, TimedOut; SettingError, StoreVersion, StoreSettingsError.
        """
        try:
            found = snapshot.of_options(self._options, wait=self.last is None)
        except _PASSING as error:
            now = self._clock()
            if self.last is None or (self._away_since is not None and now - self._away_since >= AWAY_S):
                raise
            if self._away_since is None:
                self._away_since = now
                told = error.message if isinstance(error, OrbitError) else error
                _log.warning("a stream gets nothing new for the moment, and tries again for %.0f s: %s", AWAY_S, told)
            return None
        self._away_since = None
        self.last = found
        return found

    def known(self) -> Snapshot:
        """What the store holds now or, while its broker is away, held at the last look. Raises: as look."""
        found = self.look() or self.last
        assert found is not None, "the first look raises"
        return found

    def appended(self) -> Snapshot | None:
        """Everything that the store has, flushed or not. None while that is not certain: the files of a crashed broker may say
        less until it has recovered them."""
        options = self._options
        try:
            if options.servers is not None:
                return snapshot.of_options(options)
            if options.path is not None:
                found = extents.of_store(options.path, read=APPENDED)
            else:
                found = extents.of_broker(options.broker or "", read=APPENDED)
        except _PASSING:
            return None
        if found.broker is None:
            recorded = positions.load(StoreLayout.at(found.root))
            if recorded is None or not recorded.clean:
                return None
        return found
