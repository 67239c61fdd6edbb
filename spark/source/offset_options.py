"""Where to begin and where to end: the options startingOffsets and endingOffsets and their forms with timestamps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orbitmq.shm import finite_json
from orbitmq.spark.refusal import refused
from orbitmq.spark.source.counts import moment_ms
from orbitmq.tables.choice import Choice
from orbitmq.tables.ends import EARLIEST, LATEST, Numbers, Offsets

_HOW = (
    """give 'earliest', 'latest' or JSON such as {"orders": {"0": 17, "1": -2}}, where -2 is the earliest and -1 the latest"""
)
_HOW_TIMES = """give JSON such as {"orders": {"0": 1714564800000}}, milliseconds since the epoch"""


def starting(values: Mapping[str, str], choice: Choice, default: int) -> Offsets:
    """Raises: SettingError."""
    strategy = values.get("startingOffsetsByTimestampStrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        name = "startingOffsetsByTimestampStrategy"
        raise refused(name, values[name], "error or latest is wanted")
    found = _end(values, choice, "starting", default, strict=strategy == "error")
    if "startingOffsetsByTimestampStrategy" in values and not found.timed:
        why = "it says something only beside startingTimestamp or startingOffsetsByTimestamp, and neither is given"
        raise refused("startingOffsetsByTimestampStrategy", strategy, why, "leave it out")
    return found


def ending(values: Mapping[str, str], choice: Choice) -> Offsets:
    """Raises: SettingError."""
    return _end(values, choice, "ending", LATEST, strict=False)


def _end(values: Mapping[str, str], choice: Choice, which: str, default: int, *, strict: bool) -> Offsets:
    moment, moments, offsets = f"{which}Timestamp", f"{which}OffsetsByTimestamp", f"{which}Offsets"
    given = [option for option in (moment, moments, offsets) if option in values]
    if len(given) > 1:
        why = f"{' and '.join(given)} contradict each other"
        raise refused(given[0], values[given[0]], why, f"give one of {moment}, {moments} and {offsets}")
    if moment in values:
        return Offsets(moment, LATEST, moment_ms=moment_ms(moment, values[moment]), strict=strict)
    left_out = EARLIEST if which == "starting" else LATEST
    if moments in values:
        numbers = _numbers(moments, values[moments], choice, lambda value: moment_ms(moments, value), _HOW_TIMES)
        return Offsets(moments, left_out, moments=numbers, strict=strict)
    text = values.get(offsets)
    if text is None:
        return Offsets(offsets, default)
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Offsets(offsets, EARLIEST if word == "earliest" else LATEST)
    return Offsets(offsets, left_out, _numbers(offsets, text, choice, _whole, _HOW))


def _numbers(option: str, text: str, choice: Choice, number: Callable[[object], int], how: str) -> Numbers:
    try:
        each = {
            str(topic): {int(queue): number(value) for queue, value in queues.items()}
            for topic, queues in finite_json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        raise refused(option, text, "it cannot be understood", how) from None
    for topic, queues in each.items():
        if not choice.takes(topic):
            raise refused(option, text, f"it names topic {topic!r}, which the option {choice.option} does not")
        assigned = choice.queues[topic] if choice.queues is not None else queues
        for queue in queues:
            if queue not in assigned:
                raise refused(option, text, f"it names queue {queue} of topic {topic!r}, which the option assign does not")
    return each


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST:
        raise ValueError(value)
    return value
