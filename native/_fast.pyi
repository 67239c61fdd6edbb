"""Types of the extension module over native/fast_*.c."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Literal

from orbitmq.client.receipt import Receipt, Receipts
from orbitmq.client.session import SessionHandle

class Pending:
    """A message on its way."""

    def done(self) -> bool: ...
    def result(self, timeout: float | None = None) -> Receipt: ...
    def __await__(self) -> Generator[Any, None, Receipt]: ...
    @property
    def _flush_end(self) -> int: ...
    @property
    def _answered(self) -> bool: ...

class PendingBatch:
    """Messages of one call on their way."""

    def done(self) -> bool: ...
    def result(self, timeout: float | None = None) -> Receipts: ...
    def _receipt(self, index: int, /) -> Receipt: ...
    def __len__(self) -> int: ...
    def __await__(self) -> Generator[Any, None, Receipts]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def _flush_end(self) -> int: ...
    @property
    def _answered(self) -> bool: ...

class ProducerBase:
    """What of a producer is called once a message."""

    def __init__(self, wait: bool, durable: bool, timeout: float, /) -> None: ...
    def send(
        self,
        topic: str,
        body: bytes | bytearray | memoryview | str,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = (),
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Literal["appended", "flushed"] | None = None,
        timeout: float | None = None,
    ) -> Receipt: ...
    def send_async(
        self,
        topic: str,
        body: bytes | bytearray | memoryview | str,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = (),
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Literal["appended", "flushed"] | None = None,
        timeout: float | None = None,
    ) -> Pending: ...
    def send_oneway(
        self,
        topic: str,
        body: bytes | bytearray | memoryview | str,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] | None = (),
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        durability: Literal["appended", "flushed"] | None = None,
        timeout: float | None = None,
    ) -> None: ...
    def send_batch(
        self,
        topic: str,
        bodies: Iterable[bytes | bytearray | memoryview | str],
        *,
        tags: str | Sequence[str | None] | None = None,
        keys: Sequence[str | Sequence[str] | None] | None = None,
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        durability: Literal["appended", "flushed"] | None = None,
        timeout: float | None = None,
    ) -> Receipts: ...
    def send_batch_async(
        self,
        topic: str,
        bodies: Iterable[bytes | bytearray | memoryview | str],
        *,
        tags: str | Sequence[str | None] | None = None,
        keys: Sequence[str | Sequence[str] | None] | None = None,
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        durability: Literal["appended", "flushed"] | None = None,
        timeout: float | None = None,
    ) -> PendingBatch: ...
    def _batch(
        self,
        topic: str,
        bodies: Iterable[bytes | bytearray | memoryview | str],
        *,
        tags: str | Sequence[str | None] | None = None,
        keys: Sequence[str | Sequence[str] | None] | None = None,
        queue: int | None = None,
        queue_key: str | bytes | None = None,
        durability: Literal["appended", "flushed"] | None = None,
        timeout: float | None = None,
    ) -> PendingBatch: ...
    def _push(self, batch: PendingBatch, /) -> bool: ...
    def _attach(self, handle: SessionHandle, /) -> None: ...
    def _settle(self, timeout: float | None, /) -> bool: ...
    def _wait(self, settled: int, end: int, timeout: float | None, /) -> bool: ...
    def _retire(self) -> None: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def _settled(self) -> int: ...
    @property
    def _store_host(self) -> bytes | None: ...
