"""Every entry, day by day: what the series says is what a recompute as of the day's end divides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from apps.accounts.actor import COMMAND
from apps.engine.decay import Window
from apps.policies.models import Revision
from apps.policies.publishing.direct import publish_operations
from apps.policies.services import publish_document
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute import pipeline as assembly
from apps.priorities.request_evidence import Week
from apps.runs.services import work_run_now
from apps.series.convergence.selectors import list_weeks
from apps.series.daily_series import DailySeries
from apps.series.days import days_of, site_zone
from apps.series.inputs import first_at
from apps.series.models import Series
from apps.series.runs import build_series_stale, is_build_due
from apps.series.stored_series import load_against_today, load_children, load_series, series_state
from apps.series.usage_and_demand import window_sums_of
from apps.usage.services import NewSource, make_source
from tests.priority_site import AS_OF, NO_AGING, PROJECTS, WINDOW, Site, children
from tests.priority_site import build_series as build

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
TODAY = AS_OF.date()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.runs.services.BACK_OFF_S", 0.0)


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


def test_get_requests_build_nothing(grown: Site) -> None:
    state = series_state(grown.policy)
    assert (state.first_on, state.through_on, state.run) == (None, None, None)
    asked = build_series_stale(at=AS_OF)
    assert len(asked) == 1
    assert series_state(grown.policy).run == asked[0]
    work_run_now(asked[0])
    state = series_state(grown.policy)
    assert (state.first_on, state.through_on, state.stale_from_on) == (TODAY - 4 * DAY, TODAY - DAY, None)
    assert build_series_stale(at=AS_OF) == []


@pytest.mark.parametrize(
    "window",
    [
        {"length_s": None, "aging": "none"},
        {"length_s": None, "aging": "exponential", "half_life_s": 100_000},
        {"length_s": 200_000, "aging": "flux", "half_life_s": 60_000, "periods": 3},
        {
            "length_s": None,
            "aging": "exponential",
            "half_life_s": 100_000,
            "reset": "daily",
            "reset_zone": "Asia/Tokyo",
        },
        *(
            pytest.param(window, marks=pytest.mark.deep)
            for window in (
                {"length_s": None, "aging": "slurm", "half_life_s": 100_000},
                {"length_s": None, "aging": "gridengine", "halftime_h": 30},
                {"length_s": None, "aging": "lsf", "hist_hours": 30},
                {"length_s": None, "aging": "step", "granularity_s": 40_000, "factor": 0.7},
                {"length_s": None, "aging": "pbs", "decay_time_s": 50_000, "decay_factor": 0.6},
                {"length_s": 130_000, "aging": "linear"},
                {"length_s": 1_800, "aging": "none"},
                {"length_s": 300_000, "aging": "exponential", "half_life_s": 100_000, "reset": "weekly"},
                {"length_s": None, "aging": "none", "reset": "monthly", "reset_zone": "America/New_York"},
            )
        ),
    ],
    ids=lambda window: f"{window['aging']}-{window['length_s']}-{window.get('reset')}",
)
def test_a_day_equals_a_recompute_for_any_window(grown: Site, window: dict[str, Any]) -> None:
    publish(grown, PROJECTS, {"window": window}, AS_OF - 9 * DAY)
    build(grown)
    assert agrees_with_recomputes(grown) == 9  # from when its shares were published


def test_each_day_uses_the_revision_of_that_day(grown: Site) -> None:
    """Three revisions; the last one is built as its own recomputes have it, the others as theirs were."""
    grown.job("bob", "physics", 2, ago_h=30, queue="fast")
    metric = {"weights": {"cpu_s": 2.0}, "class_factors": [{"queue": "fast", "factor": 3.0}]}
    publish(grown, children(physics={"": 1, "alice": 1}, biology={"": 3, "carol": 1}), WINDOW, AS_OF - 3 * DAY)
    publish(grown, PROJECTS, {**NO_AGING, "metric": metric}, AS_OF - 2 * DAY)
    build(grown)
    series = read(grown, "/physics", "/physics/bob")
    assert series.days.revision.tolist() == [2, 3, 4, 4]
    assert series.days.is_before_first.tolist() == [True, False, False, False]
    assert series.target[0].tolist()[1:] == [0.25, 0.6, 0.6]
    assert series.exists[1].tolist()[1:] == [False, True, True]
    assert series.used[1].tolist()[2:] == [2 * 7 * 3600, 2 * 3 * 2 * 3600]
    assert agrees_with_recomputes(grown) == 2


def test_inheriting_entries_and_two_scopes_agree_with_a_recompute(make_site: Callable[..., Site]) -> None:
    site = make_site()
    peer = make_source(NewSource(slug="peer", name="peer", namespace="c1", origin="elsewhere"), at=AS_OF, actor=COMMAND)
    tree = children(physics={"": 60, "alice": 1, "bob": 1}, biology={"": 40, "carol": 3, "dan": 1})
    tree[0]["scope"] = "global"
    tree[1]["shares"] = "parent"
    tree[1]["children"][1]["shares"] = "parent"
    site.publish(tree, WINDOW)
    site.map()
    for ago_h in (30.5, 55, 80):
        site.job("alice", "physics", 3, ago_h=ago_h)
        site.job("bob", "physics", 8, ago_h=ago_h, source=peer)
        site.job("carol", "biology", 2, ago_h=ago_h)
        site.job("dan", "biology", 4, ago_h=ago_h)
        site.job("gone", "biology", 1, ago_h=ago_h)
    build(site)
    assert agrees_with_recomputes(site) == 3
    series = read(site, "/physics", "/physics/bob", "/biology", "/biology/carol")
    assert not series.competes[2].any()
    assert series.used[0].tolist() == [3 * 3 * 3600 / 3] * 3  # compared by this site's own sources
    assert series.used[1].tolist() == [8 * 3600] * 3  # compared by global usage
    assert series.peers_used[0].tolist() == (series.used[0] + series.used[3]).tolist()


def test_adjustments_change_actual_shares_but_not_raw_usage(grown: Site) -> None:
    build(grown)
    plain = read(grown, "/physics")
    operation = {
        "op": "adjust_usage",
        "entry": "/physics",
        "resource": "cpu_s",
        "amount_s": -7200.0,
        "at": (AS_OF - 3 * DAY).isoformat(),
    }
    publish_operations(
        policy_slug=grown.slug, operations=[operation], reason="A node failed.", at=AS_OF - 3.4 * DAY, actor=COMMAND
    )
    grown.policy.refresh_from_db()
    build(grown)
    series = read(grown, "/physics")
    assert series.used.tolist() == plain.used.tolist()
    assert (series.decayed < plain.decayed).tolist() == [[False, True, True, True]]
    assert agrees_with_recomputes(grown) == 3


MOUNTED = [
    {"name": "vo", "kind": "vo", "shares": 45, "children": children(p1={"": 1, "ann": 1, "bert": 1})},
    *children(own={"": 55, "carol": 1}),
]


@pytest.fixture
def mounted(make_site: Callable[..., Site]) -> Site:
    """Usage of four days; an entry below which a mount came today, with the mapping of its members."""
    made = make_site(at=AS_OF - 3 * DAY)
    publish(made, [{"name": "vo", "kind": "vo", "shares": 45}, MOUNTED[1]], NO_AGING, AS_OF - 3 * DAY)
    publish(made, MOUNTED, NO_AGING, AS_OF - DAY / 4)
    made.map(made.rule("/vo/p1", suffix="/{user}", group_pattern="p1"), made.rule())
    for ago_d in range(4):
        made.job("ann", "p1", 2, ago_h=2 + 24 * ago_d)
        made.job("bert", "p1", 4, ago_h=2 + 24 * ago_d)
        made.job("carol", "own", 4, ago_h=2 + 24 * ago_d)
    return made


def test_usage_before_a_mount_counts_at_the_nearest_existing_entry(mounted: Site) -> None:
    build(mounted)
    series = read(mounted, "/vo", "/own", "/vo/p1")
    assert series.days.on == tuple(TODAY - n * DAY for n in (3, 2, 1))
    assert (series.used[0] / series.peers_used[0]).tolist() == [0.6] * 3
    assert (series.decayed[0] / series.peers_decayed[0]).tolist() == pytest.approx([0.6] * 3)
    assert not series.exists[2].any()
    assert not series.used[2].any()


def test_an_account_directly_below_the_root_is_unmapped_before_its_entry(make_site: Callable[..., Site]) -> None:
    made = make_site(at=AS_OF - 3 * DAY)
    publish(made, MOUNTED[1:], NO_AGING, AS_OF - 3 * DAY)
    publish(made, MOUNTED, NO_AGING, AS_OF - DAY / 4)
    made.map(made.rule("/vo/p1", suffix="/{user}", group_pattern="p1"), made.rule())
    made.job("ann", "p1", 2, ago_h=26)
    made.job("carol", "own", 4, ago_h=26)
    build(made)
    series = read(made, "/vo", "/own")
    assert series.days.root_used.tolist()[-1] == 4 * 3600
    assert not series.exists[0].any()


def test_mapping_unmapped_accounts_rebuilds_all_days(mounted: Site) -> None:
    mounted.job("dora", "p2", 8, ago_h=50)
    mounted.map(mounted.rule("/vo/p1", suffix="/{user}", group_pattern="p1"))
    build(mounted)
    assert series_state(mounted.policy).stale_from_on is None
    publish(mounted, [*MOUNTED, *children(x={"": 1, "y": 1})], NO_AGING, AS_OF)
    assert series_state(mounted.policy).stale_from_on is None  # that mapped no account
    members = {"op": "set_members", "entry": "/vo/p1", "members": [{"group": "p2", "shares": 1}]}
    publish_operations(policy_slug="grid", operations=[members], reason="x", at=AS_OF, actor=COMMAND)
    mounted.policy.refresh_from_db()
    assert series_state(mounted.policy).stale_from_on == TODAY - 3 * DAY
    build(mounted)
    assert read(mounted, "/vo").used[0].tolist() == [6 * 3600, 14 * 3600, 6 * 3600]


def test_a_policy_without_usage_begins_with_its_first_shares_else_with_its_first_revision(
    make_site: Callable[..., Site],
) -> None:
    made = make_site()
    (founded_at,) = Revision.objects.filter(policy=made.policy).values_list("published_at", flat=True)
    assert first_at(made.policy) == founded_at
    publish(made, PROJECTS, NO_AGING, AS_OF - 9 * DAY)
    publish(made, children(physics={"alice": 2}), NO_AGING, AS_OF - 7 * DAY)
    assert first_at(made.policy) == AS_OF - 9 * DAY
    made.job("alice", "physics", 1, ago_h=10 * 24)
    assert first_at(made.policy) < AS_OF - 9 * DAY


def test_without_built_days_nothing_is_compared_with_today(make_site: Callable[..., Site]) -> None:
    made = make_site()
    made.publish(PROJECTS, NO_AGING)
    series = load_against_today(made.policy, [uid(made, "/physics")], from_on=TODAY - 5 * DAY, to_on=TODAY)
    assert (series.days.on, series.used.shape) == ((), (1, 0))


def test_sums_without_a_day_carry_nothing_over() -> None:
    sums = window_sums_of(Window(), 3, lambda days: ())
    assert list(sums.carried()) == []


def test_progress_of_a_build_is_none_without_one_and_0_before_it_begins(grown: Site) -> None:
    assert series_state(grown.policy).progress is None
    build_series_stale(at=AS_OF)
    state = series_state(grown.policy)
    assert state.run is not None
    assert state.progress == 0.0


def test_weeks_of_a_request_have_the_shares_and_states_of_their_days(make_site: Callable[..., Site]) -> None:
    """Of what was used until then: physics all of 4, then 4 of 16 core-hours; chemistry nothing."""
    made = make_site()
    entries = children(physics={"": 60, "alice": 1}, biology={"": 30, "carol": 1}, chemistry={"": 10, "dan": 1})
    publish(made, entries, NO_AGING, AS_OF - 40 * DAY)
    made.map()
    made.job("alice", "physics", 4, ago_h=29 * 24)
    made.job("carol", "biology", 12, ago_h=20 * 24)
    build(made)

    def weeks(path: str) -> list[tuple[int, float | None, float | None, str]]:
        now = Week(AS_OF, 0.5, 0.5, "on")
        evidence: Any = SimpleNamespace(
            entry=SimpleNamespace(uid=uid(made, path)), now=now, change_set=SimpleNamespace(policy=made.policy)
        )
        listed = list_weeks(evidence, actor=COMMAND)
        assert listed[-1] is now
        return [(round((AS_OF - week.as_of) / (7 * DAY)), week.target, week.actual, week.state) for week in listed[:-1]]

    assert weeks("/physics") == [
        (4, 0.6, 1.0, "over"),
        (3, 0.6, 1.0, "over"),
        (2, 0.6, 0.25, "under"),
        (1, 0.6, 0.25, "under"),
    ]
    assert {(target, actual, state) for _weeks, target, actual, state in weeks("/chemistry")} == {(0.1, 0.0, "idle")}


def test_a_window_without_a_day_has_no_usage() -> None:
    (day,) = days_of(TODAY, TODAY, site_zone())
    for window in (Window(), Window(length_s=2 * 86_400), Window(length_s=2 * 86_400, aging="linear")):
        assert window_sums_of(window, 3, lambda days: ()).total_at_end(day).tolist() == [0.0, 0.0, 0.0]


def test_a_build_is_due_while_days_wait_to_be_built_again(grown: Site) -> None:
    build(grown)
    assert not is_build_due(grown.policy, at=AS_OF)
    Series.objects.filter(policy=grown.policy).update(redo_from_on=TODAY - 2 * DAY)
    assert is_build_due(grown.policy, at=AS_OF)
