"""A recompute of a past instant: the revision, mapping, settings and adjustments of that time, and what came later."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.core.errors import Invalid, NotFound
from apps.explain.account_path import explain
from apps.explain.entry_page import get_entry_page
from apps.mapping.models import MappingVersion
from apps.mapping.versions import version_number_at
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot
from apps.priorities.recompute import staleness as recompute
from apps.priorities.selectors.rows import open_view
from apps.priorities.selectors.visible_snapshot import moment_of
from apps.priorities.serving import store
from apps.priorities.serving.served_snapshot import ServedSnapshot
from tests.priority_site import AS_OF, NO_AGING, PROJECTS, Site, children

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
THEN = AS_OF - 2 * DAY  # revision 2, mapping version 1
LATER = children(physics={"": 90, "alice": 1, "bob": 1}, biology={"": 10, "carol": 3, "dan": 1})


@pytest.fixture
def old_site(make_site: Callable[..., Site]) -> Site:
    """Physics has 60 of 100 until yesterday, when it got 90; everything of biology was carol's until then."""
    made = make_site(at=AS_OF - 9 * DAY)
    made.publish(PROJECTS, at=AS_OF - 8 * DAY)
    made.map(at=AS_OF - 7 * DAY)
    made.job("alice", "physics", 40, ago_h=72)
    made.job("carol", "biology", 60, ago_h=72)
    made.publish(LATER, {"window": {"length_s": 3600.0, "aging": "none"}}, at=AS_OF - DAY)
    made.map(made.rule("/physics", suffix="", user_pattern="carol"), made.rule(), at=AS_OF - DAY / 2)
    return made


def at_path(snapshot: Snapshot, path: str) -> dict[str, float]:
    kept = store.load_stored("grid", snapshot.pk)
    i = kept.tree.index_of_path(path)
    assert i is not None, path
    return {"target": float(kept.values.target[i]), "actual": float(kept.values.actual[i])}


def keys(at: Any) -> list[str]:
    moment = moment_of(open_view(policy_slug="grid", actor=COMMAND, at=at))
    assert moment is not None
    return [note.key for note in moment.notes]


def snapshot_at(at: datetime) -> ServedSnapshot:
    found = open_view(policy_slug="grid", actor=COMMAND, at=at).snapshot
    assert found is not None
    return found


@pytest.mark.parametrize("days_ago", [0.3, 0.75, 2.0, 2.9])
def test_a_past_instant_without_a_snapshot_equals_a_recompute(old_site: Site, days_ago: float) -> None:
    at = AS_OF - days_ago * DAY
    seen = snapshot_at(at)
    stored_before = Snapshot.objects.count()
    made = store.load_stored("grid", old_site.recompute(as_of=at).pk)
    assert (stored_before, seen.snapshot_id < 0) == (0, True), "nothing is stored by looking"
    assert (seen.revision, seen.as_of, seen.algorithm) == (made.revision, at, made.algorithm)
    for name in ("target", "actual", "usage", "rank", "factor", "priority"):
        assert getattr(seen.values, name).tobytes() == getattr(made.values, name).tobytes(), name
    moment = moment_of(open_view(policy_slug="grid", actor=COMMAND, at=at))
    assert moment is not None
    assert moment.is_reconstructed


def test_before_the_first_usage_nothing_is_computed(old_site: Site) -> None:
    view = open_view(policy_slug="grid", actor=COMMAND, at=AS_OF - 7.5 * DAY)
    assert view.snapshot is None


def test_a_stored_snapshot_of_the_last_hour_is_shown_unchanged(old_site: Site) -> None:
    stored = old_site.recompute(as_of=THEN)
    assert snapshot_at(THEN + timedelta(hours=1)).snapshot_id == stored.pk
    assert snapshot_at(THEN + timedelta(hours=1, seconds=1)).snapshot_id < 0


def test_a_past_instant_uses_revision_settings_and_mapping_of_that_time(old_site: Site) -> None:
    made = old_site.recompute(as_of=THEN)
    assert (made.revision_number, made.mapping_version) == (2, 1)
    assert made.settings["window"] == {**made.settings["window"], **NO_AGING["window"]}
    assert at_path(made, "/physics") == pytest.approx({"target": 0.6, "actual": 0.4})
    now = old_site.recompute()
    assert (now.revision_number, now.mapping_version) == (3, 2)
    assert at_path(now, "/physics")["target"] == pytest.approx(0.9)


def test_a_past_instant_uses_attachments_and_adjustments_of_that_time(old_site: Site) -> None:
    before = old_site.recompute(as_of=THEN)
    operation = {
        "op": "adjust_usage",
        "entry": "/biology",
        "resource": "cpu_s",
        "amount_s": -60 * 3600.0,
        "at": (THEN - DAY).isoformat(),
        "note": "incident",
    }
    draft = make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=[operation], reason="x"), at=AS_OF, actor=COMMAND
    )
    publish_change_set(id=draft.pk, version=1, at=AS_OF, actor=COMMAND)
    after = old_site.recompute(as_of=THEN + timedelta(seconds=1))
    assert at_path(after, "/biology") == at_path(before, "/biology")
    assert "past.corrections_later" in keys(THEN + timedelta(seconds=2))


def test_tree_explanation_and_page_of_a_past_instant_agree(old_site: Site, client: Client) -> None:
    old_site.recompute()
    old_site.recompute(as_of=THEN)
    found = explain(policy_slug="grid", account="alice", actor=COMMAND, at=THEN)
    physics = next(step for step in found["results"][0]["steps"] if step["entry"] == "/physics")
    view = open_view(policy_slug="grid", actor=COMMAND, at=THEN)
    i = view.tree.index_of_path("/physics")
    assert i is not None
    assert (physics["target"], physics["actual"]) == (view.row(i).target, view.row(i).actual) == (0.6, 0.4)
    assert (found["moment"]["revision"], found["moment"]["snapshot_revision"]) == (2, 2)
    client.force_login(User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase"))
    body = client.get("/api/v1/policies/grid/tree", {"at": THEN.isoformat()}).json()
    assert body["moment"]["notes"] == found["moment"]["notes"]
    page = client.get("/policy/grid/", {"at": THEN.isoformat()}).content.decode()
    assert found["moment"]["notes"][0]["text"] in page


def test_a_snapshot_of_a_later_revision_is_not_shown_for_an_earlier_instant(old_site: Site) -> None:
    """Snapshots are of whole ticks: one of the tick before a publication has what was published in it."""
    live = old_site.recompute()
    Snapshot.objects.filter(pk=live.pk).update(as_of=AS_OF - DAY - timedelta(seconds=30))
    assert snapshot_at(AS_OF - DAY - timedelta(seconds=1)).revision == 2
    Snapshot.objects.filter(pk=live.pk).update(as_of=AS_OF - DAY * 0.75)  # and so for the mapping
    assert snapshot_at(AS_OF - DAY * 0.7).snapshot_id < 0


def test_late_usage_is_included_and_reported(old_site: Site) -> None:
    live = old_site.recompute()
    Snapshot.objects.filter(pk=live.pk).update(
        as_of=THEN, computed_at=THEN, is_live=True, revision_number=2, mapping_version=1
    )
    old_site.job("bob", "physics", 20, ago_h=96)
    made = old_site.recompute(as_of=THEN + timedelta(seconds=1))
    assert at_path(made, "/physics")["actual"] == pytest.approx(0.5)
    moment = moment_of(open_view(policy_slug="grid", actor=COMMAND, at=THEN + timedelta(seconds=1)))
    assert moment is not None
    note = next(note for note in moment.notes if note.key == "past.usage_later")
    assert note.values["since_at"] <= AS_OF - timedelta(hours=97)
    assert note.values["at"] == THEN


def test_without_a_snapshot_late_usage_cannot_be_distinguished(old_site: Site) -> None:
    old_site.recompute(as_of=THEN)
    assert keys(THEN) == ["past.reconstructed", "past.later_unknown"]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (timedelta(days=7, hours=12), ["past.reconstructed", "past.before_first_usage", "past.no_mapping"]),
        (timedelta(days=5), ["past.reconstructed", "past.before_first_usage"]),
    ],
)
def test_before_the_first_record_usage_is_zero(old_site: Site, before: timedelta, expected: list[str]) -> None:
    made = old_site.recompute(as_of=AS_OF - before)
    assert made.revision_number == 2
    assert keys(AS_OF - before) == expected


def test_membership_rules_are_part_of_the_past_mapping(make_site: Callable[..., Site]) -> None:
    made = make_site(at=AS_OF - 9 * DAY)
    made.publish(PROJECTS, at=AS_OF - 8 * DAY)
    made.job("erin", "physics", 4, ago_h=24 * 6)
    made.recompute(as_of=AS_OF - 5 * DAY)
    assert "past.no_mapping" in keys(AS_OF - 5 * DAY)
    operation = {"op": "set_members", "entry": "/physics", "members": [{"group": "physics", "shares": 1}]}
    draft = make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=[operation], reason="x"), at=AS_OF - 4 * DAY, actor=COMMAND
    )
    publish_change_set(id=draft.pk, version=1, at=AS_OF - 4 * DAY, actor=COMMAND)
    assert at_path(made.recompute(as_of=THEN), "/physics")["actual"] == 1.0
    assert "past.no_mapping" not in keys(THEN)


@pytest.mark.parametrize(("at", "code"), [(AS_OF - 10 * DAY, "before_first_revision"), (AS_OF + DAY, "future")])
def test_instants_without_priorities_are_refused_by_name(old_site: Site, as_eva: Actor, at: Any, code: str) -> None:
    with pytest.raises(Invalid) as refused:
        recompute.request_recompute(policy_slug="grid", as_of=at, at=AS_OF + timedelta(seconds=1), actor=as_eva)
    assert (refused.value.code, refused.value.fields[0].where) == (code, "as_of")


def test_without_an_old_mapping_version_the_oldest_is_used_and_reported(old_site: Site) -> None:
    MappingVersion.objects.filter(number=1).delete()  # as of a site that was upgraded at version 2
    assert version_number_at(old_site.policy, THEN) == 2
    made = old_site.recompute(as_of=THEN)
    assert made.mapping_version == 2
    assert "past.oldest_mapping" in keys(THEN)


def test_past_rules_still_map_to_entries_removed_since(old_site: Site) -> None:
    old_site.publish(LATER[:1], at=AS_OF - DAY / 4)
    assert load_tree(old_site.policy).index_of_path("/biology") is None
    assert at_path(old_site.recompute(as_of=THEN), "/biology")["actual"] == pytest.approx(0.6)


def test_an_entry_missing_in_a_revision_is_reported(old_site: Site, client: Client) -> None:
    old_site.publish([*LATER, *children(chemistry={"": 5, "erin": 1})], at=AS_OF - DAY / 3)
    old_site.publish(LATER[:1], at=AS_OF - DAY / 4)
    client.force_login(User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase"))
    answer = client.get("/api/v1/policies/grid/tree", {"path": "/physics", "at": "1"})
    assert (answer.status_code, answer.json()["code"]) == (422, "entry_not_in_revision")
    tree = load_tree(old_site.policy, 4)
    gone = tree.index_of_path("/chemistry")
    assert gone is not None
    for number, found in ((2, "revision 4 added it"), (5, "revision 4 was the last")):
        with pytest.raises(Invalid, match=found) as refused:
            get_entry_page(policy_slug="grid", uid=tree.uuid(gone), actor=COMMAND, at=number)
        assert refused.value.code == "entry_not_in_revision"


def test_revisions_of_an_invisible_entry_are_not_disclosed(make_site: Callable[..., Site]) -> None:
    made = make_site(visibility="path", at=AS_OF - 9 * DAY)
    made.publish(PROJECTS, at=AS_OF - 8 * DAY)
    tree = load_tree(made.policy)
    bob = Actor(user=User.objects.create_user("bob", "bob@example.org", "a long pass phrase"), via="page")
    place = tree.index_of_path("/biology")
    assert place is not None
    with pytest.raises(NotFound) as refused:
        get_entry_page(policy_slug="grid", uid=tree.uuid(place), actor=bob, at=1)
    assert refused.value.code == "not_found"
