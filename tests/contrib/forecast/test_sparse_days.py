"""Groups that run on few days: their sentences are about the usage that was measured."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.models import Account, User
from tests.priority_site import AS_OF, NO_AGING, Site, build_series, children, finished
from tests.rest_site import Caller

HALVING = {"window": {"length_s": 7_776_000, "aging": "exponential", "half_life_s": 604_800}}


def _account(site: Site, days_ago: list[int], settings: dict[str, Any], *, by_series: bool) -> dict[str, Any]:
    """*My priority* of alice, who has three quarters of what physics used lately, and used more before."""
    site.publish(children(physics={"": 1, "alice": 1, "bob": 1}), settings, at=AS_OF - timedelta(days=60))
    site.map()
    hours = 2800.0 / len(days_ago)
    rows = [finished("alice", "physics", 90_000, ago_h=24 * 29, queue="old")]
    for ago in days_ago:
        rows.append(finished("alice", "physics", hours / 4, ago_h=1 + 24 * ago))
        rows.append(finished("bob", "physics", hours * 3 / 4, ago_h=1.5 + 24 * ago))
    site.jobs(rows)
    site.recompute()
    if by_series:
        build_series(site)
    user = User.objects.create_user("alice")
    Account.objects.filter(user_name="alice").update(person=user)
    (found,) = Caller(user=user).get("me/explain").json()["accounts"]
    return dict(found)


@pytest.mark.parametrize("by_series", [False, True], ids=["hours", "series"])
@pytest.mark.parametrize("settings", [HALVING, NO_AGING], ids=["halving", "kept"])
@pytest.mark.parametrize("days_ago", [list(range(0, 26, 2)), [1, 2, 8, 9, 15, 16, 22, 23], [14]], ids=len)
def test_a_group_that_ran_on_few_days_has_no_sentence_of_days_without_usage(
    make_site: Any, days_ago: list[int], settings: dict[str, Any], by_series: bool
) -> None:
    found = _account(make_site(), days_ago, settings, by_series=by_series)
    (when,) = found["when"]
    assert when["key"] in ("when.recovers_you", "when.recovers_between_you", "when.you_stop", "when.you_later")
    assert "decay" not in when["text"]


@pytest.mark.parametrize("settings", [HALVING, NO_AGING], ids=["halving", "kept"])
def test_days_without_any_usage_are_counted_and_decay_is_not_mentioned(
    make_site: Any, settings: dict[str, Any]
) -> None:
    found = _account(make_site(), [40], settings, by_series=True)
    (when,) = found["when"]
    assert when["key"] == "when.nobody_runs"
    assert when["values"]["n"] == 28
    assert when["values"]["at"] == "2026-11-20T00:00:00Z"
    assert "decay" not in when["text"]
