"""The arithmetic of a statement. Pure; amounts in the policy's metric (core-seconds where it weights cores alone).

Of one entry, over the days d of a month on which it competes:

    entitled_d = target_d · peers_used_d
    entitled   = Σ entitled_d
    used       = Σ used_d
    borrowed   = Σ max(0, used_d − entitled_d)
    lent       = Σ max(0, entitled_d − used_d) over days without demand above use
    missed     = Σ max(0, entitled_d − used_d) over days on which jobs of its own waited
    unclear    = Σ max(0, entitled_d − used_d) over days on which it ran and no source reports whether jobs waited

so that entitled = used + lent + missed + unclear − borrowed, to the last bits. peers_used_d is the usage of the day of
all that compete with the entry, itself included: what there was to divide.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from datetime import date, timedelta

import numpy as np

from apps.analytics.series.storage.columns import DailySeries, Mask

AMOUNTS = ("entitled", "used", "lent", "missed", "unclear", "borrowed")


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums of a month, and the days they are of. n_before_first: of the counted, from before anything was published.

    target_first, target_last: on the first and the last counted day; None without any.
    """

    entitled: float
    used: float
    lent: float
    missed: float
    unclear: float
    borrowed: float
    n_days: int
    n_before_first: int
    n_unclear: int
    target_first: float | None
    target_last: float | None

    def to_json(self) -> dict[str, float | int | None]:
        return asdict(self)


FIELDS = tuple(field.name for field in fields(Figures))


@dataclass(frozen=True, slots=True)
class Month:
    """`first_on` is the first of the month."""

    first_on: date

    @property
    def last_on(self) -> date:
        return (self.first_on + timedelta(days=32)).replace(day=1) - timedelta(days=1)

    @property
    def n_days(self) -> int:
        return self.last_on.day

    @property
    def text(self) -> str:
        return f"{self.first_on:%Y-%m}"

    def before(self, n: int = 1) -> Month:
        index = self.first_on.year * 12 + self.first_on.month - 1 - n
        return Month(date(index // 12, index % 12 + 1, 1))

    def __contains__(self, on: date) -> bool:
        return self.first_on <= on <= self.last_on


def month_of(on: date) -> Month:
    return Month(on.replace(day=1))


def reckon(series: DailySeries, row: int, month: Month) -> Figures:
    """The statement of one entry of a series for the days of a month that are in it."""
    within = np.array([on in month for on in series.days.on], dtype=np.bool_)
    days = within & series.exists[row] & series.competes[row]
    used, target = series.used[row, days], series.target[row, days]
    entitled = target * series.peers_used[row, days]
    over = np.maximum(used - entitled, 0.0)
    under = np.maximum(entitled - used, 0.0)
    waited, knows = series.waited_core_s[row, days] > 0, series.knows_waiting[row, days]
    missed: Mask = waited
    unclear: Mask = ~waited & ~knows & (used > 0)
    return Figures(
        entitled=float(entitled.sum()),
        used=float(used.sum()),
        lent=float(under[~missed & ~unclear].sum()),
        missed=float(under[missed].sum()),
        unclear=float(under[unclear].sum()),
        borrowed=float(over.sum()),
        n_days=int(days.sum()),
        n_before_first=int((days & series.days.is_before_first).sum()),
        n_unclear=int(unclear.sum()),
        target_first=float(target[0]) if len(target) else None,
        target_last=float(target[-1]) if len(target) else None,
    )


def corrections_of(kept: dict[str, float], now: Figures) -> dict[str, float]:
    """What a statement that was closed would be otherwise now: new − kept, by amount; nothing where they agree."""
    found = {}
    for name in AMOUNTS:
        difference = getattr(now, name) - float(kept[name])
        if abs(difference) > 1e-9 * max(abs(float(kept[name])), 1.0):
            found[name] = difference
    return found
