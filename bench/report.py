"""What a measurement reports: a ratio to something measured in the same run, never seconds of one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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


def table(lines: Sequence[BenchLine]) -> str:
    width = max((len(line.name) for line in lines), default=4)
    rows = [f"{'name':<{width}}  {'ratio':>9}  {'goal':>7}  met  detail"]
    for line in lines:
        goal = "" if line.goal is None else f"≤ {line.goal:g}"
        verdict = "" if line.goal is None else ("yes" if line.is_met else "NO")
        rows.append(f"{line.name:<{width}}  {line.ratio:>9.3f}  {goal:>7}  {verdict:<3}  {line.detail}")
    return "\n".join(rows)
