"""The first lines of the live view: which broker, how it is, its rates and positions, and what was wrong last."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

from orbitmq.cli.console import counted, rate
from orbitmq.cli.panels import STATE_STYLES
from orbitmq.cli.printing import one_line
from orbitmq.cli.top.model import Model
from orbitmq.cli.top.ruler import ruler
from orbitmq.cli.top.series import Series
from orbitmq.client.admin.health import DEGRADED, OK
from orbitmq.shm.disk_fault import byte_count

HEALTH_STYLES = {OK: "green", DEGRADED: "yellow"}
AWAY = "looks again and again"
LINES = 5
FIXED = 61  # columns of the third line that are not bars


def head(model: Model, width: int) -> Text:
    """LINES lines."""
    lines = [_broker(model), _health(model), _rates(model, width), _ruler(model, width), _last(model)]
    for line in lines:
        line.truncate(max(1, width), overflow="ellipsis")
    return Text("\n").join(lines)


def _broker(model: Model) -> Text:
    status = model.status
    if status is None:
        return Text("orbitmq top", "bold")
    state = "not seen" if model.away else status.state
    return Text.assemble(
        "broker ",
        (one_line(status.name), "bold"),
        "  ",
        (f"● {state}", STATE_STYLES.get(state, "red")),
        f"  pid {status.pid}  {counted(len(status.sessions), 'session')}  ",
        (one_line(status.store), "dim"),
    )


def _health(model: Model) -> Text:
    if model.away:
        last = "; below is what was seen last" if model.status is not None else ""
        return Text.assemble((one_line(model.away), "bold red"), (f"  {AWAY}{last}", "dim"))
    if model.status is None:
        return Text("looking for the broker", "dim")
    health = model.status.health
    return Text.assemble(("health ", "dim"), (one_line(str(health)), HEALTH_STYLES.get(health.state, "bold red")))


def _ruler(model: Model, width: int) -> Text:
    return ruler(model.status.positions, width) if model.status is not None else Text("")


def _last(model: Model) -> Text:
    last = model.complaints.last
    if last is None:
        return Text("no complaints since this view began", "dim")
    return Text.assemble(("last complaint ", "dim"), (one_line(str(last)), "yellow"), ("  c shows all", "dim"))


def _rates(model: Model, width: int) -> Text:
    bars = max(1, min(60, (width - FIXED) // 3))
    parts = [
        _part("messages/s", model.messages, bars, rate),
        _part("written/s", model.bytes, bars, lambda value: byte_count(int(value))),
        _part("lag", model.lag, bars, lambda value: f"{value:,.0f}"),
    ]
    return Text("   ").join(parts)


def _part(label: str, series: Series, bars: int, text: Callable[[float], str]) -> Text:
    shown = "-" if series.last is None else text(series.last)
    return Text.assemble((f"{label} ", "dim"), (series.bars(bars), "cyan"), " ", (f"{shown:>9}", "bold"))
