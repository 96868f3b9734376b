"""One step of a rule: what it changes, why, and by which numbers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class SharesEffect:
    """New shares of an entry."""

    entry_uid: UUID
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class AmountEffect:
    """Another amount of an allocation."""

    allocation_uid: UUID
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class CarryEffect:
    """A new allocation of the same entry and unit, made of the rest of one that ended."""

    allocation_uid: UUID
    carried_from: UUID
    starts_on: date
    ends_on: date
    amount: float
    unit: str


@dataclass(frozen=True, slots=True)
class LimitsEffect:
    """QOS and GrpTRESMins of an entry; both None: no limit any more."""

    entry_uid: UUID
    qos: str | None
    grp_tres_mins: tuple[tuple[str, int], ...] | None


@dataclass(frozen=True, slots=True)
class NotifyEffect:
    """A notice to those whom the entry concerns, from this percentage on; it changes nothing."""

    percent: float


Effect = SharesEffect | AmountEffect | CarryEffect | LimitsEffect | NotifyEffect


@dataclass(frozen=True, slots=True)
class Step:
    """What a rule does on one day.

    key: unique in the rule; what was done under it isn't done again. numbers: of the formula, by name, with it. level:
    of thresholds from 1, 0: re-armed; None for other kinds.
    """

    rule: str
    on: date
    key: str
    entry_uid: UUID
    path: str
    formula: str
    numbers: tuple[tuple[str, float], ...]
    effects: tuple[Effect, ...]
    allocation_uid: UUID | None = None
    level: int | None = None

    @property
    def changes(self) -> bool:
        """Whether it changes the policy, beyond a notice."""
        return any(not isinstance(effect, NotifyEffect) for effect in self.effects)

    @property
    def n_changed(self) -> int:
        """How many entries it changes."""
        changing = [effect for effect in self.effects if not isinstance(effect, NotifyEffect)]
        return len({getattr(effect, "entry_uid", self.entry_uid) for effect in changing})

    @property
    def reason(self) -> str:
        """For the history, which is read by more people than may see the numbers: those are in the step itself."""
        return f"{self.path}: {self.formula}"

    def number(self, name: str) -> float:
        return dict(self.numbers)[name]


def facts_of(step: Step) -> dict[str, Any]:
    """Numbers and shares before, as they are stored with a step."""
    shares = next((effect for effect in step.effects if isinstance(effect, SharesEffect)), None)
    notified = next((effect.percent for effect in step.effects if isinstance(effect, NotifyEffect)), None)
    changed = None if shares is None else {"before": shares.before, "after": shares.after}
    numbers = [list(each) for each in step.numbers]  # jsonb doesn't keep the order of keys
    return {"path": step.path, "formula": step.formula, "numbers": numbers, "shares": changed, "percent": notified}
