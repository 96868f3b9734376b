"""What is supposed: core-hours of one's own, the pace of one's group, another target; what is absurd is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Malformed

MOST_CORE_H = 1e9
MOST_DAYS = 365.0
MOST_LOAD = 1_000.0
USUAL_DAYS = 7.0


@dataclass(frozen=True)
class Supposition:
    """core_h: what the account runs evenly over the next `days`, and as lately after them; None: as lately.

    load: what its group runs, 1.0 for as lately. target: of the entry at `level` (a path), 0..1.
    """

    core_h: float | None = None
    days: float = USUAL_DAYS
    load: float = 1.0
    level: str = ""
    target: float | None = None

    @property
    def is_empty(self) -> bool:
        return self.core_h is None and self.load == 1.0 and self.target is None


def read_asked(given: Mapping[str, str]) -> Supposition:
    """From texts: core_h, days, load and target in percent, level. Empty ones suppose nothing; all problems at once."""
    problems: list[FieldProblem] = []

    def number(name: str, least: float, most: float, message: str) -> float | None:
        text = given.get(name, "").strip().replace(",", ".", 1).removesuffix("%").strip()
        if not text:
            return None
        try:
            value = float(text) if len(text) <= 40 and "_" not in text else math.nan
        except ValueError:
            value = math.nan
        if not least <= value <= most:  # NaN is neither
            problems.append(FieldProblem(name, message))
            return None
        return value

    core_h = number("core_h", 0, MOST_CORE_H, _("must be core-hours from 0 to 1,000,000,000"))
    days = number("days", 1, MOST_DAYS, _("must be a number of days from 1 to 365"))
    load = number("load", 0, MOST_LOAD, _("must be percent of the current usage, from 0 to 1000"))
    target = number("target", 0, 100, _("must be percent from 0 to 100"))
    level = given.get("level", "").strip()
    if len(level) > 10_000 or "\0" in level:
        problems.append(FieldProblem("level", _("must be the path of your entry, or of one above it")))
    if problems:
        first = problems[0]
        raise Malformed(f"{first.where} {first.message}.", code="impossible", fields=problems)
    return Supposition(
        core_h=core_h,
        days=USUAL_DAYS if days is None else days,
        load=1.0 if load is None else load / 100,
        level=level,
        target=None if target is None else target / 100,
    )
