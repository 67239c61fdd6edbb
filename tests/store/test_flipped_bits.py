"""Goal: no bit of a store can change without verify naming its file, but for those that mean nothing; and no consumer is ever
given a body that was not sent.

Method: a store that a real broker wrote; one bit of it flipped at a time. Which bits are free is written down here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from stored_by_broker import SETTINGS, Stored, store_by_broker

from orbitmq.client.arrow import record_batch
from orbitmq.errors import StoreError
from orbitmq.native._fast import Reader
from orbitmq.store.record import BLANK_MAGIC

BLANK = BLANK_MAGIC.to_bytes(4, "big")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    folder = tmp_path_factory.mktemp("flips")
    (folder / "run").mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
        made = store_by_broker(folder / "store", "flips")
    yield made
    made.restore()


def is_free(stored: Stored, path: Path, at: int, bit: int) -> bool:
    """Bits that say nothing, in the files that are checked bit by bit."""
    content = stored.files[path]
    if path.parent.name == "commitlog":
        # What follows a blank marker means nothing.
        marker = content.rfind(BLANK)
        return marker > 0 and at >= marker + 4
    # A checkpoint that is older than need be makes recovery read more, and is right.
    return path.name == "checkpoint" and at < 24 and bool(content[at] >> bit & 1)


def checked_files(stored: Stored) -> list[Path]:
    own = [path for path in stored.of("orbitmq") if path.name in ("positions", "reput")]
    return [*stored.of("commitlog"), *stored.of("consumequeue"), *stored.of("index"), *stored.of("checkpoint"), *own]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate])
@given(data=st.data())
def test_every_flipped_bit_is_named(stored: Stored, data: st.DataObject) -> None:
    """Goal: verify finds it. Method: any file, any bit of it; what is free is flipped too, and must not be named."""
    path = data.draw(st.sampled_from(checked_files(stored)))
    bit = data.draw(st.integers(0, 8 * len(stored.files[path]) - 1))
    stored.flip(path, bit)
    verdict, found = stored.verify()
    stored.spoil(path, bit // 8, stored.files[path][bit // 8 : bit // 8 + 1])
    where = f"bit {bit % 8} of byte {bit // 8} of {path}"
    if is_free(stored, path, bit // 8, bit % 8):
        assert verdict.whole, (where, found)
    else:
        assert not verdict.whole, where


def read_all(stored: Stored, columns: bool) -> dict[tuple[str, int], dict[int, bytes]]:
    """What a consumer is given of the whole store, by queue and queue offset; it seeks past what it is refused."""
    reader = Reader(
        store=str(stored.layout.root), log_file_size=SETTINGS.log_file_size, queue_file_units=SETTINGS.queue_file_units
    )
    keys = list(stored.bodies)
    for key in keys:
        reader.add_offline(*key, 0, len(stored.bodies[key]))
    given_out: dict[tuple[str, int], dict[int, bytes]] = {key: {} for key in keys}
    while any(position < len(stored.bodies[key]) for key, position in zip(keys, reader.positions(), strict=True)):
        try:
            if columns:
                batch = record_batch(reader, 64, ("topic", "queue", "offset", "body")).to_pydict()
                rows = list(zip(batch["topic"], batch["queue"], batch["offset"], batch["body"], strict=True))
            else:
                rows = [(each.topic, each.queue, each.offset, bytes(each)) for each in reader.messages(64)]
        except StoreError as error:
            reader.seek(keys.index((error.topic, error.queue)), error.queue_offset + 1)
            continue
        for topic, queue, offset, content in rows:
            given_out[topic, queue][offset] = content
    return given_out


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate])
@given(data=st.data())
def test_no_flipped_bit_gives_a_consumer_another_body(stored: Stored, data: st.DataObject) -> None:
    """Goal: it gets the body that was sent, or an error that says which message it is not given. Method: any bit of log and
    queues; all is read, as messages or as Arrow columns. At most the one message of the bit is withheld."""
    used = [path for path in [*stored.of("commitlog"), *stored.of("consumequeue")] if any(stored.files[path])]
    path = data.draw(st.sampled_from(used))
    bit = data.draw(st.integers(0, 8 * len(stored.files[path].rstrip(b"\0")) - 1))
    stored.flip(path, bit)
    given_out = read_all(stored, data.draw(st.booleans()))
    stored.spoil(path, bit // 8, stored.files[path][bit // 8 : bit // 8 + 1])
    missing = 0
    for key, bodies in stored.bodies.items():
        for offset, content in given_out[key].items():
            assert content == bodies[offset], f"bit {bit % 8} of byte {bit // 8} of {path}"
        missing += len(bodies) - len(given_out[key])
    assert missing <= 1
