"""The judge as a child process: a real RocketMQ broker with its client (judge/Judge.java), which gets one JSON line a
question."""

from __future__ import annotations

import random
import re
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.interop.jvm import PATIENT, QUICK, WITHOUT_KEYS, JudgeError, Jvm
from tests.interop.toolchain import SOURCES, Toolchain
from tests.waiting import until

__all__ = ["TRIES", "UNANSWERED", "Files", "Judge", "JudgeError"]

USUAL_PORT = 10911  # RocketMQ's port, and the one that OrbitMQ's message ids name
# mqadmin gives each of its questions 3 or 5 s. What it prints has one of these if nobody has answered by then.
UNANSWERED = re.compile(r"Remoting(Timeout|Connect|SendRequest|TooMuchRequest)Exception")
TRIES = 5
# What RocketMQ 4.9's start scripts grant it on Java 17: it unmaps files through the JDK's own classes.
_OPENED = ("java.nio", "sun.nio.ch", "jdk.internal.ref", "java.lang")


@dataclass(frozen=True, slots=True)
class Files:
    """The sizes of a store, by OrbitMQ's names; the defaults are RocketMQ's, except for the log's."""

    log_file_size: int = 256 << 10
    queue_file_units: int = 300_000
    index_slots: int = 5_000_000
    index_entries: int = 20_000_000


_RESERVATIONS: list[ExitStack] = []


class Judge(Jvm):
    """One JVM with at most one broker in it."""

    def __init__(self, tools: Toolchain, folder: Path) -> None:
        self._home = folder
        conf = folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "logback_tools.xml").write_bytes((SOURCES / "logback.xml").read_bytes())  # mqadmin looks for it
        log = folder / "rocketmq.log"
        self._ports = free_ports()
        properties = [f"-Djudge.log={log}", f"-Duser.home={folder}", "-Drocketmq.client.logUseSlf4j=true"]
        properties += [f"-Drocketmq.home.dir={folder}"]
        # However full this machine's disk is, the broker must write, and delete nothing by itself.
        properties += ["-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99", "-Dfastjson.parser.safeMode=true"]
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        command = [tools.java, *QUICK, PATIENT, WITHOUT_KEYS, *opened, *properties, "-cp", tools.class_path, "Judge"]
        super().__init__(command, folder, log)

    @property
    def usual(self) -> bool:
        """True if the broker answers at the address that OrbitMQ writes into message ids."""
        return self._ports["port"] == USUAL_PORT

    def here(self, message_id: str) -> str:
        """The id with this broker's address in it, if the usual port was taken on this machine."""
        return f"7F000001{self._ports['port']:08X}{message_id[16:]}"

    def start(
        self,
        store: Path,
        files: Files,
        *,
        index_safe: bool = False,
        check_ms: int = 3_600_000,
        rules: str | None = None,
        operator: tuple[str, str] | None = None,
    ) -> None:
        """A broker on the store, and a client of it. index_safe: its setting messageIndexSafe. check_ms: the age at which it
        asks producers about open transactions, transactionTimeOut. rules: what its plain_acl.yml says; operator: an
        administrator's access key and secret key, as which the judge makes topics."""
        if rules is not None:
            (self._home / "conf" / "plain_acl.yml").write_text(rules)
        key = {} if operator is None else dict(zip(("key", "secret"), operator, strict=True))
        sizes = {
            "logFileSize": files.log_file_size,
            "queueFileSize": 20 * files.queue_file_units,
            "indexSlots": files.index_slots,
            "indexEntries": files.index_entries,
            "messageMax": min(4 << 20, files.log_file_size // 2),
        }
        # RocketMQ's broker says that it has stopped a moment before it gives its ports back.
        until(lambda: _all_free(self._ports["port"]), "the ports of the last broker to be free")
        said = {**sizes, **key, **self._ports}
        self.ask("start", store=str(store), messageIndexSafe=index_safe, transactionTimeOut=check_ms, **said)
        self.running = True

    def stop(self) -> None:
        """Stops the broker cleanly; the JVM stays for the next one."""
        self.running = False
        self.ask("stop")

    @property
    def addresses(self) -> tuple[str, str]:
        """Of the name server, and of the broker."""
        return f"127.0.0.1:{self._ports['namesPort']}", f"127.0.0.1:{self._ports['port']}"

    def mqadmin(self, *words: str, key: tuple[str, str] | None = None, tries: int = TRIES) -> str:
        """What RocketMQ's admin tool prints. key: an access key and secret key, with which it signs. tries: how often the
        command is given at most, until it is answered."""
        tools = self._home / "conf" / "tools.yml"
        if key is not None:
            tools.write_text("accessKey: '{}'\nsecretKey: '{}'\n".format(*key))
        try:
            said = str(self.ask("mqadmin", words=words))
            for _ in range(tries - 1):
                if not UNANSWERED.search(said):
                    break
                said = str(self.ask("mqadmin", words=words, again=True))
            return said
        finally:
            tools.unlink(missing_ok=True)

    def topics(self) -> dict[str, int]:
        """Number of queues by topic, RocketMQ's own included."""
        return dict(self.ask("topics"))

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """The min and max offset of each queue."""
        return {int(queue): (least, most) for queue, (least, most) in self.ask("bounds", topic=topic).items()}

    def committed(self, topic: str, group: str) -> dict[int, int]:
        """For each queue, the offset at which the group continues."""
        return {int(queue): offset for queue, offset in self.ask("committed", topic=topic, group=group).items()}


def free_ports(*, usual: bool = True) -> dict[str, int]:
    """A name server's port, and a broker's with its neighbours: two below for the fast channel, one above for slaves.

    usual: the broker's is RocketMQ's own if nobody has that.
    """
    chosen = random.Random()
    candidates = [*([USUAL_PORT] if usual else []), *(chosen.randrange(20_000, 30_000) for _ in range(100))]
    port = next(port for port in candidates if _all_free(port) and _reserved(*_around(port)))
    names = next(names for names in candidates[1:] if abs(names - port) > 2 and _free(names) and _reserved(names))
    return {"port": port, "haPort": port + 1, "namesPort": names}


def _around(port: int) -> range:
    """What a broker at this port has."""
    return range(port - 2, port + 2)


def _reserved(*ports: int) -> bool:
    """Whether no other run of tests on this machine has chosen one of them: its broker may be between two lives. They are this
    process's as long as it lives."""
    with ExitStack() as stack:
        for port in ports:
            reservation = stack.enter_context(socket.socket(socket.AF_UNIX))
            try:
                reservation.bind(f"\0orbitmq-test-port-{port}")
            except OSError:
                return False
        _RESERVATIONS.append(stack.pop_all())
    return True


def _all_free(port: int) -> bool:
    """This port of a broker's, and its neighbours."""
    return all(map(_free, (port - 2, port, port + 1)))


def _free(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("0.0.0.0", port))
        except OSError:
            return False
        return True
