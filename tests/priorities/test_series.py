"""Every entry, day by day: what the series says is what a recompute as of the day's end divides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from apps.accounts.actor import COMMAND
from apps.policies.services import publish_document
from apps.policies.trees import load_tree
from apps.priorities import assembly
from apps.priorities.series.columns import DailySeries
from apps.priorities.series.reading import load_children, load_series, series_state
from apps.priorities.series.runs import ask_for_series, build_series_stale
from apps.runs.services import work_run_now
from tests.priorities.conftest import AS_OF, PROJECTS, Site

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
TODAY = AS_OF.date()
WINDOW = {"window": {"length_s": 3 * 86_400, "aging": "exponential", "half_life_s": 86_400}}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.runs.services.BACK_OFF_S", 0.0)


def build(site: Site, at: datetime = AS_OF) -> dict[str, Any]:
    done = work_run_now(ask_for_series(site.policy, at=at).pk)
    assert done.state == "succeeded", done.error
    result: dict[str, Any] = done.result
    return result


def read(site: Site, *paths: str) -> DailySeries:
    return load_series(site.policy, [uid(site, path) for path in paths], from_on=TODAY - 40 * DAY, to_on=TODAY)


def uid(site: Site, path: str) -> UUID:
    tree = load_tree(site.policy)
    at = tree.index_of_path(path)
    assert at is not None
    return tree.uuid(at)


def publish(site: Site, entries: Sequence[dict[str, Any]], settings: dict[str, Any], at: datetime) -> None:
    document = {"policy": site.slug, "settings": settings, "root": {"name": site.slug, "children": list(entries)}}
    publish_document(policy_slug=site.slug, document=document, reason="test", at=at, actor=COMMAND)
    site.policy.refresh_from_db()


def agrees_with_recomputes(site: Site) -> int:
    """Compare each day of the head's revision with what a recompute as of its end makes of it; how many days."""
    tree = load_tree(site.policy)
    uids = [tree.uuid(i) for i in range(len(tree))]
    series = load_series(site.policy, uids, from_on=TODAY - 40 * DAY, to_on=TODAY)
    n = 0
    for at, end_s in enumerate(series.days.ends_s.tolist()):
        if series.days.revision[at] != site.policy.head_number:
            continue
        result = assembly.compute(assembly.load_inputs(site.policy, as_of=datetime.fromtimestamp(end_s, UTC))).result
        np.testing.assert_allclose(series.decayed[:, at], result.usage, rtol=1e-12, atol=0)
        peers = series.peers_decayed[1:, at]
        actual = np.divide(series.decayed[1:, at], peers, out=np.zeros(len(peers)), where=peers > 0)
        np.testing.assert_allclose(actual, result.actual[1:], rtol=1e-12, atol=0)
        np.testing.assert_allclose(series.days.root_decayed[at], result.group_usage[0], rtol=1e-12)
        np.testing.assert_array_equal(series.target[1:, at], result.target[1:])
        np.testing.assert_array_equal(series.target_global[1:, at], result.target_global[1:])
        np.testing.assert_array_equal(series.competes[:, at], result.competes)
        n += 1
    return n


@pytest.fixture
def grown(make_site: Callable[..., Site]) -> Site:
    """Five days of usage, the last of them today, and a window of three days."""
    made = make_site()
    made.publish(PROJECTS, WINDOW)
    made.map()
    for ago_d in range(5):
        made.job("alice", "physics", 4 + ago_d, ago_h=1.5 + 24 * ago_d)
        made.job("carol", "biology", 3, ago_h=5.25 + 24 * ago_d)
    made.job("bob", "physics", 7, ago_h=50)
    return made


def test_a_series_has_every_day_from_the_first_usage_to_yesterday(grown: Site) -> None:
    build(grown)
    series = read(grown, "/physics", "/physics/alice", "/physics/bob", "/biology")
    assert series.days.on == tuple(TODAY - n * DAY for n in (4, 3, 2, 1))
    assert series.days.is_before_first.all()
    assert (series.days.revision == 2).all()  # the first one is an empty tree
    assert series.used[1].tolist() == [8 * 3600, 7 * 3600, 6 * 3600, 5 * 3600]
    assert series.used[2].tolist() == [0, 0, 7 * 3600, 0]
    assert series.used[0].tolist() == (series.used[1] + series.used[2]).tolist()
    assert series.peers_used[0].tolist() == (series.used[0] + series.used[3]).tolist()
    assert series.days.root_used.tolist() == series.peers_used[0].tolist()
    assert series.n_active[0].tolist() == [1, 1, 2, 1]
    assert series.largest[0].tolist() == [8 * 3600, 7 * 3600, 7 * 3600, 5 * 3600]
    assert series.target[0].tolist() == [0.6] * 4
    assert agrees_with_recomputes(grown) == 4


def test_children_are_those_of_any_of_the_days(grown: Site) -> None:
    build(grown)
    found = load_children(grown.policy, uid(grown, "/physics"), from_on=TODAY - 40 * DAY, to_on=TODAY)
    assert found.uids == (uid(grown, "/physics/alice"), uid(grown, "/physics/bob"))
    nothing = load_children(grown.policy, uid(grown, "/physics"), from_on=TODAY + DAY, to_on=TODAY + 2 * DAY)
    assert nothing.uids == ()
    assert nothing.used.shape == (0, 0)


def test_nothing_is_built_by_looking(grown: Site) -> None:
    state = series_state(grown.policy)
    assert (state.first_on, state.through_on, state.run_id) == (None, None, None)
    asked = build_series_stale(at=AS_OF)
    assert len(asked) == 1
    assert series_state(grown.policy).run_id == asked[0]
    work_run_now(asked[0])
    state = series_state(grown.policy)
    assert (state.first_on, state.through_on, state.stale_from_on) == (TODAY - 4 * DAY, TODAY - DAY, None)
    assert build_series_stale(at=AS_OF) == []
