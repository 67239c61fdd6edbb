"""The settings of a broker tree, checked: what `orbitmq up` and orbitmq.Broker may be given, with every default."""

from __future__ import annotations

import grp
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from orbitmq.errors import SettingError
from orbitmq.errors.remedy import hint
from orbitmq.native._core import lib
from orbitmq.shm.event import LEVELS
from orbitmq.shm.runtime import broker_name
from orbitmq.store.layout import StoreLayout
from orbitmq.store.settings.listen_address import LOCAL, PORT_MAX, listen_address, listen_addresses, server_addresses
from orbitmq.store.settings.listen_place import check_places, listen_places
from orbitmq.store.settings.setting_text import refused
from orbitmq.store.settings.settings import FILE_SETTINGS, MESSAGE_REMOTE, StoreSettings

HANDLERS_MAX: int = lib.HANDLERS_MAX
OWN_LANES: int = lib.OWN_LANES  # behind those of the handlers: of actors that put records into the log themselves
SESSIONS_MAX: int = lib.SESSIONS_MAX
GATEWAYS_MAX: int = lib.GATEWAYS_MAX
MIB = 1 << 20
# The log's file that is written, the one that is ready after it, and one to read.
RETENTION_FILES_MIN = 3
PLACEMENTS = ("auto", "spread", "together")
# auto: together where there are no more processors than this; measured on two.
TOGETHER_PROCESSORS = 2
TLS_MODES = ("permissive", "enforcing", "disabled")
CLIENT_CERTIFICATES = ("none", "optional", "require")
LOG_FORMATS = ("text", "json")
# What a lane adds to a message's image: the lane record, the ring's header, rounding.
LANE_OVERHEAD = 128


def _default_handlers() -> int:
    return min(os.cpu_count() or 1, 4)


def _default_spin_us() -> int:
    # A spinning actor helps only if it takes no core from anybody: one for each actor, and some for the clients.
    return 20 if (os.cpu_count() or 1) >= 16 else 0


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """One broker tree. Sizes in bytes.

    layout, files: the store, and the sizes of its files (store/settings/settings.py).
    handlers: send handlers, each with a lane of lane_capacity bytes to the writer; see lanes.
    placement: whether a handler, the writer and reput have a process each ("spread") or one for all of them ("together").
    sessions_per_process: producers and consumers that one client process may have, so that none takes all SESSIONS_MAX;
        connections_per_process: clients that it may have connected.
    user_share_percent: how much of the sessions, topics, queues and consumer groups one user may take whom `group` lets in;
        connections_per_user: clients that such a user may have connected. shared_groups: whether each of them may join every
        consumer group; otherwise a group is open to the user who began it, and to the broker's own.
    group: id of the unix group whose members may connect and read the store; None: only this user and root. An option names the
        group.
    spin_us: how long an idle send handler, writer or reput spins before it sleeps.
    restarts, restart_period_s: if an actor dies more often than this, the tree stops.
    start_grace_s, stop_grace_s: how long actors may take to start, and how long each may take to finish before it is killed.
    retention_hours: how long messages are kept if their topic has no time of its own; 0: for ever. retention_bytes: how much
        the CommitLog's files take at most; 0: no limit.
    listen: the addresses at which RocketMQ's clients may connect (listen_address.py); empty: nowhere.
    gateway: whether they may connect at gateway_host, where they expect it: at name_server_port, broker_port, which routes and
        messages name, and vip_port; 0 for any port that is free, and of vip_port for that two below the broker's.
    namesrv: RocketMQ's name servers that are told where this broker is, such as a:9876;b:9876; empty: none.
    advertise: the address that they are told, if it is another than the broker's.
    tls_cert, tls_key: files of the certificate with which it answers clients that begin with TLS, and of its key if that is
        not in the same file; empty: nobody can. tls: whether they must ("enforcing"), may ("permissive"), cannot ("disabled").
    tls_client_auth: whether they show a certificate of their own: never asked ("none"), if they have one ("optional"), or all
        of them ("require"). tls_trust: the file of those that vouch for it.
    acl: the file of accounts and permissions by which RocketMQ's clients are let in; empty: all of them may do everything.
    auto_create_topics: whether a send of such a client to a topic that does not exist makes it, as in RocketMQ.
    gateways: processes that serve such clients, at the same address.
    connections_per_address: such clients that one address may have connected; connections_max: all of them together.
    connections_memory: how much requests of theirs take at most that have not come whole; one that needs more is cut off.
    connection_idle_s: a connection of such a client on which nothing is sent for so long is closed.
    log_level: the least important that the broker's log tells. log_format: of its lines. log_file: where they go; empty: to the
        error output, or to the program that embeds the broker.
    owner: pid of the process whose death ends the tree; 0: none.
    together: what placement means on this machine.
    sources: where each value comes from (setting_sources.py). A setting that is missing has its default.
    """

    layout: StoreLayout
    files: StoreSettings
    name: str = "default"
    handlers: int = field(default_factory=_default_handlers)
    placement: str = "auto"
    lane_capacity: int = 8 * MIB
    read_only: bool = False
    group: int | None = None
    sessions_per_process: int = 64
    connections_per_process: int = 128
    user_share_percent: int = 25
    connections_per_user: int = 512
    shared_groups: bool = False
    spin_us: int = field(default_factory=_default_spin_us)
    topic_capacity: int = 8192
    queue_capacity: int = 65536
    restarts: int = 30
    restart_period_s: float = 10.0
    start_grace_s: float = 60.0
    stop_grace_s: float = 20.0
    offsets_interval_s: float = 5.0
    transaction_timeout_s: float = 6.0
    transaction_check_interval_s: float = 60.0
    transaction_check_max: int = 15
    retention_hours: int = 72
    retention_bytes: int = 0
    listen: str = ""
    gateway: bool = False
    gateway_host: str = LOCAL
    name_server_port: int = 9876
    broker_port: int = 10911
    vip_port: int = 0
    namesrv: str = ""
    advertise: str = ""
    acl: str = ""
    tls: str = "permissive"
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_auth: str = "none"
    tls_trust: str = ""
    auto_create_topics: bool = True
    gateways: int = 1
    connections_per_address: int = 1024
    connections_max: int = 4096
    connections_memory: int = 1 << 30
    connection_idle_s: float = 120.0
    log_level: str = "info"
    log_format: str = "text"
    log_file: str = ""
    owner: int = 0
    together: bool = field(default_factory=bool)  # no setting
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def serves_remote(self) -> bool:
        """Whether RocketMQ's clients may connect somewhere."""
        return bool(listen_places(self))

    @property
    def speaks_tls(self) -> bool:
        """Whether such clients may begin with TLS."""
        return bool(self.tls_cert) and self.tls != "disabled"

    @property
    def lanes(self) -> int:
        """How many send handlers there are. In one process a second one would have nothing to do while the first one runs."""
        return 1 if self.together else self.handlers


_TEXTS = (
    "listen", "gateway_host", "namesrv", "advertise", "acl", "tls", "tls_cert", "tls_key", "tls_client_auth",
    "tls_trust", "log_level", "log_format", "log_file",
)  # fmt: skip
OWN_KINDS: dict[str, type] = {"name": str, "handlers": int, "placement": str, "group": str, "spin_us": int} | {
    each.name: type(each.default)
    for each in fields(TreeSettings)
    if isinstance(each.default, int | float) or each.name in _TEXTS
}
FILE_KINDS: dict[str, type] = {each.name: type(each.default) for each in fields(StoreSettings)}
# The type of each setting.
KINDS: dict[str, type] = OWN_KINDS | FILE_KINDS
# Given anew at each start: under which name this broker runs, for whom, and whether it may write. A store remembers the others,
# except its files' sizes, which the files themselves show.
OF_ONE_START = ("name", "owner", "read_only")
REMEMBERED: dict[str, type] = {name: kind for name, kind in KINDS.items() if name not in (*OF_ONE_START, *FILE_SETTINGS)}

_ALLOWED: dict[str, tuple[int, int]] = {
    "handlers": (1, HANDLERS_MAX),
    "lane_capacity": (64 << 10, 1 << 30),
    "sessions_per_process": (1, SESSIONS_MAX),
    "name_server_port": (0, PORT_MAX),
    "broker_port": (0, PORT_MAX),
    "vip_port": (0, PORT_MAX),
    "gateways": (1, GATEWAYS_MAX),
    "connections_per_address": (1, 65536),
    "connections_max": (1, 4096),
    "connections_memory": (32 << 20, 1 << 50),
    "connections_per_process": (1, 65536),
    "user_share_percent": (1, 100),
    "connections_per_user": (1, 65536),
    "spin_us": (0, 1_000_000),
    "topic_capacity": (16, 1 << 16),
    "queue_capacity": (16, 65536),
    "restarts": (0, 1_000_000),
    "transaction_check_max": (0, 1_000_000),
    "retention_hours": (0, 1_000_000),
    "retention_bytes": (0, 1 << 62),
    "owner": (0, 1 << 31),
}
_ALLOWED_SECONDS: dict[str, tuple[float, float]] = {
    "restart_period_s": (0.001, 86_400),
    "start_grace_s": (0.001, 86_400),
    "stop_grace_s": (0, 86_400),
    "offsets_interval_s": (0.001, 86_400),
    "transaction_timeout_s": (0, 1_000_000),
    "transaction_check_interval_s": (0.001, 1_000_000),
    "connection_idle_s": (0.1, 86_400),
}


def tree_settings(store: str, options: dict[str, Any]) -> TreeSettings:
    """Settings from plain values, as they come from a command line or keywords. Sizes that a store has already are taken from
    it.

    Raises: SettingError: a setting does not exist, or a value is not valid; has .name and .value. StoreVersion.
    """
    for name, value in options.items():
        if name not in KINDS:
            raise unknown(name, value)
    options = {**options, "group": _group_id(options.get("group"))}
    layout = StoreLayout.at(store)
    files = layout.settings(**{name: value for name, value in options.items() if name in FILE_KINDS})
    settings = TreeSettings(layout, files, **{name: value for name, value in options.items() if name in OWN_KINDS})
    broker_name(settings.name)
    for name, (least, most) in _ALLOWED.items():
        value = getattr(settings, name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise refused(name, value, f"it must be a whole number from {least:,} to {most:,}")
    for name, (shortest, longest) in _ALLOWED_SECONDS.items():
        value = getattr(settings, name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not shortest <= value <= longest:
            raise refused(name, value, f"it must be a number of seconds from {shortest:g} to {longest:,}")
    _check_switches(settings)
    _check_addresses(settings)
    settings = replace(settings, together=_together(settings.placement))
    for name in ("lane_capacity", "topic_capacity"):
        value = getattr(settings, name)
        if value & (value - 1):
            raise refused(name, value, "it must be a power of two")
    _check_retention(settings)
    if (settings.listen or settings.gateway) and not {"message_max", "lane_capacity"} & options.keys():
        files = replace(files, message_max=max(files.message_max, min(MESSAGE_REMOTE, files.log_file_size // 4)))
        settings = replace(settings, files=files)
        options["message_max"] = files.message_max
    # A lane holds two of the largest records: larger records need a larger lane.
    if "message_max" in options and "lane_capacity" not in options:
        room = 2 * (files.message_max + LANE_OVERHEAD)
        settings = replace(settings, lane_capacity=max(settings.lane_capacity, 1 << (room - 1).bit_length()))
    fitting = settings.lane_capacity // 2 - LANE_OVERHEAD
    if files.message_max > fitting:
        if "message_max" in options:
            why = f"with this lane_capacity it can be at most {fitting:,} bytes"
            raise refused("message_max", files.message_max, why, hint("raise {lane_capacity}"))
        settings = replace(settings, files=replace(files, message_max=fitting))
    return settings


def unknown(name: str, value: Any, deed: str = "set") -> SettingError:
    """The error for a setting that does not exist. Its hint names similar ones, else all that are meant for people. deed: see
    refused."""
    from difflib import get_close_matches

    known = sorted(KINDS.keys() - {"name", "owner"})
    close = get_close_matches(name, known, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}" if close else f"settings are {', '.join(known)}"
    return refused(name, value, "there is no such setting", hint, deed)


def _group_id(name: Any) -> int | None:
    """An empty name means no group, so that a remembered group can be removed."""
    if name is None or name == "":
        return None
    try:
        group = grp.getgrnam(name).gr_gid
    except (KeyError, TypeError, UnicodeEncodeError):
        raise refused("group", name, "this machine has no group of this name") from None
    if os.geteuid() != 0 and group not in (os.getegid(), *os.getgroups()):
        hint = "add the user to the group, log in again, and start the broker again"
        raise refused("group", name, f"uid {os.geteuid()} does not belong to it", hint)
    return group


def _check_switches(settings: TreeSettings) -> None:
    for name in ("read_only", "shared_groups", "auto_create_topics", "gateway"):
        if not isinstance(getattr(settings, name), bool):
            raise refused(name, getattr(settings, name), "it must be true or false")
    for name, allowed in (("placement", PLACEMENTS), ("log_level", (*LEVELS,)), ("log_format", LOG_FORMATS)):
        if getattr(settings, name) not in allowed:
            raise refused(name, getattr(settings, name), f"it must be one of {', '.join(allowed)}")


def _check_addresses(settings: TreeSettings) -> None:
    for name, read in (("listen", listen_addresses), ("advertise", listen_address), ("namesrv", server_addresses)):
        value: Any = getattr(settings, name)
        try:
            read(value)
        except (ValueError, TypeError, AttributeError) as error:
            why = str(error) if isinstance(error, ValueError) else "it must be a text such as 127.0.0.1:9876"
            raise refused(name, value, why) from None
    check_places(settings)
    if settings.namesrv and not settings.serves_remote:
        why = "no client could reach this broker"
        raise refused("namesrv", settings.namesrv, why, hint("use {listen} too || {gateway=True}"))
    for name in ("acl", "tls_cert", "tls_key", "tls_trust", "log_file"):
        path: Any = getattr(settings, name)
        if not isinstance(path, str) or (path and not Path(path).is_absolute()):
            raise refused(name, path, "it must be the absolute path of a file, because the store remembers it")
    if settings.acl and not settings.serves_remote:
        why = "no client whom these rules are for could reach this broker"
        raise refused("acl", settings.acl, why, hint("use {listen} too || {gateway=True}"))
    if settings.tls not in TLS_MODES:
        raise refused("tls", settings.tls, f"it must be one of {', '.join(TLS_MODES)}")
    if settings.tls == "enforcing" and not settings.tls_cert:
        raise refused("tls", settings.tls, "no client could connect without a certificate", hint("set {tls_cert} too"))
    if settings.tls_key and not settings.tls_cert:
        raise refused("tls_key", settings.tls_key, "there is no certificate to which it belongs", hint("set {tls_cert} too"))
    _check_client_certificates(settings)


def _check_client_certificates(settings: TreeSettings) -> None:
    asked = settings.tls_client_auth
    if asked not in CLIENT_CERTIFICATES:
        raise refused("tls_client_auth", asked, f"it must be one of {', '.join(CLIENT_CERTIFICATES)}")
    if asked != "none" and not settings.tls_cert:
        why = "nobody can speak TLS without a certificate of the broker's"
        raise refused("tls_client_auth", asked, why, hint("set {tls_cert} too"))
    if asked != "none" and not settings.tls_trust:
        raise refused("tls_client_auth", asked, "nothing says whose certificates are good", hint("set {tls_trust} too"))
    if asked == "require" and settings.tls != "enforcing":
        why = f"clients could connect without TLS and without a certificate, because tls is {settings.tls!r}"
        raise refused("tls_client_auth", asked, why, hint("set {tls=enforcing} too || {tls_client_auth=optional}"))
    if settings.tls_trust and asked == "none":
        why = "no client is asked for a certificate"
        ways = hint("set {tls_client_auth=require} too || {tls_client_auth=optional}")
        raise refused("tls_trust", settings.tls_trust, why, ways)


def _together(placement: str) -> bool:
    few = len(os.sched_getaffinity(0)) <= TOGETHER_PROCESSORS
    return placement == "together" or (placement == "auto" and few)


def _check_retention(settings: TreeSettings) -> None:
    size = settings.files.log_file_size
    least = RETENTION_FILES_MIN * size
    if 0 < settings.retention_bytes < least:
        raise refused(
            "retention_bytes",
            settings.retention_bytes,
            f"it must have room for {RETENTION_FILES_MIN} log files of {size:,} bytes",
            hint(
                "use {retention_bytes={}} || use {retention_bytes=0} for no limit || lower {log_file_size} of a new store",
                least,
            ),
        )
