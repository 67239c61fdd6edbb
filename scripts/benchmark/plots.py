"""Pictures of the results for docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from scripts.benchmark.ladder import PERCENTILES
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


def _rungs(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """{measure without its percentile: {percentile: us}} of the latency ladder."""
    found: dict[str, dict[str, float]] = {}
    for result in results:
        name, _, at = result.measure.removesuffix("_us").rpartition("_")
        if name.startswith("ladder_") and at in PERCENTILES:
            found.setdefault(name.removeprefix("ladder_"), {})[at] = result.value
    return found


def _ladder(path: Path, rungs: dict[str, dict[str, float]]) -> None:
    """From when a message was due to its receipt (left) and to the consumer (right); dashed: consumers and stages spin."""
    figure, both = plt.subplots(1, 2, figsize=(10, 4.5), sharey=True)
    colours: dict[str, str] = {}
    for name, values in rungs.items():
        load = name.removesuffix("_receipt").removesuffix("_spin")
        colour = colours.setdefault(load, f"C{len(colours)}")
        style = "--" if "_spin" in name else "-"
        axes = both[0 if name.endswith("_receipt") else 1]
        axes.plot(list(values), list(values.values()), style, color=colour, marker="o", markersize=3,
                  label=name.removesuffix("_receipt").replace("_", " "))  # fmt: skip
    for axes, title in zip(both, ("receipt", "end to end"), strict=True):
        axes.set_yscale("log")
        axes.set_title(title, loc="left")
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    both[0].set_ylabel("microseconds")
    both[1].legend(fontsize=7, ncols=2)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def draw(results: Sequence[Result], peers: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """throughput.svg and latency.svg: bars of ours, the ceiling's and the peers'; ladder.svg. Returns the paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    rates: list[tuple[str, float, str]] = []
    delays: list[tuple[str, float, str]] = []
    for result in results:
        rows = rates if result.unit == "messages/s" else delays if result.unit == "us" else None
        if rows is None or result.measure.endswith(("_gain", "_share")) or result.measure.startswith("ladder_"):
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
    if rungs := _rungs(results):
        _ladder(folder / "ladder.svg", rungs)
        written.append(folder / "ladder.svg")
    for name, title, unit, rows in (
        ("throughput.svg", "Throughput, 100-byte bodies", "messages/s", rates),
        ("latency.svg", "Latency", "microseconds", delays),
    ):
        if rows:
            _bars(folder / name, title, unit, rows)
            written.append(folder / name)
    return written
