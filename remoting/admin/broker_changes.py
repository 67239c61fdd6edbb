"""What an administrator changes of the broker as a whole, under RocketMQ's names."""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.remoting.admin.properties_text import read_properties
from orbitmq.remoting.host import Host
from orbitmq.remoting.request import SYSTEM_ERROR, Answer, Answers, Request

CHANGE, CLEAN_QUEUES, CLEAN_TOPICS = 25, 306, 316


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text == "true"


def _seconds(text: str) -> float:
    return int(text) / 1000


def _flush(text: str) -> str:
    if text not in _FLUSH:
        raise ValueError(f"{text!r} is neither {' nor '.join(_FLUSH)}")
    return _FLUSH[text]


_FLUSH = {"SYNC_FLUSH": "batch", "ASYNC_FLUSH": "timed"}
# RocketMQ's names of settings that OrbitMQ has too: ours, and how a value is read.
_SETTINGS: dict[str, tuple[str, Callable[[str], object]]] = {
    "flushDiskType": ("flush", _flush),
    "fileReservedTime": ("retention_hours", int),
    "autoCreateTopicEnable": ("auto_create_topics", _switch),
    "transactionTimeOut": ("transaction_timeout_s", _seconds),
    "transactionCheckInterval": ("transaction_check_interval_s", _seconds),
    "transactionCheckMax": ("transaction_check_max", int),
}


class BrokerChanges:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: Answers = {CHANGE: self._change, CLEAN_QUEUES: self._clean, CLEAN_TOPICS: self._clean}

    def _change(self, request: Request) -> Answer:
        """Puts the settings where `orbitmq config` puts them: they count from the broker's next start. All of them, or none."""
        told = read_properties(request.body)
        unknown = [name for name in told if name not in _SETTINGS]
        if unknown:
            text = f"the setting {unknown[0]} cannot be changed here: those that can are {', '.join(_SETTINGS)}"
            return Answer(SYSTEM_ERROR, text)
        values = {}
        for name, value in told.items():
            ours, read = _SETTINGS[name]
            values[ours] = read(value)
        self._host.ask("configure", values=values)
        return Answer()

    def _clean(self, request: Request) -> Answer:
        """There is nothing to clean: retention takes what lies before the log's beginning out of queues in the same run, and a
        topic's queues go when it is deleted."""
        return Answer()
