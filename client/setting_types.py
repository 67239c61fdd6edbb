"""The settings of a broker for type checkers: what `orbitmq.Broker(path, NAME=VALUE)` and `change_settings` accept.

tests/client/test_setting_types.py compares them with the tables by which store/settings/tree_settings.py and
store/settings/settings.py check the values."""

from __future__ import annotations

from typing import Generic, Literal, Never, TypedDict, TypeVar

_Unsaid = TypeVar("_Unsaid")


class Remembered(TypedDict, Generic[_Unsaid], total=False):
    """The settings that a store remembers. docs/operations.md says what each is for. _Unsaid: None if a setting may be left out
    by that name."""

    acl: str | _Unsaid
    advertise: str | _Unsaid
    after_failed_sync: Literal["refuse", "go-on"] | _Unsaid
    auto_create_topics: bool | _Unsaid
    broker_port: int | _Unsaid
    connection_idle_s: float | _Unsaid
    connections_max: int | _Unsaid
    connections_memory: int | _Unsaid
    connections_per_address: int | _Unsaid
    connections_per_process: int | _Unsaid
    connections_per_user: int | _Unsaid
    dedup_ids: int | _Unsaid
    dedup_window_s: int | _Unsaid
    flush: Literal["timed", "batch"] | _Unsaid
    flush_interval_ms: int | _Unsaid
    gateway: bool | _Unsaid
    gateway_host: str | _Unsaid
    gateways: int | _Unsaid
    group: str | _Unsaid
    handlers: int | _Unsaid
    lane_capacity: int | _Unsaid
    listen: str | _Unsaid
    log_file: str | _Unsaid
    log_format: Literal["text", "json"] | _Unsaid
    log_level: Literal["debug", "info", "warning", "error"] | _Unsaid
    message_max: int | _Unsaid
    name_server_port: int | _Unsaid
    namesrv: str | _Unsaid
    offsets_interval_s: float | _Unsaid
    placement: Literal["auto", "spread", "together"] | _Unsaid
    queue_capacity: int | _Unsaid
    restart_period_s: float | _Unsaid
    restarts: int | _Unsaid
    retention_bytes: int | _Unsaid
    retention_hours: int | _Unsaid
    sessions_per_process: int | _Unsaid
    shared_groups: bool | _Unsaid
    spin_us: int | _Unsaid
    start_grace_s: float | _Unsaid
    stop_grace_s: float | _Unsaid
    tls: Literal["permissive", "enforcing", "disabled"] | _Unsaid
    tls_cert: str | _Unsaid
    tls_client_auth: Literal["none", "optional", "require"] | _Unsaid
    tls_key: str | _Unsaid
    tls_trust: str | _Unsaid
    topic_capacity: int | _Unsaid
    transaction_check_interval_s: float | _Unsaid
    transaction_check_max: int | _Unsaid
    transaction_timeout_s: float | _Unsaid
    user_share_percent: int | _Unsaid
    vip_port: int | _Unsaid


StoredSettings = Remembered[Never]


class BrokerSettings(Remembered[None], total=False):
    """The keywords that orbitmq.Broker accepts as settings: those that a store remembers; the sizes of the files, which count
    when a store is made; and whether this broker may write. docs/operations.md says what each is for. None: as if left out."""

    index_entries: int | None
    index_slots: int | None
    log_file_size: int | None
    queue_file_units: int | None
    read_only: bool | None
