"""Sums of a finished day: shown only if the usage added since earlier days is also that of enough people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import Account, User
from apps.policies.recompute_runs import queue_recompute
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from apps.priorities.visibility import daily_snapshot_before
from apps.priorities.visible_entries import numbers_visible_in
from apps.runs.services import work_run_now
from tests.grants import make_grant
from tests.priority_site import AS_OF, WINDOW, Site, children, finished, new_site

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
PEOPLE = {"physics": [f"p{n}" for n in range(8)], "biology": [f"b{n}" for n in range(7)]}
HALVED = {"window": {"length_s": None, "aging": "exponential", "half_life_s": 86_400}}
OF_TWO_DAYS = {"window": {"length_s": 2 * 86_400, "aging": "none"}}


@dataclass
class Days:
    """A site that is recomputed at the end of each day. vera: sees sums of the whole tree."""

    site: Site
    vera: User
    patch: pytest.MonkeyPatch
    n: int = 0
    settings: dict[str, Any] = field(default_factory=lambda: HALVED)

    def publish(self, groups: Mapping[str, Sequence[str]] = PEOPLE, *, settings: dict[str, Any] | None = None) -> None:
        self.settings = settings or self.settings
        shown = {name: dict.fromkeys(users, 1.0) for name, users in groups.items()}
        self.site.publish(children(**shown), self.settings, at=AS_OF + self.n * DAY)

    def end(self, **core_hours: float) -> None:
        """A day on which these people used so much."""
        self.n += 1
        at = AS_OF + self.n * DAY
        self.patch.setenv("FAIRSHARE_CLOCK", at.isoformat())
        groups = {user: group for group, users in PEOPLE.items() for user in users}
        rows = [
            finished(user, groups.get(user, "chemistry"), hours, ago_h=3 - 24 * self.n)
            for user, hours in core_hours.items()
        ]
        if rows:
            self.site.jobs(rows)
        work_run_now(queue_recompute(self.site.policy, at=at).pk)
        store.poll()

    def shown(self, user: User | None = None) -> set[str]:
        at = AS_OF + (self.n + 1) * DAY
        snapshot = store.newest("grid")
        actor = Actor(user=user or self.vera, via="page")
        mask = numbers_visible_in(policy=self.site.policy, snapshot=snapshot, at=at, actor=actor)
        return {snapshot.tree.path(i) for i in range(len(snapshot.tree)) if mask[i]}


def everybody(hours: float = 10, *, but: str = "") -> dict[str, float]:
    return {user: hours for users in PEOPLE.values() for user in users if user != but}


@pytest.fixture
def days(db: None, monkeypatch: pytest.MonkeyPatch) -> Days:
    made = Days(new_site(visibility="path"), User.objects.create_user("vera"), monkeypatch)
    made.publish()
    made.site.map()
    make_grant(made.vera, load_tree(made.site.policy).uuid(0), "viewer", policy=made.site.policy, reason="sums")
    return made


ALL = {"/", "/physics", "/biology"}


def test_sums_are_those_of_finished_days_that_many_people_used(days: Days) -> None:
    days.end(**everybody())
    assert days.shown() == ALL
    days.end(**everybody())
    assert days.shown() == ALL


def test_a_group_that_one_person_used_yesterday_is_hidden_with_its_sibling(days: Days) -> None:
    """The sibling's number would give it away."""
    days.end(**everybody())
    days.end(**dict.fromkeys(PEOPLE["physics"], 10), b0=10)
    assert days.shown() == {"/"}


def test_a_day_of_one_person_is_hidden_and_later_days_of_all_are_shown(days: Days) -> None:
    """What was added since any of the last three days is what they all added."""
    days.end(**everybody())
    found = []
    for used in ({"b0": 10}, everybody(), everybody(), everybody()):
        days.end(**used)
        found.append(days.shown())
    assert found == [set(), ALL, ALL, ALL]


@pytest.mark.parametrize(("settings", "shown"), [(HALVED, ALL), (OF_TWO_DAYS, set())])
def test_usage_added_beside_decay_counts_as_added_if_decay_is_exponential(
    days: Days, settings: dict[str, Any], shown: set[str]
) -> None:
    """Everybody uses less than they lose; with another decay only growth is known to be added."""
    days.publish(settings=settings)
    days.end(**everybody(100))
    days.end(**everybody(20))
    days.end(**everybody(20))
    assert days.shown() == shown


def test_decay_alone_adds_nothing(days: Days) -> None:
    days.end(**everybody())
    days.end()
    assert days.shown() == set()


@pytest.mark.parametrize(("hours_left", "shown"), [(199, ALL), (1, {"/"})])
def test_usage_that_is_withdrawn_counts_as_added(days: Days, hours_left: float, shown: set[str]) -> None:
    """A correction of one person's old job would otherwise show in the difference of two days."""
    days.end(**everybody(but="p0"), p0=200)
    first = finished("p0", "physics", 200, ago_h=3 - 24)
    days.site.jobs([finished("p0", "physics", hours_left, ago_h=3 - 24, job=first.job, revision=2)])
    days.end(**everybody(2))
    assert days.shown() == shown


@pytest.mark.parametrize(("days_ago", "shown"), [(0, set()), (1, ALL)])
def test_the_first_day_after_a_change_of_the_window_is_hidden(days: Days, days_ago: int, shown: set[str]) -> None:
    days.end(**everybody())
    days.end(**everybody())
    days.publish(settings=WINDOW)
    for _ in range(days_ago + 1):
        days.end(**everybody(30))
    assert days.shown() == shown


@pytest.mark.parametrize("gone", ["p7", "b6"])
def test_usage_of_an_archived_user_is_not_added_to_the_group(days: Days, gone: str) -> None:
    """It counts at the group, and did so the day before for this comparison."""
    days.end(**everybody(1_000, but=gone), **{gone: 4_000})
    days.publish({group: [one for one in users if one != gone] for group, users in PEOPLE.items()})
    days.end(**everybody(60, but=gone))
    assert days.shown() == ALL


def test_usage_of_an_archived_group_that_counts_nowhere_is_withdrawn_from_the_root(days: Days) -> None:
    days.publish({**PEOPLE, "chemistry": ["c0"]})
    days.end(**everybody(1_000), c0=10_000)
    days.publish(PEOPLE)
    days.end(**everybody(60))
    assert days.shown() == set()


def test_where_no_choice_of_groups_protects_one_person_none_is_shown(days: Days) -> None:
    """A member sees their own path in full, and sums of other groups only beside a remainder of many."""
    days.publish({**PEOPLE, "chemistry": ["c0"]})
    alice = User.objects.create_user("alice")
    make_grant(alice, load_tree(days.site.policy).uuid(0), "viewer", policy=days.site.policy, reason="sums")
    days.end(**everybody(), c0=10)
    Account.objects.filter(user_name="p0").update(person=alice)
    assert days.shown(alice) == {"/", "/physics", "/physics/p0"}
    days.end(**everybody(), c0=5_000)
    assert days.shown(alice) == {"/", "/physics", "/physics/p0"}


def test_a_snapshot_of_the_first_hour_belongs_to_its_own_day(days: Days) -> None:
    midnight = (AS_OF + DAY).replace(hour=0, minute=0, second=0, microsecond=0)
    found = []
    for at in (midnight - timedelta(minutes=5), midnight + timedelta(minutes=30)):
        days.patch.setenv("FAIRSHARE_CLOCK", at.isoformat())
        work_run_now(queue_recompute(days.site.policy, at=at).pk)
        store.poll()
        found.append(store.newest("grid").snapshot_id)
    policy = days.site.policy
    assert daily_snapshot_before(policy, midnight + timedelta(minutes=9)) is None  # perhaps not all stored
    assert daily_snapshot_before(policy, midnight + timedelta(hours=2)) == found[0]
    assert daily_snapshot_before(policy, midnight + timedelta(days=1, minutes=10)) == found[1]
