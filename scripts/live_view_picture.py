"""Draws docs/pictures/live-view.svg: `orbitmq top` over a small broker that is at work."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import orbitmq  # noqa: E402
from orbitmq.cli.top.app import Top  # noqa: E402
from orbitmq.cli.top.source import Source  # noqa: E402
from tests.trees import small_broker  # noqa: E402

PICTURE = ROOT / "docs" / "pictures" / "live-view.svg"
LOOKS = 14
EVERY_S = 0.5


def work(broker: orbitmq.Broker, over: threading.Event) -> None:
    """Sends at changing rates; a group reads more slowly."""
    count = 0
    with broker.producer() as producer, broker.consumer("billing", topics=["orders"], start="earliest") as consumer:
        while not over.wait(0.02):
            count += 1
            producer.send_batch("orders", [b"order"] * (1 + count * 7 % 23))
            producer.send_batch("clicks", [b"click"] * (1 + count * 5 % 11))
            if count % 9 == 0:
                producer.send("invoices", b"invoice")
            consumer.poll_batch(8, timeout=0)
            consumer.commit()


async def drawn(app: Top) -> str:
    async with app.run_test(size=(110, 34)) as pilot:
        for _ in range(LOOKS):
            await pilot.pause(EVERY_S)
        return app.export_screenshot()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, small_broker(Path(folder) / "store", name="shop") as broker:
        for topic in ("orders", "clicks", "invoices"):
            broker.create_topic(topic, 4)
        over = threading.Event()
        worker = threading.Thread(target=work, args=(broker, over))
        worker.start()
        source = Source("shop", None)
        try:
            picture = asyncio.run(drawn(Top(source.look, source.page, EVERY_S)))
        finally:
            over.set()
            worker.join()
            source.close()
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # no fonts from elsewhere
    # The folder says nothing to a reader. The other name is as long, since the picture has its width.
    shown = "/srv/broker-shop"[: len(folder)].ljust(len(folder), "-")
    PICTURE.write_text(picture.replace(folder, shown))
    PICTURE.write_text(picture)


if __name__ == "__main__":
    main()
