"""The options subscribe, subscribePattern and assign, of which exactly one is given."""

from __future__ import annotations

import re
from collections.abc import Mapping

from orbitmq.shm import finite_json
from orbitmq.spark.refusal import refused
from orbitmq.tables.choice import Choice

OPTIONS = ("subscribe", "subscribePattern", "assign")


def parse(values: Mapping[str, str]) -> Choice:
    """Raises: SettingError."""
    given = [option for option in OPTIONS if option in values]
    if len(given) != 1:
        why = f"{' and '.join(given)} are given" if given else "none is given"
        option = given[0] if given else "subscribe"
        one = "exactly one of the options subscribe, subscribePattern and assign says what to read"
        raise refused(option, values.get(option), f"{one}, and {why}", "leave the others out" if given else None)
    option = given[0]
    text = values[option]
    if option == "subscribe":
        return Choice(option, tuple(dict.fromkeys(words(option, text))))
    if option == "subscribePattern":
        try:
            re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise refused(option, text, f"it is no regular expression: {error}") from None
        return Choice(option, pattern=text)
    return _assigned(option, text)


def words(option: str, text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    found = tuple(word.strip() for word in text.split(",") if word.strip())
    if not found:
        raise refused(option, text, "it names nothing", "give names separated by commas")
    return found


def _assigned(option: str, text: str) -> Choice:
    try:
        content = finite_json.loads(text)
        queues = {str(topic): tuple(dict.fromkeys(_queue(queue) for queue in numbers)) for topic, numbers in content.items()}
    except (ValueError, TypeError, AttributeError):
        queues = {}
    if not queues or not all(queues.values()):
        raise refused(option, text, "it cannot be understood", """give JSON such as {"orders": [0, 1]}""")
    return Choice(option, tuple(queues), queues=queues)


def _queue(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value
