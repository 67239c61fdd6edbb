"""What actors report to the supervisor: that they run, or why they cannot. All share one pipe; a message is one line of JSON.
Lines are shorter than PIPE_BUF, so the kernel keeps them whole."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from orbitmq.errors import OrbitError
from orbitmq.shm.frames import error_map, error_raised

LINE_MAX = 3000


class NewsItem(NamedTuple):
    """pid runs (error None), or has failed with the error."""

    pid: int
    error: OrbitError | None


class News:
    def __init__(self) -> None:
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._rest = b""

    def tell_running(self) -> None:
        self._tell({"pid": os.getpid()})

    def tell_failed(self, error: OrbitError) -> None:
        content = error_map(error)
        line = {"pid": os.getpid(), **content}
        if len(json.dumps(line)) > LINE_MAX:
            line = {"pid": os.getpid(), "error": content["error"], "message": content["message"][: LINE_MAX // 4]}
        while len(json.dumps(line)) > LINE_MAX:  # a character can be 12 in JSON
            line["message"] = line["message"][: len(line["message"]) // 2]
        self._tell(line)

    def read(self) -> list[NewsItem]:
        """All messages that have come."""
        try:
            self._rest += os.read(self.reader, 1 << 16)
        except BlockingIOError:
            return []
        *lines, self._rest = self._rest.split(b"\n")
        found = []
        for line in lines:
            content = json.loads(line)
            found.append(NewsItem(content["pid"], error_raised(content) if "error" in content else None))
        return found

    def _tell(self, line: dict[str, object]) -> None:
        os.write(self.writer, json.dumps(line).encode() + b"\n")
