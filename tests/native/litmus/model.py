"""Every execution of a litmus test that C11 allows, after the repaired model RC11 (Lahav, Vafeiadis, Kang, Hur, Dreyer:
"Repairing sequential consistency in C/C++11", PLDI 2017).

An execution is a run of each thread with guessed values, a write for each read (rf), and an order of the writes to each
location (mo). It is allowed when

    coherence    hb ; eco? is irreflexive           hb: happens before; eco = (rf | mo | rb)+, rb = rf^-1 ; mo
    atomicity    nothing comes between what a read-modify-write reads and what it writes
    SC           psc is acyclic, over seq_cst fences and accesses

RC11 also forbids cycles of sb | rf. Machines such as aarch64 have them with relaxed accesses, so they are allowed here, unless
the caller says `thin_air=False`; what is impossible with them is impossible without. Release sequences are those of C++20: a
write and the read-modify-writes that follow it.

Relations are lists of bit sets: relation[a] has bit b where a stands before b."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations, product

from tests.native.litmus.program import (
    ACQ_REL,
    ACQUIRE,
    RELAXED,
    RELEASE,
    SEQ_CST,
    Assign,
    Branch,
    Fence,
    Load,
    Modify,
    Program,
    Statement,
    Store,
)

ROUNDS_MAX = 8  # of looking for values that a location may have; a counter that never stops growing is cut there
RELEASES = frozenset({RELEASE, ACQ_REL, SEQ_CST})
ACQUIRES = frozenset({ACQUIRE, ACQ_REL, SEQ_CST})
Relation = list[int]


@dataclass(frozen=True, slots=True)
class Event:
    """kind: R, W or F. pair: for the write of a read-modify-write, the distance back to its read."""

    kind: str
    location: str
    value: int
    order: str
    pair: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """One run of one thread with guessed values."""

    events: tuple[Event, ...]
    registers: Mapping[str, int]


def allows(program: Program, *, thin_air: bool = True) -> bool:
    """Whether some allowed execution ends in the program's outcome."""
    return any(True for _ in _ends(program, thin_air, outcome=True))


def runs(program: Program) -> bool:
    """True if there is any allowed execution at all; a test without one would forbid everything."""
    return any(True for _ in _ends(program, True, outcome=False))


# ---- threads


def _traces(program: Program) -> list[list[Trace]]:
    """For each thread all its runs, with every value that any thread could have stored for each read."""
    values: dict[str, set[int]] = {location: {program.initial.get(location, 0)} for location in _locations(program)}
    found: list[list[Trace]] = []
    for _ in range(ROUNDS_MAX):
        found = [list(_run(thread, {}, (), values)) for thread in program.threads]
        fresh = {(e.location, e.value) for traces in found for trace in traces for e in trace.events if e.kind == "W"}
        if all(value in values[location] for location, value in fresh):
            break
        for location, value in fresh:
            values[location].add(value)
    return found


def _run(
    statements: tuple[Statement, ...], known: dict[str, int], events: tuple[Event, ...], values: Mapping[str, set[int]]
) -> Iterator[Trace]:
    if not statements:
        yield Trace(events, known)
        return
    first, rest = statements[0], statements[1:]
    match first:
        case Assign():
            yield from _run(rest, {**known, first.register: first.value(known)}, events, values)
        case Branch():
            yield from _run((first.then if first.condition(known) else first.otherwise) + rest, known, events, values)
        case Fence():
            yield from _run(rest, known, (*events, Event("F", "", 0, first.order)), values)
        case Store():
            yield from _run(rest, known, (*events, Event("W", first.location, first.value(known), first.order)), values)
        case Load():
            for value in sorted(values[first.location]):
                read = Event("R", first.location, value, first.order)
                yield from _run(rest, {**known, first.register: value}, (*events, read), values)
        case Modify():
            for value in sorted(values[first.location]):
                read = Event("R", first.location, value, first.order)
                write = Event("W", first.location, first.stored(value, known), first.order, pair=1)
                after = {**known, first.register: value} if first.register else known
                yield from _run(rest, after, (*events, read, write), values)


def _locations(program: Program) -> set[str]:
    found = set(program.initial)
    waiting = [statement for thread in program.threads for statement in thread]
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, Branch):
            waiting += [*statement.then, *statement.otherwise]
        elif isinstance(statement, Load | Store | Modify):
            found.add(statement.location)
    return found


# ---- executions


def _ends(program: Program, thin_air: bool, *, outcome: bool) -> Iterator[Mapping[str, int]]:
    """Final memory of each allowed execution; only of those that end in the outcome, if asked for."""
    locations = sorted(_locations(program))
    start = tuple(Event("W", location, program.initial.get(location, 0), RELAXED) for location in locations)
    for chosen in product(*_traces(program)):
        registers = [trace.registers for trace in chosen]
        if outcome and not program.on_memory and not program.outcome(registers, {}):
            continue
        for memory in _Candidate(start, chosen).executions(thin_air):
            if not outcome or program.outcome(registers, memory):
                yield memory


class _Candidate:
    """Threads' runs whose reads still need writes."""

    def __init__(self, start: tuple[Event, ...], chosen: tuple[Trace, ...]) -> None:
        self.events: list[Event] = [*start]
        self.thread = [-1] * len(start)
        for number, trace in enumerate(chosen):
            self.events += trace.events
            self.thread += [number] * len(trace.events)
        self.count = len(self.events)
        # What comes first in memory comes before everything.
        self.sb: Relation = [
            sum(1 << b for b in range(self.count) if self.thread[b] >= 0 and self._precedes(a, b)) for a in range(self.count)
        ]
        self.writes: dict[str, list[int]] = {}
        for index, event in enumerate(self.events):
            if event.kind == "W":
                self.writes.setdefault(event.location, []).append(index)

    def _precedes(self, a: int, b: int) -> bool:
        return self.thread[a] < 0 or (self.thread[a] == self.thread[b] and a < b)

    def executions(self, thin_air: bool) -> Iterator[Mapping[str, int]]:
        reads = [index for index, event in enumerate(self.events) if event.kind == "R"]
        choices = [
            [w for w in self.writes[self.events[r].location] if self.events[w].value == self.events[r].value and w != r + 1]
            for r in reads
        ]
        if not all(choices):
            return
        orders = [
            [(writes[0], *rest) for rest in permutations(writes[1:])] for writes in self.writes.values()
        ]  # the first is the initial value
        for sources in product(*choices):
            rf = dict(zip(reads, sources, strict=True))
            for order in product(*orders):
                if self._allowed(rf, order, thin_air):
                    yield {self.events[writes[-1]].location: self.events[writes[-1]].value for writes in order}

    def _allowed(self, sources: Mapping[int, int], orders: tuple[tuple[int, ...], ...], thin_air: bool) -> bool:
        count = self.count
        rf: Relation = [0] * count
        mo: Relation = [0] * count
        place = {}
        for writes in orders:
            for at, write in enumerate(writes):
                place[write] = at
                mo[write] = sum(1 << later for later in writes[at + 1 :])
        rb: Relation = [0] * count
        for read, write in sources.items():
            rf[write] |= 1 << read
            rb[read] = mo[write] & ~(1 << read)
            if self._modifies(read) and place[read + 1] != place[write] + 1:
                return False  # atomicity
        sw = self._synchronises(rf)
        hb = closure(union(self.sb, sw))
        if not irreflexive(hb):
            return False
        eco = closure(union(rf, mo, rb))
        if not irreflexive(eco) or not irreflexive(compose(hb, eco)):
            return False
        if not thin_air and not irreflexive(closure(union(self.sb, rf))):
            return False
        return self._sequential(hb, eco, mo, rb)

    def _synchronises(self, rf: Relation) -> Relation:
        """sw: from a release write, or a release fence before a write, along its release sequence to whoever reads it with
        acquire, or reads it before an acquire fence."""
        sw: Relation = [0] * self.count
        for write in range(self.count):
            reached = self._sequence(write, rf)
            if not reached:
                continue
            ends = sum(1 << read for read in bits(reached) if self.events[read].order in ACQUIRES)
            ends |= _or(tuple(self._fences(ACQUIRES, behind=read) for read in bits(reached)))
            begins = self._fences(RELEASES, before=write)
            if self.events[write].order in RELEASES:
                begins |= 1 << write
            for begin in bits(begins):
                sw[begin] |= ends
        return sw

    def _sequence(self, write: int, rf: Relation) -> int:
        """Reads that may have their value from this write, directly or through read-modify-writes of other threads."""
        reached, fresh = 0, rf[write]
        while fresh:
            reached |= fresh
            fresh = _or(tuple(rf[read + 1] for read in bits(fresh) if self._modifies(read))) & ~reached
        return reached

    def _modifies(self, read: int) -> bool:
        return read + 1 < self.count and bool(self.events[read + 1].pair)

    def _fences(self, orders: frozenset[str], *, before: int | None = None, behind: int | None = None) -> int:
        """Fences of one of these orders in the thread of the event, before or after it."""
        found = 0
        for fence, event in enumerate(self.events):
            if event.kind == "F" and event.order in orders:
                a, b = (fence, before) if before is not None else (behind, fence)
                assert a is not None and b is not None
                found |= (self.thread[a] >= 0 and self.sb[a] >> b & 1) << fence
        return found

    def _sequential(self, hb: Relation, eco: Relation, mo: Relation, rb: Relation) -> bool:
        """Acyclicity of psc."""
        events, count = self.events, self.count
        fences = [i for i in range(count) if events[i].kind == "F" and events[i].order == SEQ_CST]
        accesses = [i for i in range(count) if events[i].kind != "F" and events[i].order == SEQ_CST]
        if len(fences) + len(accesses) < 2:
            return True
        same = [sum(1 << b for b in range(count) if events[b].kind != "F" and events[b].location == events[a].location)
                if events[a].kind != "F" else 0 for a in range(count)]  # fmt: skip
        other = [row & ~same[a] for a, row in enumerate(self.sb)]
        within = [row & same[a] for a, row in enumerate(hb)]
        scb = union(self.sb, compose(compose(other, hb), other), within, mo, rb)
        reflexive = [row | 1 << a for a, row in enumerate(hb)]
        left: Relation = [0] * count
        right: Relation = [0] * count
        for access in accesses:
            left[access] |= 1 << access
            right[access] |= 1 << access
        for fence in fences:
            left[fence] |= reflexive[fence]
            for a in range(count):
                if reflexive[a] >> fence & 1:
                    right[a] |= 1 << fence
        psc = compose(compose(left, scb), right)
        between = union(hb, compose(compose(hb, eco), hb))
        mask = sum(1 << fence for fence in fences)
        for fence in fences:
            psc[fence] |= between[fence] & mask
        return irreflexive(closure(psc))


# ---- relations


def bits(row: int) -> Iterator[int]:
    while row:
        low = row & -row
        yield low.bit_length() - 1
        row ^= low


def union(*relations: Relation) -> Relation:
    return [_or(rows) for rows in zip(*relations, strict=True)]


def _or(rows: tuple[int, ...]) -> int:
    result = 0
    for row in rows:
        result |= row
    return result


def compose(first: Relation, second: Relation) -> Relation:
    return [_or(tuple(second[b] for b in bits(row))) for row in first]


def closure(relation: Relation) -> Relation:
    result = list(relation)
    for middle in range(len(result)):
        for a, row in enumerate(result):
            if row >> middle & 1:
                result[a] = row | result[middle]
    return result


def irreflexive(relation: Relation) -> bool:
    return not any(row >> a & 1 for a, row in enumerate(relation))
