"""The sweep beyond the operators paper: what is varied changes the simulation, and the stored rows are its results."""

from __future__ import annotations

from itertools import pairwise

import pytest

from apps.contrib.lab.simulation import simulate
from apps.engine import codecs
from docsite.papers import records, sweep
from docsite.papers.records import SweepRow

Setting = tuple[str, str, str, str]


def stored(setting: Setting) -> SweepRow:
    names = ("shape", "noise", "resolution", "operator")
    (row,) = (row for row in records.load()["sweep"] if tuple(row[name] for name in names) == setting)  # type: ignore[literal-required]
    return row


@pytest.mark.paper("A3")
@pytest.mark.parametrize("noise", sweep.NOISE)
@pytest.mark.parametrize("shape", ["flat", "figure 1"])
def test_trees_and_noise_of_the_sweep_give_their_stored_rows(shape: str, noise: str) -> None:
    setting = (shape, noise, "exact", "absolute")
    assert sweep.run(setting) == stored(setting)


@pytest.mark.paper("A3")
def test_noise_is_usage_that_is_late_and_jobs_that_are_lost() -> None:
    none, late, lost = (sweep.scenario("figure 1", noise, "exact", "relative") for noise in sweep.NOISE)
    assert [each["noise"] for each in (none, late, lost)] == [{}, {"usage_delay_s": 600}, {"loss": 0.05}]
    results = [simulate(each, seed=1)["rms_points"] for each in (none, late, lost)]
    assert all(one != other for one, other in pairwise([*results, results[0]]))


@pytest.mark.paper("A5")
@pytest.mark.parametrize("resolution", sweep.RESOLUTIONS)
def test_resolutions_of_the_sweep_give_their_stored_rows(resolution: str) -> None:
    assert set(sweep.RESOLUTIONS.values()) == {8, 100, 10_000, codecs.MAX_RESOLUTION}
    setting = ("flat", "none", resolution, "relative")
    assert sweep.run(setting) == stored(setting)
