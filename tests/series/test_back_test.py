"""Past days under a draft: the recorded revisions give the stored series, and other shares change what they concern."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.test import Client

from apps.accounts.models import User
from apps.policies.models import ChangeSet, Policy
from apps.policies.tree.stored import load_tree
from apps.runs.models import Run
from apps.runs.services import work_due_runs
from apps.series.back_test import BackTest, back_test
from apps.series.back_test_runs import current_state, draft_state
from apps.series.builder import Builder
from apps.series.days import Day, days_of, site_zone
from apps.series.models import ChangeSetBackTest
from apps.series.revision_context import PolicyState
from apps.series.stored_series import load_series
from tests.grants import make_grant
from tests.pages.changes.api.test_changesets import PATH, draft
from tests.priority_site import AS_OF, MORE_PHYSICS, PROJECTS, REVISED_DAYS, WINDOW, Site, children
from tests.priority_site import build_series as build
from tests.rest_site import Caller
from tests.series.test_series import DAY, TODAY, uid

pytestmark = pytest.mark.django_db


@pytest.fixture
def past(revised_days: Site) -> Site:
    return revised_days


def _days() -> list[Day]:
    return days_of(TODAY - REVISED_DAYS * DAY, TODAY - DAY, site_zone())


def _draft(site: Site, **shares: float) -> PolicyState:
    """The head with other shares of entries by name."""
    head = current_state(site.policy)
    values = head.tree.shares.copy()
    for name, amount in shares.items():
        values[list(head.tree.name).index(name)] = amount
    return replace(head, number=0, tree=replace(head.tree, shares=values, digest=""))


def _tested(site: Site, **shares: float) -> BackTest:
    return back_test(site.policy, current_state(site.policy), _draft(site, **shares), _days())


def test_the_recorded_revisions_give_the_stored_series(past: Site) -> None:
    tree = load_tree(past.policy)
    stored = load_series(
        past.policy, [tree.uuid(i) for i in range(len(tree))], from_on=_days()[0].on, to_on=_days()[-1].on
    )
    built = list(Builder(past.policy, _days(), with_priorities=True).build(_days()))
    assert [day.day.on for day in built] == list(stored.days.on)
    for at, day in enumerate(built):
        for name in (
            "used",
            "peers_used",
            "decayed",
            "peers_decayed",
            "target",
            "target_global",
            "largest",
            "n_active",
        ):
            assert day.values.columns[name].tolist() == getattr(stored, name)[:, at].tolist(), (name, at)


def test_a_draft_without_a_change_differs_nowhere(past: Site) -> None:
    """Not on the days of earlier revisions either: a draft is compared with the current policy."""
    result = _tested(past)
    assert result.daily.tolist() == []
    for name in ("rank", "off", "days_on"):
        np.testing.assert_array_equal(getattr(result, name), getattr(result, f"{name}_was"))
    assert result.n_days[1:].tolist() == [REVISED_DAYS] * (len(result.uid) - 1)
    assert not result.is_idle.any()


def test_another_share_changes_the_targets_of_its_group_alone(past: Site) -> None:
    result, tree = _tested(past, physics=400), load_tree(past.policy)
    assert [tree.path(i) for i in result.daily.tolist()] == ["/biology", "/physics"]
    assert result.target[1].tolist() == pytest.approx([400 / 440] * REVISED_DAYS)
    assert result.target_was[1].tolist() == pytest.approx([0.6] * REVISED_DAYS)
    alice, carol = (tree.index_of_path(path) for path in ("/physics/alice", "/biology/carol"))
    assert result.rank[alice] <= result.rank_was[alice]
    assert result.rank[carol] >= result.rank_was[carol]


def test_means_are_those_of_the_single_days(past: Site) -> None:
    result, tree = _tested(past, physics=400), load_tree(past.policy)
    physics = tree.index_of_path("/physics")
    at = result.daily.tolist().index(physics)
    assert result.off[physics] == pytest.approx(np.abs(result.actual[at] - result.target[at]).mean())
    assert result.off_was[physics] == pytest.approx(np.abs(result.actual_was[at] - result.target_was[at]).mean())
    single = [back_test(past.policy, current_state(past.policy), _draft(past, physics=400), [day]) for day in _days()]
    alice = tree.index_of_path("/physics/alice")
    assert result.rank[alice] == pytest.approx(np.mean([day.rank[alice] for day in single]))
    assert result.days_on[physics] == sum(int(day.days_on[physics]) for day in single)


SHORTER = {"window": {"length_s": 3 * 86_400, "aging": "exponential", "half_life_s": 7_200}}


def _with_settings(site: Site, **settings: Any) -> PolicyState:
    head = current_state(site.policy)
    return replace(head, number=0, settings=replace(head.settings, **settings))


def test_a_shorter_half_life_shows_whose_share_changes_most(past: Site) -> None:
    """Targets stay; the values by day are those of builds of each state."""
    drafted, steps = _with_settings(past, **SHORTER), list[int]()
    result = back_test(past.policy, current_state(past.policy), drafted, _days(), done=steps.append)
    tree = load_tree(past.policy)
    assert steps == [3, 6, 6], "twice through the days, counted as halves, at most ten of them at once"
    np.testing.assert_array_equal(result.target, result.target_was)
    apart = np.zeros(len(tree))
    sides = [
        list(Builder(past.policy, _days(), state=each).build(_days())) for each in (drafted, current_state(past.policy))
    ]
    for now, was in zip(*sides, strict=True):
        with np.errstate(invalid="ignore"):
            shares = [each.values.columns["decayed"] / each.values.columns["peers_decayed"] for each in (now, was)]
        apart += np.nan_to_num(np.abs(shares[0] - shares[1]))
    apart[0] = 0.0
    assert result.daily.tolist() == np.flatnonzero(apart > 1e-9).tolist()
    assert len(result.daily) > 3
    by_day = np.abs(result.actual - result.actual_was).mean(axis=1)
    assert by_day.tolist() == pytest.approx((apart[result.daily] / REVISED_DAYS).tolist())
    assert by_day.max() > 0.02


@pytest.fixture
def three(make_site: Callable[..., Site]) -> Site:
    """Targets 60/30/10, use 69/24/7 each day: c is the furthest below its target in parts of it, b in points."""
    made = make_site(at=AS_OF - 9 * DAY)
    groups = children(a={"": 60, "ann": 1}, b={"": 30, "ben": 1}, c={"": 10, "cat": 1})
    made.publish(groups, WINDOW | _operator("relative"), at=AS_OF - 8 * DAY)
    made.map(at=AS_OF - 8 * DAY)
    for ago_d in range(1, REVISED_DAYS + 1):
        for user, group, hours in (("ann", "a", 69), ("ben", "b", 24), ("cat", "c", 7)):
            made.job(user, group, hours, ago_h=24 * ago_d)
    build(made)
    return made


def _operator(name: str) -> dict[str, Any]:
    return {"algorithm": {"name": "aequus", "operator": name}}


def test_another_operator_shows_whose_rank_changes_most(three: Site) -> None:
    """By hand: relative ranks c before b, absolute b before c; a is last. Neither a target nor a share changes."""
    settings = current_state(three.policy).settings
    drafted = _with_settings(three, algorithm={**settings.algorithm, "operator": "absolute"})
    result = back_test(three.policy, current_state(three.policy), drafted, _days())
    tree = load_tree(three.policy)
    np.testing.assert_array_equal(result.actual, result.actual_was)
    assert [tree.path(i) for i in result.daily.tolist()] == ["/b", "/c", "/b/ben", "/c/cat"]
    assert result.leaf_rank.tolist() == [[1.0] * REVISED_DAYS, [2.0] * REVISED_DAYS] * 2
    assert result.leaf_rank_was.tolist() == [[2.0] * REVISED_DAYS, [1.0] * REVISED_DAYS] * 2


def test_settings_that_change_nothing_have_no_rows(past: Site) -> None:
    drafted = _with_settings(past, fallback_factor=0.25)
    result = back_test(past.policy, current_state(past.policy), drafted, _days())
    assert (result.daily.tolist(), result.target.shape) == ([], (0, REVISED_DAYS))
    np.testing.assert_array_equal(result.rank, result.rank_was)
    BackTest.unpack(*result.pack())


@pytest.mark.parametrize(
    ("settings", "of", "sentence"),
    [
        (SHORTER, "changed_points", "changes most: its share by"),
        (_operator("absolute"), "changed_places", "/c changes most: by 1.1 places on average."),
    ],
    ids=["half-life", "operator"],
)
def test_a_review_says_who_changes_most_under_other_settings(
    three: Site, client: Client, settings: dict[str, Any], of: str, sentence: str
) -> None:
    if settings is SHORTER:  # of the same use each day, shares don't depend on the half-life
        three.job("ann", "a", 40, ago_h=24 * 3 + 2)
    root = Caller(user=User.objects.create_superuser("root", password="x"))
    operation = {"op": "set_policy", "settings": settings}
    number = draft(root, operation, base=three.policy.head_number).json()["id"]
    root.post(f"{PATH}/{number}/back-test", {"days": 7})
    _finish_runs()
    answer = root.get(f"{PATH}/{number}/back-test").json()
    # On six days c differs by a place, on the idle one by two: all are equal there, or as their targets. 8 / 7 = 1.1.
    amounts = [each[of] for each in answer["entries"]]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[-1] > 0
    client.force_login(User.objects.get(username="root"))
    page = client.get(f"/changes/{number}/back-test/").content.decode()
    assert f"{answer['entries'][0]['path']} changes most: " in page
    assert sentence in page
    assert "The draft changes no target" not in page


def test_entries_that_only_one_of_the_trees_has_are_left_out(past: Site) -> None:
    smaller = children(physics={"": 60, "alice": 1, "zoe": 1}, biology={"": 40, "carol": 3, "dan": 1})
    head = load_tree(past.policy)
    current = current_state(past.policy)
    past.publish(smaller, WINDOW, at=AS_OF)
    draft = current_state(past.policy)
    past.policy.head_number -= 1
    result = back_test(past.policy, current, draft, _days())
    zoe = draft.tree.index_of_path("/physics/zoe")
    assert head.index_of_path("/physics/zoe") is None
    assert result.n_days[zoe] == 0
    assert np.isnan([result.rank[zoe], result.rank_was[zoe], result.off[zoe]]).all()


def test_a_packed_back_test_is_read_as_it_was(past: Site) -> None:
    result = _tested(past, physics=400)
    again = BackTest.unpack(*result.pack())
    for name, value in vars(result).items():
        np.testing.assert_array_equal(getattr(again, name), value)


@pytest.fixture
def root(past: Site) -> Caller:
    return Caller(user=User.objects.create_superuser("root", password="x"))


def _drafted(site: Site, caller: Caller) -> str:
    operation = {"op": "set_shares", "entry": str(uid(site, "/physics")), "shares": 400}
    number = draft(caller, operation, base=site.policy.head_number).json()["id"]
    return f"{PATH}/{number}"


def _finish_runs() -> None:
    work_due_runs(clock=lambda: AS_OF + timedelta(seconds=2))


def test_it_is_asked_for_computed_in_a_run_and_read_by_rest(past: Site, root: Caller) -> None:
    path = _drafted(past, root)
    assert root.get(f"{path}/back-test").json()["state"] == "absent"
    asked = root.post(f"{path}/back-test", {"days": 7})
    assert asked.status_code == 202
    assert root.get(f"{path}/back-test").json()["state"] == "asked"
    _finish_runs()
    run = Run.objects.get(pk=asked.json()["run"])
    assert (run.state, run.progress_done) == ("succeeded", 7)
    answer = root.get(f"{path}/back-test").json()
    assert (answer["state"], answer["n_ranked"], len(answer["days"])) == ("ready", 4, 7)
    days = days_of(TODAY - 7 * DAY, TODAY - DAY, site_zone())
    expected = back_test(past.policy, current_state(past.policy), _draft(past, physics=400), days)
    physics = load_tree(past.policy).index_of_path("/physics")
    entry = next(each for each in answer["entries"] if each["path"] == "/physics")
    assert (entry["n_days"], entry["days_on"], entry["days_on_was"]) == (
        expected.n_days[physics],
        expected.days_on[physics],
        expected.days_on_was[physics],
    )
    assert entry["off"] == pytest.approx(expected.off[physics] * 100)
    assert {leaf["path"] for leaf in answer["leaves"]} <= {
        "/physics/alice",
        "/physics/bob",
        "/biology/carol",
        "/biology/dan",
    }


@pytest.mark.fault("F19")
def test_an_edit_makes_it_absent_and_a_new_head_makes_it_stale(past: Site, root: Caller) -> None:
    path = _drafted(past, root)
    root.post(f"{path}/back-test", {"days": 7})
    _finish_runs()
    past.publish(MORE_PHYSICS, WINDOW, at=AS_OF)
    assert root.get(f"{path}/back-test").json()["state"] == "stale"
    tag = root.get(path).headers["ETag"]
    operation = {"op": "set_shares", "entry": str(uid(past, "/physics")), "shares": 500}
    changed = root.patch(path, {"operations": [operation]}, If_Match=tag)
    assert changed.status_code == 200
    assert root.get(f"{path}/back-test").json()["state"] == "absent"


def test_usage_of_its_days_makes_it_stale_until_it_is_computed_again(past: Site, root: Caller, client: Client) -> None:
    path = _drafted(past, root)

    def state() -> Any:
        return root.get(f"{path}/back-test").json()["state"]

    root.post(f"{path}/back-test", {"days": 7})
    _finish_runs()
    past.job("bob", "physics", 3, ago_h=2)
    assert state() == "ready", "usage of today is of none of its days"
    past.job("bob", "physics", 1000, ago_h=24 * 8)
    assert state() == "stale"
    client.force_login(User.objects.create_superuser("ida", "ida@example.org", "a long pass phrase"))
    page = client.get(f"/changes/{path.rpartition('/')[2]}/back-test/").content.decode()
    assert "mapping or usage has changed since. Compute these days again." in page
    build(past)
    assert state() == "stale", "it was computed from other usage, whatever the series is built from"
    root.post(f"{path}/back-test", {"days": 7})
    _finish_runs()
    assert state() == "ready"
    past.map(past.rule(), past.rule("/biology", kind="exact", user_pattern="bob"))
    assert state() == "stale"
    ChangeSetBackTest.objects.update(inputs={})
    assert state() == "stale", "as one that was stored before inputs were"


def test_a_decided_change_has_none_and_other_numbers_of_days_are_refused(past: Site, root: Caller) -> None:
    path = _drafted(past, root)
    assert root.post(f"{path}/back-test", {"days": 8}).status_code == 400
    assert root.post(f"{path}/withdraw").status_code == 200
    assert root.post(f"{path}/back-test", {"days": 7}).json()["code"] == "decided"
    assert root.get(f"{path}/back-test").json()["state"] == "decided"


def test_a_new_policy_has_no_days(make_site: Callable[..., Site]) -> None:
    made = make_site()
    made.publish(PROJECTS, WINDOW)
    caller = Caller(user=User.objects.create_superuser("root", password="x"))
    path = _drafted(made, caller)
    assert caller.get(f"{path}/back-test").json()["state"] == "no_days"
    run = caller.post(f"{path}/back-test").json()["run"]
    _finish_runs()
    assert Run.objects.get(pk=run).error_code == "no_days"


def test_a_reader_of_a_part_sees_none(past: Site, root: Caller) -> None:
    Policy.objects.filter(pk=past.policy.pk).update(visibility=Policy.Visibility.PATH)
    pia = User.objects.create_user("pia")
    make_grant(pia, uid(past, "/physics"), policy=past.policy)
    manager = Caller(user=pia)
    operation = {"op": "set_shares", "entry": str(uid(past, "/physics/alice")), "shares": 3}
    number = draft(manager, operation, base=past.policy.head_number).json()["id"]
    root.post(f"{PATH}/{number}/back-test", {"days": 7})
    _finish_runs()
    answer = manager.get(f"{PATH}/{number}/back-test").json()
    assert (answer["state"], answer["entries"], answer["leaves"], answer["n_ranked"]) == ("hidden", [], [], 0)
    assert manager.post(f"{PATH}/{number}/back-test", {"days": 7}).status_code == 403
    assert root.get(f"{PATH}/{number}/back-test").json()["state"] == "ready"


def test_the_tab_of_the_review_says_who_gains(past: Site, root: Caller, client: Client) -> None:
    number = _drafted(past, root).rpartition("/")[2]
    client.force_login(User.objects.get(username="root"))
    page = client.get(f"/changes/{number}/back-test/").content.decode()
    assert "Compute these days" in page
    sent = client.post(f"/changes/{number}/back-test/compute/", {"days": "7"})
    assert (sent.status_code, sent.headers["Location"]) == (303, f"/changes/{number}/back-test/")
    assert "It waits for a worker" in client.get(f"/changes/{number}/back-test/").content.decode()
    _finish_runs()
    page = client.get(f"/changes/{number}/back-test/").content.decode()
    assert "The last 7 days under this draft" in page
    assert "under-draft" in page
    assert "Usage is as it was" in page


OTHER = {
    "shares": [{"op": "set_shares", "entry": "/physics", "shares": 7}],
    "tree": [
        {"op": "add", "parent": "/physics", "name": "zoe", "kind": "user", "shares": 2},
        {"op": "move", "entry": "/physics/bob", "parent": "/biology"},
        {"op": "archive", "entry": "/biology/dan"},
    ],
    "window": [{"op": "set_policy", "settings": {"window": {"length_s": None, "aging": "none"}}}],
    "algorithm": [{"op": "set_policy", "settings": {"algorithm": {"name": "slurm-fair-tree"}}}],
    "correction": [
        {
            "op": "adjust_usage",
            "entry": "/physics",
            "resource": "cpu_s",
            "amount_s": -7200.0,
            "at": (AS_OF - 3 * DAY).isoformat(),
        }
    ],
}


@pytest.mark.parametrize("operations", OTHER.values(), ids=OTHER)
def test_days_under_a_draft_are_those_of_the_current_policy_once_it_is_published(
    past: Site, root: Caller, operations: list[dict[str, Any]]
) -> None:
    number = draft(root, *operations, base=past.policy.head_number).json()["id"]
    change_set = ChangeSet.objects.get(pk=number)
    drafted = draft_state(change_set, past.policy)
    under_draft = list(Builder(past.policy, _days(), state=drafted, with_priorities=True).build(_days()))
    result = back_test(past.policy, current_state(past.policy), drafted, _days())
    assert root.post(f"{PATH}/{number}/publish", {"reason": "So be it."}).status_code == 200
    past.policy.refresh_from_db()
    current = current_state(past.policy)
    published = Builder(past.policy, _days(), state=current, with_priorities=True).build(_days())
    for day, after in zip(under_draft, published, strict=True):
        for name, values in day.values.columns.items():
            np.testing.assert_array_equal(values, after.values.columns[name])
        assert day.priorities is not None
        assert after.priorities is not None
        np.testing.assert_array_equal(day.priorities.rank, after.priorities.rank)
    assert result.uid.tobytes() == current.tree.uid.tobytes()


def test_ranks_of_a_group_are_the_mean_of_its_leaves(past: Site) -> None:
    result, tree = _tested(past, physics=400), load_tree(past.policy)
    row = result.daily.tolist().index(tree.index_of_path("/physics"))
    leaves = [tree.index_of_path(path) for path in ("/physics/alice", "/physics/bob")]
    assert result.leaf_rank[row].mean() == pytest.approx(np.mean([result.rank[leaf] for leaf in leaves]))
    assert result.leaf_rank_was[row].mean() == pytest.approx(np.mean([result.rank_was[leaf] for leaf in leaves]))


def test_the_deviation_of_a_day_is_weighted_by_targets(past: Site) -> None:
    result = _tested(past, physics=400)
    with_draft, current = result.deviation
    for at in range(REVISED_DAYS):
        for deviation, target, actual in (
            (with_draft, result.target, result.actual),
            (current, result.target_was, result.actual_was),
        ):
            expected = np.average(np.abs(actual[:, at] - target[:, at]), weights=target[:, at])
            assert deviation[at] == pytest.approx(expected)


def test_days_without_usage_are_counted(make_site: Callable[..., Site]) -> None:
    made = make_site(at=AS_OF - 9 * DAY)
    made.publish(PROJECTS, {"window": {"length_s": 86_400, "aging": "none"}}, at=AS_OF - 8 * DAY)
    made.map(at=AS_OF - 8 * DAY)
    made.job("alice", "physics", 4, ago_h=24 * 5)
    made.job("alice", "physics", 4, ago_h=24)
    result = _tested(made, physics=400)
    assert result.is_idle.tolist() == [True, True, False, True, True, True, False][-REVISED_DAYS:]
    assert np.isnan(result.actual[:, 3]).all()  # the window has no usage on that day either
    assert np.isnan(result.deviation[0][3])


def test_daily_values_are_read_by_rest(past: Site, root: Caller) -> None:
    path = _drafted(past, root)
    root.post(f"{path}/back-test", {"days": 7})
    _finish_runs()
    answer = root.get(f"{path}/back-test").json()
    assert [len(answer[name]) for name in ("days", "deviation", "deviation_was")] == [7] * 3
    assert [entry["path"] for entry in answer["entries"]] == ["/biology", "/physics"]
    for entry in answer["entries"]:
        for name in ("target", "target_was", "actual", "actual_was", "mean_rank", "mean_rank_was"):
            assert len(entry[name]) == 7
    physics = answer["entries"][1]
    assert physics["target"] == pytest.approx([400 / 440] * 7)
    assert physics["actual"][0] is None  # nobody had used anything by then
    assert answer["deviation"][0] is None


def test_a_draft_that_no_longer_applies_says_so(past: Site, root: Caller, client: Client) -> None:
    path = _drafted(past, root)
    past.publish(MORE_PHYSICS, WINDOW, at=AS_OF)
    root.post(f"{path}/back-test", {"days": 7})
    _finish_runs()
    answer = root.get(f"{path}/back-test").json()
    assert (answer["state"], answer["entries"]) == ("failed", [])
    assert "physics" in answer["problem"]
    client.force_login(User.objects.get(username="root"))
    page = client.get(f"/changes/{path.rpartition('/')[2]}/back-test/").content.decode()
    assert "The days could not be computed." in page
