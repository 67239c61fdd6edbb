"""What workers noted (worker.py, toil) against the log."""

from __future__ import annotations

from pathlib import Path


def wrongs(folder: Path, wanted: set[tuple[int, ...]]) -> list[str]:
    """Every message was handed out, and none after it was known to be done; no answer that came in time was refused. wanted:
    (queue, offset, who, number) of each."""
    got: list[tuple[int, ...]] = []
    done: dict[tuple[int, int], tuple[int, int]] = {}
    first: dict[int, int] = {}  # generation: when it was seen first
    wrong = []
    for path in folder.glob("toil-*"):
        for line in path.read_text().split("\n")[:-1]:  # a line without an end was cut off
            kind, *words = line.split()
            numbers = tuple(map(int, words))
            generation, moment = numbers[-2:]
            first[generation] = min(moment, first.get(generation, moment))
            if kind == "G":
                got.append(numbers)
            elif kind == "R":
                wrong.append(f"an answer about queue {numbers[0]}, offset {numbers[1]} was refused, though it came in time")
            else:
                place = numbers[0], numbers[1]
                done[place] = min(numbers[2:], done.get(place, numbers[2:]))  # type: ignore[assignment]
    came = {numbers[:4] for numbers in got}
    if came != wanted:
        wrong.append(f"workers got {len(came & wanted)} of {len(wanted)} messages, and {len(came - wanted)} others")
    for queue, offset, _, _, generation, began in got:
        end = done.get((queue, offset))
        if end is None:
            continue
        later = first[generation] > first[end[0]] or (generation == end[0] and began > end[1])
        if later:
            when = f"handed out in {generation} at {began}, and done in {end[0]} at {end[1]}"
            wrong.append(f"queue {queue}, offset {offset} was {when}")
    return wrong
