"""Suppositions tried out by the engine itself: against what then really is recomputed, and absurd ones refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.contrib.forecast.what_if import Scenario, ScenarioResult, read_scenario, run_my_scenario, run_scenario
from apps.contrib.forecast.what_if.totals import DAYS_AHEAD
from apps.core.errors import Invalid, Malformed, NotFound, TooOften
from apps.policies.operations.apply import tree_after
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot
from apps.priorities.recompute.pipeline import compute, load_inputs
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from tests.priority_site import AS_OF, PROJECTS, Site, children
from tests.worlds import forget_process

FADING = {"window": {"length_s": 60 * 86_400, "aging": "exponential", "half_life_s": 3 * 86_400}}
USERS = (("alice", "physics", 2), ("bob", "physics", 4), ("carol", "biology", 3), ("dan", "biology", 1))


@pytest.fixture(autouse=True)
def _uncounted() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def _run(site: Site, from_days: float, to_days: float, **cpus: float) -> None:
    """A steady use between two instants in days from now; `cpus` instead of the usual ones, 0 for none."""
    start_at, end_at = AS_OF + timedelta(days=from_days), AS_OF + timedelta(days=to_days)
    for user, group, usual in USERS:
        if cpus.get(user, usual):
            site.job(
                user,
                group,
                cpus.get(user, usual),
                ago_h=-to_days * 24,
                start_at=start_at,
                submit_at=start_at,
                end_at=end_at,
            )


@pytest.fixture
def steady(make_site: Any) -> Site:
    site: Site = make_site()
    site.publish(PROJECTS, FADING)
    site.map()
    _run(site, -14, 0)
    site.recompute()
    store.poll()
    return site


def _try(site: Site, account: str = "alice", **asked: Any) -> ScenarioResult:
    return run_scenario(
        policy_slug=site.slug, account=AccountQuery(account), scenario=Scenario(**asked), actor=COMMAND, at=AS_OF
    )


def _recomputed(site: Site, account: str, tree: Any = None) -> tuple[int, float]:
    inputs = load_inputs(site.policy, as_of=AS_OF + timedelta(days=DAYS_AHEAD))
    result = compute(inputs).result
    i = next(i for i in range(len(inputs.tree)) if inputs.tree.name[i] == account)
    return int(result.rank[i]), float(result.factor[i])


def test_continuing_as_before_agrees_with_the_prediction(steady: Site) -> None:
    found = _try(steady)
    _run(steady, 0, 7)
    assert found.without.then.rank is not None
    assert (found.without.then.rank[0], found.without.then.factor) == _recomputed(steady, "alice")
    assert found.without.then == found.changed.then
    assert found.basis == "last_days"


def test_running_much_more_agrees_with_the_prediction(steady: Site) -> None:
    found = _try(steady, core_h=2000.0, days=4.0)
    _run(steady, 0, 4, alice=2000 / (4 * 24))
    _run(steady, 4, 7)
    assert found.changed.then.rank is not None
    assert (found.changed.then.rank[0], found.changed.then.factor) == _recomputed(steady, "alice")
    assert found.without.then.rank is not None
    assert found.changed.then.rank[0] > found.without.then.rank[0]
    assert found.without.now == found.changed.now


def test_a_group_that_stops_agrees_with_the_prediction(steady: Site) -> None:
    found = _try(steady, account="dan", load=0.0)
    _run(steady, 0, 7, carol=0, dan=0)
    assert found.changed.then.rank is not None
    assert (found.changed.then.rank[0], found.changed.then.factor) == _recomputed(steady, "dan")


def test_another_target_agrees_with_a_recompute_of_that_tree(steady: Site) -> None:
    found = _try(steady, level="/physics", target=0.05)
    snapshot = store.newest(steady.slug)
    after = tree_after(
        load_tree(steady.policy), [{"op": "set_shares", "entry": "/physics", "shares": 40 * 0.05 / 0.95}]
    )
    inputs = load_inputs(steady.policy, as_of=snapshot.as_of)
    result = compute(replace(inputs, tree=after)).result
    i = after.index_of_path("/physics/alice") or 0
    assert found.changed.now.rank == (int(result.rank[i]), int(result.rank[i]))
    assert found.without.now.rank is not None
    assert found.changed.now.rank is not None
    assert found.changed.now.rank[0] > found.without.now.rank[0]


def test_with_too_many_hours_all_entries_keep_their_weighted_pace(
    steady: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.contrib.forecast.what_if.totals.load_snapshot_inputs", lambda *_: None)
    forget_process()
    found = _try(steady, core_h=5000.0, days=7.0)
    assert found.basis == "present_usage"
    assert found.without.then == found.without.now
    assert found.changed.then.rank is not None
    assert found.without.now.rank is not None
    assert found.changed.then.rank[0] > found.without.now.rank[0]


def test_running_less_brings_balance_back_earlier_and_a_higher_target_too(make_site: Any) -> None:
    site: Site = make_site()
    site.publish(PROJECTS, FADING)
    site.map()
    _run(site, -14, 0, carol=9)
    site.job("alice", "physics", 4000, ago_h=20)
    site.recompute()
    store.poll()

    def days(**asked: Any) -> float:
        found = _try(site, **asked)
        assert found.without.back is not None
        assert found.changed.back is not None
        return (found.changed.back.in_s or 1e9) / 86_400

    usual, stopped, more = days(), days(core_h=0.0, days=30.0), days(core_h=5000.0, days=10.0)
    assert stopped < usual < more
    drawn = _try(site).forecast.shown
    assert drawn is not None
    assert drawn.target is not None
    assert days(level=drawn.path, target=(drawn.target + (drawn.actual or 0)) / 2) < usual


def test_nothing_is_stored(steady: Site) -> None:
    before = Snapshot.objects.count(), load_tree(steady.policy).digest, steady.policy.head_number
    _try(steady, core_h=100.0, load=0.5, target=0.5, level="/physics")
    steady.policy.refresh_from_db()
    assert before == (Snapshot.objects.count(), load_tree(steady.policy).digest, steady.policy.head_number)


@pytest.mark.parametrize(
    ("given_texts", "where"),
    [
        ({"core_h": "-1"}, "core_h"),
        ({"core_h": "1e300"}, "core_h"),
        ({"core_h": "NaN"}, "core_h"),
        ({"core_h": "much"}, "core_h"),
        ({"core_h": "inf"}, "core_h"),
        ({"days": "10000"}, "days"),
        ({"days": "0"}, "days"),
        ({"load": "-5"}, "load"),
        ({"load": "1e9"}, "load"),
        ({"target": "101"}, "target"),
        ({"target": "1_0"}, "target"),
        ({"level": "\0"}, "level"),
        ({"core_h": "9" * 5000}, "core_h"),
    ],
)
def test_impossible_numbers_are_answered_with_the_possible_range(given_texts: dict[str, str], where: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_scenario(given_texts)
    assert [problem.where for problem in refused.value.fields] == [where]
    limits = {"core_h": ["0", "1,000,000,000"], "days": ["1", "365"], "load": ["0", "1000"], "target": ["0", "100"]}
    assert re.findall(r"\d[\d,]*", refused.value.message) == limits.get(where, [])


@given(st.dictionaries(st.sampled_from(["core_h", "days", "load", "target", "level"]), st.text(max_size=30)))
def test_any_typed_input_is_parsed_or_refused(given_texts: dict[str, str]) -> None:
    try:
        asked = read_scenario(given_texts)
    except Invalid:
        return  # the table above says how
    assert asked.core_h is None or 0 <= asked.core_h <= 1e9
    assert 1 <= asked.days <= 365
    assert 0 <= asked.load <= 10


def test_percent_signs_and_decimal_commas_are_accepted() -> None:
    asked = read_scenario({"core_h": " 20000 ", "days": "3,5", "load": "60 %", "target": "40", "level": "/physics"})
    assert asked == Scenario(core_h=20_000.0, days=3.5, load=0.6, level="/physics", target=0.4)
    assert read_scenario({}).is_empty


def test_a_level_off_the_path_or_without_siblings_is_reported(steady: Site, make_site: Any) -> None:
    with pytest.raises(Invalid, match="/physics, /physics/alice") as refused:
        _try(steady, target=0.5, level="/biology")
    assert [problem.where for problem in refused.value.fields] == ["level"]
    lonely: Site = make_site("lonely")
    lonely.publish(children(physics={"": 1, "alice": 1, "bob": 1}), FADING)
    lonely.map()
    lonely.job("alice", "physics", 10)
    lonely.recompute()
    store.poll()
    with pytest.raises(Invalid, match="physics") as refused:
        _try(lonely, target=0.5, level="/physics")
    assert [problem.where for problem in refused.value.fields] == ["target"]


def test_members_get_rounded_ranks_and_no_answers_of_others(make_site: Any) -> None:
    site: Site = make_site(visibility="path")
    site.publish(PROJECTS, FADING)
    site.map()
    _run(site, -14, 0)
    site.recompute()
    store.poll()
    alice = Actor(user=User.objects.create_user("alice"), via="page")
    tree = store.newest(site.slug).tree
    uids = {tree.path(i): tree.uuid(i) for i in range(1, len(tree))}
    found = run_my_scenario(
        policy_slug=site.slug, entry_uid=uids["/physics/alice"], scenario=Scenario(core_h=1.0), actor=alice, at=AS_OF
    )
    assert found.without.now.rank == (1, 1), "as on the page that asks"
    assert found.changed.then.rank == (1, 5)
    assert found.changed.then.factor is None
    assert found.without.back is not None
    with pytest.raises(NotFound):
        run_my_scenario(
            policy_slug=site.slug, entry_uid=uids["/biology/carol"], scenario=Scenario(), actor=alice, at=AS_OF
        )
    with pytest.raises(NotFound):
        run_scenario(policy_slug=site.slug, account=AccountQuery("carol"), scenario=Scenario(), actor=alice, at=AS_OF)


def test_too_many_requests_are_refused_temporarily(steady: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.contrib.forecast.what_if.trial.MOST_A_MINUTE", 2)
    _try(steady)
    _try(steady)
    with pytest.raises(TooOften, match=r"\b2\b"):
        _try(steady)


def test_an_ambiguous_thousands_comma_is_refused() -> None:
    """REST and links of pages write numbers with a point."""
    assert read_scenario({"core_h": "1.234"}).core_h == 1.234
    with pytest.raises(Malformed):
        read_scenario({"core_h": "1,234"})
