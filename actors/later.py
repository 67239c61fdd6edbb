"""An answer that the coordinator cannot give yet."""

from __future__ import annotations

from orbitmq.errors import OrbitError


class Later(Exception):  # noqa: N818 - it is no error
    """Another process is about to do what the answer depends on. error: the answer, if it does not do so in time."""

    def __init__(self, error: OrbitError) -> None:
        super().__init__(str(error))
        self.error = error
