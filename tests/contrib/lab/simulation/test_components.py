"""Components of the simulator's loop are those of the engine."""

from __future__ import annotations

import numpy as np
import pytest

from apps.contrib.lab.simulation import next_job
from apps.contrib.lab.simulation.sites import rule_of
from apps.engine import codecs
from apps.engine.operators import get_operator
from tests.engine.random_cases import RESOLUTIONS


@pytest.mark.parametrize(
    "name", ["absolute", "relative", "relative-3", "relative-1000", "sigmoid", "slurm", "combined"]
)
def test_the_loop_of_the_simulator_has_the_same_components(name: str) -> None:
    shares, usage = np.meshgrid(np.arange(1, 12), np.arange(12))
    target, actual = shares.ravel() / 40, usage.ravel() / 40
    target, actual = np.append(target, 1 / 3), np.append(actual, (1 / 3) * (1 + 2e-12))
    for resolution in RESOLUTIONS:
        rule = rule_of({"name": "aequus", "operator": name, "k": 0.5, "resolution": resolution}, coarse=0)
        found = [next_job.component(t, s, rule) for t, s in zip(target.tolist(), actual.tolist(), strict=True)]
        assert found == codecs.scalar(get_operator(name)(target, actual), resolution).tolist()
