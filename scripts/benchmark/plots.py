"""Pictures of the results for docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from scripts.benchmark.result import Result

OURS = "#2b6cb0"
CEILING = "#cbd5e0"
PEER = "#dd8452"


def _bars(path: Path, title: str, unit: str, rows: list[tuple[str, float, str]]) -> None:
    figure, axes = plt.subplots(figsize=(8, 0.5 + 0.38 * len(rows)))
    names = [name for name, _, _ in rows]
    axes.barh(names, [value for _, value, _ in rows], color=[colour for _, _, colour in rows])
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    for position, (_, value, _) in enumerate(rows):
        axes.annotate(f" {value:,.0f}" if value >= 100 else f" {value:.1f}", (value, position), va="center", fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def draw(results: Sequence[Result], peers: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """throughput.svg and latency.svg; ours, the ceiling's and the peers' bars. Returns the paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    rates: list[tuple[str, float, str]] = []
    delays: list[tuple[str, float, str]] = []
    for result in results:
        rows = rates if result.unit == "messages/s" else delays if result.unit == "us" else None
        if rows is None or result.measure.endswith(("_gain", "_share")):
            continue
        rows.append((result.measure, result.value, OURS))
        if result.ceiling is not None:
            rows.append((f"{result.measure}: ceiling", result.ceiling, CEILING))
    for peer in peers:
        name = f"{peer['bench']} {peer.get('variant', '')}".strip()
        if peer["size"] != 100:
            continue
        if peer["measure"] == "stream":
            rates.append((f"stream: {name}", float(peer["median"]), PEER))
        elif peer["measure"] == "latency_p50":
            delays.append((f"e2e_1k p50: {name}", float(peer["median"]), PEER))
    written = []
    for name, title, unit, rows in (
        ("throughput.svg", "Throughput, 100-byte bodies", "messages/s", rates),
        ("latency.svg", "Latency", "microseconds", delays),
    ):
        if rows:
            _bars(folder / name, title, unit, rows)
            written.append(folder / name)
    return written
