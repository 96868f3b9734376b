"""Records of shadow mode, for figures and pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class AgreementPoint:
    """Agreement at one time.

    compared: number of users known to both. kendall (tau-b), spearman: −1..1; top_overlap: 0..1, of the first tenth;
    None where undefined.
    """

    at: datetime
    compared: int
    kendall: float | None
    spearman: float | None
    top_overlap: float | None


@dataclass(frozen=True)
class AgreementDays:
    """Agreement of a scheduler with its policy over some days, oldest first."""

    scheduler: str
    policy: str
    points: Sequence[AgreementPoint]
