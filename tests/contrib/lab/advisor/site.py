"""A site whose history an advisor can learn from: weeks of jobs of four people in two projects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.lab.advisor.runs import KIND, request_advice
from apps.contrib.lab.comparison import replay, replayed_settings
from apps.runs.models import Run
from apps.runs.services import work_run_now
from tests.priority_site import AS_OF, PROJECTS, Site, finished, new_site
from tests.series.test_series import DAY

SETTINGS: Mapping[str, Any] = {
    "algorithm": {"name": "aequus", "operator": "relative", "resolution": 10_000},
    "window": {"length_s": 90 * 86_400, "aging": "exponential", "half_life_s": 7 * 86_400},
}
N_DAYS = 15
PEOPLE = (("alice", "physics"), ("bob", "physics"), ("carol", "biology"), ("dan", "biology"))


def site_with_history(
    make_site: Callable[..., Site], *, n_days: int = N_DAYS, settings: Mapping[str, Any] = SETTINGS
) -> Site:
    """Bursts of one or two people each day, more than the machine of a replay can run at once."""
    made = make_site(at=AS_OF - (n_days + 3) * DAY)
    made.publish(PROJECTS, dict(settings), at=AS_OF - (n_days + 2) * DAY)
    made.map(at=AS_OF - (n_days + 2) * DAY)
    random = np.random.default_rng(1)
    rows = []
    for ago_d in range(1, n_days + 1):
        for number, (user, group) in enumerate(PEOPLE):
            for job in range(int(random.integers(1, 8)) if (ago_d + number) % 3 else 0):
                ago_h = 24.0 * ago_d + float(random.random() * 20)
                cpus = int(random.integers(1, 4))
                rows.append(finished(user, group, cpus, ago_h=ago_h, job=f"{user}-{ago_d}-{job}"))
    made.jobs(rows)
    return made


def make_history_site() -> Site:
    made = site_with_history(new_site)
    made.recompute()
    return made


def make_advised_site() -> Site:
    made = make_history_site()
    with pytest.MonkeyPatch.context() as patch:
        measure_little(patch)
        assert computed_advice(made).state == "succeeded"
    return made


def measure_little(patch: pytest.MonkeyPatch) -> None:
    """Two replays, recomputed every four hours, of two half-lives besides the policy's own, for speed; what is measured
    is the same.
    """
    patch.setattr(replay, "STEP_S", 4 * 3_600.0)
    patch.setattr(replayed_settings, "N_REPLAYS", 2)
    patch.setattr(replayed_settings, "HALF_LIVES_S", (86_400, 14 * 86_400))


def computed_advice(site: Site) -> Run:
    run = request_advice(policy_slug=site.slug, at=AS_OF, actor=COMMAND)
    assert run.kind == KIND
    return work_run_now(run.pk)
