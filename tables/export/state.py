"""The sum of an export's runs: where the next one begins, and which files count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orbitmq.tables.export.manifest import End, ExportFile, Gap, Run


@dataclass(frozen=True, slots=True)
class Base:
    """The sum of the runs up to `run`, as a checkpoint has it. files: reads them; a run that only adds does not need them."""

    run: Run
    ends: Mapping[str, Mapping[int, End]]
    gaps: Sequence[Gap]
    files: Callable[[], list[ExportFile]]


@dataclass(slots=True)
class State:
    """The sum of all runs, or of those up to one of them."""

    run: Run | None = None  # the newest one
    ends: dict[str, dict[int, End]] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    base: Base | None = None
    since: list[Run] = field(default_factory=list)  # after the base
    _files: list[ExportFile] | None = field(default=None, compare=False)

    @classmethod
    def of(cls, runs: Iterable[Run], base: Base | None = None) -> State:
        """runs: those after the base, in their order."""
        state = cls(base=base)
        if base is not None:
            state.run = base.run
            state.ends = {topic: dict(ends) for topic, ends in base.ends.items()}
            state.gaps = list(base.gaps)
        for run in runs:
            state.add(run)
        return state

    @property
    def files(self) -> list[ExportFile]:
        """Those that count, in the order of the runs."""
        if self._files is None:
            files = [] if self.base is None else self.base.files()
            for run in self.since:
                if run.replaces:
                    gone = set(run.replaces)
                    files = [file for file in files if file.topic not in gone]
                if run.removes:
                    removed = set(run.removes)
                    files = [file for file in files if file.path not in removed]
                files += run.files
            self._files = files
        return self._files

    def add(self, run: Run) -> None:
        """The next run has happened."""
        self.run = run
        self.since.append(run)
        self._files = None
        if run.replaces:
            gone = set(run.replaces)
            self.ends = {topic: ends for topic, ends in self.ends.items() if topic not in gone}
            self.gaps = [gap for gap in self.gaps if gap.topic not in gone]
        for topic, ends in run.ends.items():
            self.ends.setdefault(topic, {}).update(ends)
        self.gaps += run.gaps
