"""The factor of a leaf once one of its levels is on target, against a recompute with that usage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from apps.contrib.forecast.selectors import at_target_messages
from tests.examples import examples
from tests.explain.sentence_world import SentenceWorld, snapshot_of, worlds


@pytest.mark.parametrize("name", ["slurm-classic", "slurm-depth-oblivious"])
@examples(20, fixed=4)
@given(world=worlds())
def test_the_factor_at_target_equals_a_recompute(name: str, world: Any) -> None:
    root, usage = world
    snapshot = snapshot_of(root, usage, {"name": name})
    assert snapshot is not None
    found = SentenceWorld(snapshot)
    for leaf in found.leaves:
        for step in found.mine(leaf).walk:
            for result in at_target_messages(snapshot, found.at(leaf), found.at(step.path)):
                own, whole = _usage_in_group(found, step.path)
                assert step.target is not None
                wanted = step.target * (whole - own) / (1 - step.target)
                below = {
                    path: used * wanted / own for path, used in usage.items() if f"{path}/".startswith(f"{step.path}/")
                }
                again = snapshot_of(root, {**usage, **below}, {"name": name})
                assert again is not None
                assert result.values["other_factor"] == found.factor(leaf)
                assert result.values["factor"] == pytest.approx(SentenceWorld(again).factor(leaf), rel=1e-9)


def _usage_in_group(found: SentenceWorld, path: str) -> tuple[float, float]:
    values = found.snapshot.values
    others = [found.at(each) for each in found.competitors(path)]
    own = float(values.usage[found.at(path)])
    return own, own + float(np.sum(values.usage[others]))
