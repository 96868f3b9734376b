"""What a measurement reports: a ratio to something measured in the same run, never seconds of one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# By how much a ratio may exceed its goal before the run fails: beside busy processes, which share the caches, the same
# work took up to 1.4 times the seconds of the processor.
NOISE = 0.4


@dataclass(frozen=True, slots=True)
class BenchLine:
    """One measured ratio; a goal of None is reported and not judged."""

    name: str
    ratio: float
    goal: float | None
    detail: str = ""

    @property
    def is_met(self) -> bool:
        return self.goal is None or self.ratio <= self.goal

    @property
    def is_missed(self) -> bool:
        """Whether the goal is missed by more than the noise."""
        return self.goal is not None and not self.ratio <= self.goal * (1 + NOISE)


def exit_status(lines: Sequence[BenchLine]) -> int:
    """0 if something was measured, and no goal is missed by more than the noise; else 1."""
    return int(not lines or any(line.is_missed for line in lines))


def table(lines: Sequence[BenchLine]) -> str:
    width = max((len(line.name) for line in lines), default=4)
    rows = [f"{'name':<{width}}  {'ratio':>9}  {'goal':>7}  met  detail"]
    for line in lines:
        goal = "" if line.goal is None else f"≤ {line.goal:g}"
        verdict = "" if line.goal is None else "yes" if line.is_met else "NO" if line.is_missed else "~"
        rows.append(f"{line.name:<{width}}  {line.ratio:>9.3f}  {goal:>7}  {verdict:<3}  {line.detail}")
    return "\n".join(rows)
