"""How far a scheduler's own values agree with ours: against slow twins, and stored once per instant."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.schedulers.agreement import agreement_of
from apps.contrib.schedulers.models import Agreement, Scheduler
from apps.contrib.schedulers.own_values import PARENT, load_values
from tests.contrib.schedulers.reports import report
from tests.rest_site import Caller, refused

NUMBERS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30)


def tau_b(pairs: list[tuple[int, int]]) -> float | None:
    """By its definition: every pair, one by one."""
    score = n_x = n_y = 0
    for (a, b), (c, d) in combinations(pairs, 2):
        score += int(np.sign(a - c) * np.sign(b - d))
        n_x += a != c
        n_y += b != d
    return None if not n_x or not n_y else score / (n_x * n_y) ** 0.5


def rho(pairs: list[tuple[int, int]]) -> float | None:
    def ranks(values: list[int]) -> list[float]:
        return [sum(other < one for other in values) + (values.count(one) + 1) / 2 for one in values]

    x, y = (ranks(list(side)) for side in zip(*pairs, strict=True))
    if len(set(x)) == 1 or len(set(y)) == 1:
        return None
    return float(np.corrcoef(x, y)[0, 1])


@given(NUMBERS)
def test_correlations_equal_their_definitions_with_ties(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(side, np.float64) for side in zip(*pairs, strict=True))
    tau, spearman, overlap = agreement_of(x, y)
    wanted = tau_b(pairs)
    assert (tau is None) == (wanted is None)
    assert tau is None or tau == pytest.approx(wanted, abs=1e-12)
    wanted = rho(pairs)
    assert (spearman is None) == (wanted is None)
    assert spearman is None or spearman == pytest.approx(wanted, abs=1e-9)
    assert overlap is not None
    assert 0 <= overlap <= 1


def test_fewer_than_two_values_are_not_compared() -> None:
    assert agreement_of(np.zeros(1), np.zeros(1)) == (None, None, None)


@pytest.mark.django_db
def test_the_latest_values_and_one_agreement_per_instant_are_stored(agent: Caller) -> None:
    def of(user: str | None, group: str, fairshare: float) -> dict[str, object]:
        return {"cluster": "c1", "group": group, "user": user, "raw_shares": "parent", "norm_shares": 0.1,
                "raw_usage": 1, "effective_usage": 0.2, "fairshare": fairshare, "level_fs": "Infinity"}  # fmt: skip

    values = [of(None, "physics", 1), of("alice", "physics", 0.1), of("bob", "physics", 0.9), of("eve", "no", 0.5)]
    for _twice in range(2):
        assert agent.post("schedulers/c1/passes", report(values=values)).status_code == 200
    (found,) = Agreement.objects.all()
    assert (found.compared, found.kendall, found.spearman, found.top_overlap) == (2, 1.0, 1.0, 1.0)
    kept = load_values(Scheduler.objects.get(name="c1").pk)
    assert [one.user for one in kept] == ["", "alice", "bob", "eve"]
    assert (kept[1].raw_shares, kept[1].level_fs) == (PARENT, float("inf"))
    wrong = agent.post("schedulers/c1/passes", report(values=[{**values[0], "fairshare": "much"}]))
    assert refused(wrong)[2] == ["values[0].fairshare"]
