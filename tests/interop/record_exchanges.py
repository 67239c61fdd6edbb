"""Writes tests/actors/known_exchanges.json: `python -m tests.interop.record_exchanges`. known_exchanges.py says."""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.actors.known_exchanges import ANSWERS, BROKER, FORMS, NAMES, OPAQUE, Exchange, ask, recorded
from tests.actors.known_requests import EXCHANGES, REST
from tests.actors.remoting_client import Remote
from tests.interop import toolchain
from tests.interop.judge import Judge
from tests.interop.ours import SMALL_FILES


def encoded(judge: Judge, exchange: Exchange) -> dict[str, bytes]:
    """The request, as RocketMQ's classes write it, by form of header."""

    def frame(form: str) -> bytes:
        return base64.b64decode(judge.ask("encode", form=form, body=body, bodyClass=exchange.body_class, **how))

    body = base64.b64encode(exchange.body).decode()
    how = {"header": exchange.header, "fields": exchange.fields, "code": exchange.code, "opaque": OPAQUE}
    return {form: frame(form) for form in FORMS}


def record(judge: Judge, store: Path) -> dict[str, dict[str, Any]]:
    """What is in the file, by the exchanges' names."""
    judge.start(store, SMALL_FILES)
    names, address = judge.addresses
    found: dict[str, dict[str, Any]] = {}
    with Remote(names) as name_server, Remote(address) as broker:
        for each in EXCHANGES:
            frames = encoded(judge, each)
            said = ask({NAMES: name_server, BROKER: broker}, each, frames["JSON"])
            found[each.name] = {"request": recorded(frames), "answer": said}
    for each in REST:
        found[each.name] = {"request": recorded(encoded(judge, each))}
    return found


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="orbitmq-record-") as folder:
        judge = Judge(toolchain.provide(), Path(folder))
        try:
            found = record(judge, Path(folder) / "theirs")
        finally:
            judge.close()
    ANSWERS.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
