"""What an algorithm declares about its own explanation: how its levels make an order, so that sentences stay true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from apps.engine.errors import BadParameter

Kind = Literal["levels", "ratio", "number"]


@dataclass(frozen=True)
class Explanation:
    """How levels combine, and in which columns of the result the numbers of each level are.

    kind:
        `levels`: siblings are compared by one component; between two entries the first level that differs decides.
        `ratio`: one number of the whole path, F = 2^(−R / damping_factor) with R = used / due at each level; R of
        the root is 1. The decisive level is the one with the largest change of log2 F.
        `number`: one number of the whole path; single levels have no part of their own.

    component: the column that siblings are compared by; "" for the priority, or the scalar where there is a
    resolution. used, due: columns of UE and S, for `ratio`. own_ratio, exponent: columns of r_l and k where an
    entry's own ratio is raised to a power; "" where it isn't.
    """

    kind: Kind
    component: str = ""
    used: str = ""
    due: str = ""
    own_ratio: str = ""
    exponent: str = ""

    def __post_init__(self) -> None:
        if self.kind == "ratio" and not (self.used and self.due):
            raise BadParameter("an explanation by ratio names the columns used and due", place="explanation")


LEVELS = Explanation("levels")
NUMBER = Explanation("number")
