"""Bands of a run beside a real Slurm: what they catch, and what no calibration could change."""

from __future__ import annotations

import pytest

from apps.contrib.starts.models import Outcome
from apps.contrib.starts.prediction.promises import FLOOR_S
from apps.contrib.starts.prediction.recent_waits import CONSTANT, RECENT
from tests.real_schedulers.start_rows import Promised, Row, outside_bands


def rows(outcome: Outcome, bound_s: float, n: int, *, is_learned: bool = True, age_s: float = 0.0) -> list[Row]:
    bounds_s = (bound_s, bound_s + 60, bound_s + 120)
    offers = tuple((base, bounds_s) for base in (CONSTANT, RECENT)[: 1 + is_learned])
    basis = RECENT if is_learned else CONSTANT
    promised = Promised(
        1, "1", "ann", "batch", 1.0, 60.0, 0.0, not age_s, 0.0, 1, age_s, basis, bounds_s, offers, None, None
    )
    return [Row(promised, (outcome,) * 3, (1, 1, 1), Outcome.OPEN, None, "", None, 10.0, True)] * n


@pytest.mark.parametrize("age_s", [0.0, 3_600.0])
@pytest.mark.parametrize(
    ("kept", "broken", "outside"),
    [
        (rows(Outcome.KEPT, 600.0, 120), 0, ["50%", "80%"]),  # never shorter
        (rows(Outcome.KEPT, 600.0, 97), 3, ["50%"]),
        (rows(Outcome.KEPT, 600.0, 20), 100, ["50%", "80%", "95%"]),  # never longer
        (rows(Outcome.KEPT, FLOOR_S, 20), 100, ["50%", "80%", "95%"]),
        (rows(Outcome.KEPT, FLOOR_S, 95), 19, []),  # of 5 minutes, as a run of 38 minutes had them
        (rows(Outcome.KEPT, FLOOR_S, 400) + rows(Outcome.KEPT, 600.0, 120), 0, ["50%", "80%"]),  # these hide nothing
        (rows(Outcome.KEPT, 600.0, 120, is_learned=False), 0, []),  # the hour with which all begin
        (rows(Outcome.KEPT_APART, 600.0, 200) + rows(Outcome.KEPT, 600.0, 99), 0, []),  # too few are settled
    ],
)
def test_bands_catch_a_calibration_that_learns_nothing(
    kept: list[Row], broken: int, outside: list[str], age_s: float
) -> None:
    run = [
        row._replace(promised=row.promised._replace(age_s=age_s))
        for row in kept + rows(Outcome.BROKEN, FLOOR_S, broken)
    ]
    assert [each.split(": ")[0] for each in outside_bands(run)] == [
        f"{'waiting' if age_s else 'at submit'}, {level}" for level in outside
    ]
