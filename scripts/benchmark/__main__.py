"""The command behind scripts/bench."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from scripts.benchmark import (
    ceiling,
    checks,
    codec,
    dataset,
    delays,
    drain,
    exact,
    filters,
    gateway,
    gateway_crowd,
    gateway_processes,
    ladder,
    latency,
    lifecycle,
    locks,
    peers,
    queues,
    request,
    sends,
    stream,
    topics,
    transactions,
    work,
    work_peers,
    work_rocketmq,
)
from scripts.benchmark.result import Measure, Result, Sample
from scripts.benchmark.spark import instead, memory, planning, read, servers
from scripts.benchmark.stage import stage

MEASURES: tuple[Measure, ...] = (
    *stream.MEASURES, *sends.MEASURES, *latency.MEASURES, *ladder.MEASURES, *drain.MEASURES, *filters.MEASURES,
    *queues.MEASURES, *lifecycle.MEASURES, *locks.MEASURES, *delays.MEASURES, *work.MEASURES, *transactions.MEASURES,
    *checks.MEASURES, *topics.MEASURES, *exact.MEASURES, *request.MEASURES, *gateway.MEASURES, *gateway_crowd.MEASURES,
    *gateway_processes.MEASURES,
    *codec.MEASURES, *dataset.MEASURES, *read.MEASURES, *planning.MEASURES, *memory.MEASURES, *instead.MEASURES,
    *servers.MEASURES,
)  # fmt: skip
FAMILIES = {"codec": ["codec_*"], "gateway": ["gateway_*"], "spark": ["spark_*"], "work": ["work_*", "filter_*", "request_*"]}
notes = Console(stderr=True)


def chosen(names: Sequence[str]) -> list[Measure]:
    """The measures that produce any of these names. A prefix before `*` selects several, and the names of families select
    all of theirs."""
    names = [each for name in names for each in FAMILIES.get(name, [name])]
    if list(names) == ["none"]:
        return []
    if not names or "all" in names:
        return list(MEASURES)
    found = [measure for measure in MEASURES if any(_matches(name, measure.names) for name in names)]
    known = [name for measure in MEASURES for name in measure.names]
    for name in names:
        if not _matches(name, known):
            near = [each for each in known if each.startswith(name)][:4] or get_close_matches(name, known, 4)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            raise SystemExit(f"bench: no measure {name!r}; {hint}`scripts/bench --list` shows all")
    return found


def _matches(wanted: str, names: Sequence[str]) -> bool:
    return wanted in names or (wanted.endswith("*") and any(name.startswith(wanted[:-1]) for name in names))


def run(measure: Measure, runs: int | None) -> list[Result]:
    """All runs of one measure on one broker, each followed by a run of the ceiling."""
    counted = runs or measure.runs
    samples: list[tuple[Sample | None, ...]] = []
    with stage(dict(measure.settings)) if measure.broker else nullcontext() as playing:
        for number in range(measure.warm + counted):
            _note(measure, number, counted)
            samples.append(measure.run(playing) if playing else measure.run())
    samples = samples[measure.warm :]
    results = []
    for position, name in enumerate(measure.names):
        column = [found for sample in samples if (found := sample[position])]
        if not column:
            continue  # the measure has said why
        ceilings = [sample.ceiling for sample in column if sample.ceiling is not None]
        results.append(
            Result(
                measure=name,
                unit=_unit(name, measure.unit),
                durability=measure.durability,
                values=tuple(sample.value for sample in column),
                ceilings=tuple(ceilings) if len(ceilings) == len(column) else (),
                target=measure.targets[position] if measure.targets else "",
                beside=measure.beside,
            )
        )
    return results


def _unit(name: str, unit: str) -> str:
    endings = {"_gain": "times", "_share": "times", "_mb": "MB/s", "_ns": "ns", "_end_us": "us"}
    return next((of for ending, of in endings.items() if name.endswith(ending)), unit)


def _note(measure: Measure, number: int, counted: int) -> None:
    what = "warm-up" if number < measure.warm else f"run {number - measure.warm + 1} of {counted}"
    notes.print(f"[dim]{measure.names[0]}: {what}[/dim]", end="\r", highlight=False)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if value >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:,.1f}"


def tables(results: Sequence[Result]) -> list[Table]:
    """One for each of what OrbitMQ is compared with."""
    return [
        _table(beside, [result for result in results if result.beside == beside])
        for beside in dict.fromkeys(result.beside for result in results)
    ]


def _table(beside: str, results: Sequence[Result]) -> Table:
    what = "the ceiling of its design" if beside == "ceiling" else beside
    shown = Table(title=f"OrbitMQ beside {what}; medians")
    for heading in ("measure", "value", "min", "max", "unit", "runs", beside, "ratio", "durability", "target"):
        left = heading in ("measure", "unit", "durability", "target")
        shown.add_column(heading, justify="left" if left else "right")
    for result in results:
        shown.add_row(
            result.measure, _number(result.value), _number(min(result.values)), _number(max(result.values)), result.unit,
            str(len(result.values)), _number(result.ceiling), _number(result.ratio), result.durability, result.target,
        )  # fmt: skip
    return shown


def peer_tables(found: Sequence[dict[str, Any]]) -> list[Table]:
    """One a size of bodies."""
    tables = []
    for size in sorted({each["size"] for each in found}):
        shown = Table("peer", title=f"Peers in the same run, bodies of {size:,} bytes")
        for heading in peers.COLUMNS:
            shown.add_column(heading, justify="right")
        for name, cells in peers.rows(found, size):
            shown.add_row(name, *cells)
        tables.append(shown)
    return tables


def _peers(as_json: bool, quick: bool) -> list[dict[str, Any]]:
    found = []
    for peer in peers.measure(notes.print, quick=quick):
        found.append(peer)
        if as_json:
            print(json.dumps({"peer": True, **peer}), flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="measures, all, or none; `queues_*`; gateway; spark; work")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--runs", type=int, help="counted runs of each measure")
    parser.add_argument("--peers", action="store_true", help="measure what people use instead (an hour; minutes with --runs 1)")
    parser.add_argument("--plots", type=Path, help="folder for pictures (SVG)")
    parser.add_argument("--list", action="store_true", help="show the names")
    options = parser.parse_args()
    if options.list:
        print("\n".join(name for measure in MEASURES for name in measure.names))
        return 0
    measures = chosen(options.names)
    only_work = bool(measures) and all(any(_matches(of, each.names) for of in FAMILIES["work"]) for each in measures)
    if options.peers and any(_matches("work_*", each.names) for each in measures):
        measures += work_peers.MEASURES + work_rocketmq.MEASURES
    if ceiling.source() is None and any(measure.beside == "ceiling" for measure in measures):
        notes.print("no ceiling.c beside the checkout (shared/bench/ceiling.c or $ORBITMQ_CEILING): no ratios")
    begin = time.monotonic()
    results: list[Result] = []
    failed = False
    for measure in measures:
        try:
            found = run(measure, options.runs)
        except Exception:  # the others' results of a long run are worth having
            failed = True
            notes.print_exception()
            continue
        results += found
        if options.json and found:
            print(*(json.dumps(result.as_json()) for result in found), sep="\n", flush=True)
    beside = _peers(options.json, options.runs == 1) if options.peers and not only_work else []
    if options.plots:
        from scripts.benchmark.plots import draw

        for path in draw(results, beside, options.plots):
            notes.print(f"wrote {path}")
    if not options.json:
        output = Console(width=170 if not sys.stdout.isatty() else None)
        for of in tables(results):
            output.print(of)
        for each in peer_tables(beside):
            output.print(each)
        output.print(f"{time.monotonic() - begin:.0f} s in all")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
