"""Goal: modes come back as they were stored, in the file and form that RocketMQ 5 reads; a damaged file is reported, not
guessed at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbitmq.errors import StoreFailed
from orbitmq.store import request_modes
from orbitmq.store.layout import StoreLayout
from orbitmq.store.request_modes import POP, RequestMode


def test_they_come_back(tmp_path: Path) -> None:
    """As MessageRequestModeManager of RocketMQ 5 writes them."""
    layout = StoreLayout.at(tmp_path)
    layout.config.mkdir()
    assert request_modes.load(layout) == {}
    modes = {"orders": {"billing": RequestMode(POP, 2), "mail": RequestMode()}}
    request_modes.store(layout, modes)
    assert request_modes.load(layout) == modes
    told = json.loads((tmp_path / "config" / "messageRequestMode.json").read_text())["messageRequestModeMap"]
    assert told["orders"]["billing"] == {"consumerGroup": "billing", "mode": "POP", "popShareQueueNum": 2, "topic": "orders"}


_DAMAGED = (b"", b"{}", b"[]", b'{"messageRequestModeMap":{"t":1}}', b'{"messageRequestModeMap":{"t":{"g":{}}}}', b"\xff")


@pytest.mark.parametrize("content", _DAMAGED)
def test_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    layout = StoreLayout.at(tmp_path)
    layout.config.mkdir()
    layout.request_modes.write_bytes(content)
    with pytest.raises(StoreFailed) as error:
        request_modes.load(layout)
    assert error.value.path == str(layout.request_modes)
