"""What `orbitmq doctor` says about one thing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum

from orbitmq.cli import spelling
from orbitmq.errors import OrbitError


class Level(IntEnum):
    """How bad it is. The command ends with the highest."""

    FINE = 0
    ADVICE = 1  # a broker works, and something should be different
    WRONG = 2  # a broker cannot start, or does not do what it promises


@dataclass(frozen=True, slots=True)
class Finding:
    """noun: what was looked at. found: how it is. change: what to do about it; empty if nothing."""

    noun: str
    found: str
    level: Level = Level.FINE
    change: str = ""

    def as_record(self) -> dict[str, str]:
        return {**asdict(self), "level": self.level.name.lower()}

    @classmethod
    def of_error(cls, noun: str, error: OrbitError, level: Level = Level.WRONG) -> Finding:
        """What a start would say."""
        return cls(noun, error.message, level, spelling.hint_of(error) or "")
