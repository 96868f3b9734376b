"""What figures and pages of shadow mode are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class AgreementPoint:
    """One instant. compared: users that both know. kendall (tau-b), spearman: -1..1, top_overlap: 0..1, of the first
    tenth; None where not defined.
    """

    at: datetime
    compared: int
    kendall: float | None
    spearman: float | None
    top_overlap: float | None


@dataclass(frozen=True)
class AgreementDays:
    """Oldest first."""

    scheduler: str
    policy: str
    points: Sequence[AgreementPoint]
