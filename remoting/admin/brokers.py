"""What administrators ask about the broker as a whole, under RocketMQ's names."""

from __future__ import annotations

import os
import time
from collections import deque
from datetime import datetime, timedelta
from pathlib import Path

from orbitmq.remoting.admin.log_view import LogView
from orbitmq.remoting.admin.properties_text import properties_text
from orbitmq.remoting.admin.queue_map import compact
from orbitmq.remoting.host import Host
from orbitmq.remoting.request import Answer, Answers, Request
from orbitmq.remoting.routes import CLUSTER
from orbitmq.shm import runtime
from orbitmq.store.settings.listen_address import listen_address

CONFIG, RUNTIME = 26, 28
VERSION = 407  # of the protocol: RocketMQ 4.9.7
_WINDOWS_S = 10, 60, 600  # over which RocketMQ shows rates
_SAMPLES = 1000
_POOLS = "sendThreadPool", "pullThreadPool", "queryThreadPool", "EndTransactionThreadPool"
# Of every broker of OrbitMQ; mqadmin's exportConfigs wants them.
_FIXED = {
    "autoCreateSubscriptionGroup": "true",
    "brokerRole": "ASYNC_MASTER",
    "filterServerNums": 0,
    "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "msgTraceTopicName": "RMQ_SYS_TRACE_TOPIC",
    "slaveReadEnable": "false",
    "traceOn": "true",
    "traceTopicEnable": "false",
}
_UNITS = "B", "KiB", "MiB", "GiB", "TiB", "PiB"


class Brokers:
    def __init__(self, host: Host, log: LogView) -> None:
        self._host = host
        self._log = log
        self._began_s = time.time()
        self._samples = deque([(time.monotonic(), log.count())], _SAMPLES)  # when, and how many messages there were
        self._mornings: dict[int, int] = {}  # midnight (ms): messages until then
        self.answers: Answers = {CONFIG: self._config, RUNTIME: self._runtime}

    def _runtime(self, request: Request) -> Answer:
        """Reads are not counted, because local ones touch nothing that they share; queues of thread pools are always empty,
        because there are no such pools."""
        count = self._log.count()
        table = self._of_messages(count) | self._of_log() | {name: "0" for pool in _POOLS for name in _pool(pool)}
        seconds = int(time.time() - self._began_s)
        days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
        table |= {
            "bootTimestamp": str(int(self._began_s * 1000)),
            "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": f"OrbitMQ_{runtime.version()}",
            "pageCacheLockTimeMills": "0",
        }
        return Answer(body=compact({"table": table}).encode())

    def _of_messages(self, count: int) -> dict[str, str]:
        now_s = time.monotonic()
        rates = " ".join(str(self._rate(count, now_s, window_s)) for window_s in _WINDOWS_S)
        if now_s - self._samples[-1][0] >= 1:
            self._samples.append((now_s, count))
        today = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
        return {
            "putTps": rates,
            "getTransferedTps": "0.0 0.0 0.0",
            "msgPutTotalYesterdayMorning": str(self._until(today - timedelta(days=1))),
            "msgPutTotalTodayMorning": str(self._until(today)),
            "msgPutTotalTodayNow": str(count),
            **{f"msgGetTotal{when}": "0" for when in ("YesterdayMorning", "TodayMorning", "TodayNow")},
        }

    def _rate(self, count: int, now_s: float, window_s: float) -> float:
        """Messages a second since the newest sample that is so old, or since the first."""
        old = [sample for sample in self._samples if now_s - sample[0] >= window_s]
        then_s, then = old[-1] if old else self._samples[0]
        return max(0, count - then) / max(1.0, now_s - then_s)

    def _until(self, midnight: datetime) -> int:
        ms = int(midnight.timestamp() * 1000)
        if ms not in self._mornings:
            if len(self._mornings) > 1:
                self._mornings.clear()
            self._mornings[ms] = self._log.count_until(ms)
        return self._mornings[ms]

    def _of_log(self) -> dict[str, str]:
        seen, layout = self._log.positions(), self._host.settings.layout
        total, free = _space(layout.commitlog)
        ratio = str((total - free) / total if total else -1.0)
        return {
            "commitLogDirCapacity": f"Total : {_size(total)}, Free : {_size(free)}.",
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{layout.commitlog}": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogMinOffset": str(seen.min_offset),
            "commitLogMaxOffset": str(seen.wrote),
            "commitLogFlushedOffset": str(seen.flushed),  # RocketMQ tells only the difference, rounded
            "dispatchBehindBytes": str(max(0, seen.wrote - seen.reput)),
            "remainHowManyDataToFlush": _size(max(0, seen.wrote - seen.flushed)),
            "earliestMessageTimeStamp": str(self._log.oldest_ms()),
        }

    def _config(self, request: Request) -> Answer:
        """The settings that RocketMQ has too."""
        settings = self._host.settings
        files, listen = settings.files, listen_address(request.broker)
        values: dict[str, object] = {
            "brokerName": settings.name,
            "brokerClusterName": CLUSTER,
            "brokerId": 0,
            "brokerPermission": 6,
            "listenPort": listen.port if listen is not None else 0,
            "storePathRootDir": settings.layout.root,
            "storePathCommitLog": settings.layout.commitlog,
            "mappedFileSizeCommitLog": files.log_file_size,
            "mappedFileSizeConsumeQueue": 20 * files.queue_file_units,
            "maxHashSlotNum": files.index_slots,
            "maxIndexNum": files.index_entries,
            "maxMessageSize": files.message_max,
            "flushDiskType": "SYNC_FLUSH" if files.flush == "batch" else "ASYNC_FLUSH",
            "fileReservedTime": settings.retention_hours,
            "autoCreateTopicEnable": str(self._host.creates).lower(),
            "transactionTimeOut": int(1000 * settings.transaction_timeout_s),
            "transactionCheckInterval": int(1000 * settings.transaction_check_interval_s),
            "transactionCheckMax": settings.transaction_check_max,
            "useTLS": str(settings.speaks_tls).lower(),
            **_FIXED,
        }
        version = {"counter": 0, "timestamp": int(1000 * self._began_s)}  # settings count from a start on
        return Answer(fields={"version": compact(version)}, body=properties_text(values))


def _pool(name: str) -> tuple[str, ...]:
    if name.startswith("End"):
        return "EndTransactionQueueSize", f"{name}QueueCapacity"
    return f"{name}QueueSize", f"{name}QueueCapacity", f"{name}QueueHeadWaitTimeMills"


def _space(folder: Path) -> tuple[int, int]:
    """Of its file system, in bytes; 0: it cannot be asked."""
    try:
        seen = os.statvfs(folder)
    except OSError:
        return 0, 0
    return seen.f_frsize * seen.f_blocks, seen.f_frsize * seen.f_bavail


def _size(count: float) -> str:
    unit = 0
    while count >= 1024 and unit + 1 < len(_UNITS):
        count, unit = count / 1024, unit + 1
    return f"{count:.1f} {_UNITS[unit]}" if unit else f"{count} B"
