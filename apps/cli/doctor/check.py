"""Parts of an examination: a check, what it finds, and the report of all. Plug-ins add checks of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

Level = Literal["info", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that isn't well. name: stable, for scripts. message, remedy: plain sentences; remedy says what to do.

    level: info needs nobody's attention and doesn't change the exit status.
    """

    name: str
    level: Level
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Check:
    """A part of the examination. run: yields facts (text) and findings at an instant."""

    run: Callable[[datetime], Iterable[str | Finding]]
    needs_database: bool = True


@dataclass(slots=True)
class Section:
    """What a check found. unchecked: why it could not run to its end; "" if it did."""

    name: str
    facts: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unchecked: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """at: None where settings refuse to start, and with them the clock."""

    at: datetime | None
    release: str
    sections: list[Section]

    @property
    def findings(self) -> list[Finding]:
        """Worst first."""
        levels = ("bad", "warn", "info")
        listed = [finding for section in self.sections for finding in section.findings]
        return sorted(listed, key=lambda finding: levels.index(finding.level))

    @property
    def needs_attention(self) -> bool:
        return any(finding.level != "info" for finding in self.findings)
