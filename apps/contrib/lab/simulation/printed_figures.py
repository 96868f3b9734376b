"""Figures 5 to 14 of the grid-wide paper: the shares that it prints for a group at the end, and the shipped scenario.

Documents, tests and pages compare what they simulate with these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_A, _B, _USERS = "/VO-A", "/VO-B", "/VO-B/P-B1"
_HISTORICAL, _ACTIVE, _PREDICTIVE = "converge-historical", "converge-active", "converge-predictive"


@dataclass(frozen=True, slots=True)
class PrintedFigure:
    """published: percent of the group at 72 h, by path of the member. tolerance: points that a simulation with another
    generator of random numbers may be off.
    """

    number: int
    scenario: str
    group: str
    published: Mapping[str, float]
    tolerance: float


def _of(group: str, **shares: float) -> Mapping[str, float]:
    return {f"{group.rstrip('/')}/{name.replace('_', '-')}": share for name, share in shares.items()}


_TARGETS_A = _of(_A, P_A1=50.0, P_A2=30.0, P_A3=20.0)
_TARGETS_B = _of(_B, P_B1=60.0, P_B2=40.0)
_TARGETS_USERS = _of(_USERS, U_B11=50.0, U_B12=30.0, U_B13=20.0)
PRINTED_FIGURES: Sequence[PrintedFigure] = (
    PrintedFigure(5, _HISTORICAL, "/", _of("/", VO_A=30.0, VO_B=70.0), 0.5),
    PrintedFigure(6, _HISTORICAL, _A, _TARGETS_A, 1.0),
    PrintedFigure(7, _HISTORICAL, _B, _TARGETS_B, 1.0),
    PrintedFigure(8, _HISTORICAL, _USERS, _TARGETS_USERS, 2.0),
    PrintedFigure(9, _ACTIVE, _USERS, _TARGETS_USERS, 1.0),
    PrintedFigure(10, _PREDICTIVE, _USERS, _TARGETS_USERS, 0.5),
    PrintedFigure(11, "imbalanced-local", _A, _of(_A, P_A1=75.0, P_A2=15.0, P_A3=10.0), 1.0),
    PrintedFigure(12, "imbalanced-global-predictive", _A, _TARGETS_A, 1.0),
    PrintedFigure(13, "idle-U-B12", _USERS, _of(_USERS, U_B11=65.0, U_B12=0.0, U_B13=35.0), 1.0),
    PrintedFigure(14, "idle-U-B12", _B, _TARGETS_B, 0.5),
)


def printed_figure(number: int) -> PrintedFigure:
    return next(figure for figure in PRINTED_FIGURES if figure.number == number)


def figures_of_scenario(name: str) -> list[PrintedFigure]:
    return [figure for figure in PRINTED_FIGURES if figure.scenario == name]
