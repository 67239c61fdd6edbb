"""config/messageRequestMode.json, as RocketMQ 5 keeps it: by which request, pull or pop, the consumers of a group get the
messages of a topic. Consumers ask for it only if they have the broker share the queues (`setClientRebalance(false)`)."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.errors import StoreFailed
from orbitmq.store import atomic_file, json_text
from orbitmq.store.layout import StoreLayout

POP, PULL = "POP", "PULL"


@dataclass(frozen=True, slots=True)
class RequestMode:
    """share: among how many members the queues of one are shared with those that follow it; kept, and not used."""

    mode: str = PULL
    share: int = 0


Modes = dict[str, dict[str, RequestMode]]  # by topic, then group


def load(layout: StoreLayout) -> Modes:
    """Empty if the file is missing. Raises: StoreFailed: it is damaged; has .path. OSError."""
    path = layout.request_modes
    try:
        table = json_text.loads(path.read_bytes().decode())["messageRequestModeMap"]
        return {
            topic: {group: RequestMode(str(each["mode"]), int(each["popShareQueueNum"])) for group, each in groups.items()}
            for topic, groups in table.items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "put it back from a backup; or remove it, and set the modes again"
        raise StoreFailed(f"cannot read {path}: {error}", hint=hint, path=str(path)) from error


def store(layout: StoreLayout, modes: Modes) -> None:
    """Durable on return. Raises: OSError."""
    table = {
        topic: {
            group: {"consumerGroup": group, "mode": each.mode, "popShareQueueNum": each.share, "topic": topic}
            for group, each in groups.items()
        }
        for topic, groups in modes.items()
    }
    atomic_file.replace(layout.request_modes, json_text.dumps({"messageRequestModeMap": table}).encode())
