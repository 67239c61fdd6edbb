"""What administrators keep in the name server: values by namespace and key, in orbitmq/name-server-values.json, which has the
shape of RocketMQ's kvConfig.json. Nothing else reads them."""

from __future__ import annotations

from orbitmq.errors import StoreFailed
from orbitmq.store import atomic_file, json_text
from orbitmq.store.layout import StoreLayout

Values = dict[str, dict[str, str]]


def load(layout: StoreLayout) -> Values:
    """Empty if the file is missing. Raises: StoreFailed: it is damaged; has .path. OSError."""
    path = layout.name_server_values
    try:
        table = json_text.loads(path.read_bytes().decode())["configTable"]
        return {space: {key: str(value) for key, value in pairs.items()} for space, pairs in table.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "put it back from a backup; or remove it, and set the values again"
        raise StoreFailed(f"cannot read {path}: {error}", hint=hint, path=str(path)) from error


def store(layout: StoreLayout, values: Values) -> None:
    """Durable on return. Raises: OSError."""
    atomic_file.replace(layout.name_server_values, json_text.dumps({"configTable": values}).encode())
