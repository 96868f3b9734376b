"""Adjustments as people see them: active ones, the preview of one, and where they are listed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from apps.accounts.actor import COMMAND, Actor, TokenBounds
from apps.accounts.models import User
from apps.core.errors import Conflict, NotAllowed
from apps.explain.account_path import explain
from apps.explain.entry_page import get_entry_page
from apps.explain.my_priority import get_my_priority
from apps.policies.models import Adjustment, Policy
from apps.policies.publishing.direct import publish_operations
from apps.priorities.adjustments import get_adjustments_page, list_adjustments, preview_adjustment
from apps.priorities.serving import store
from tests.grants import make_grant
from tests.mapping.test_membership import uid_of
from tests.priority_site import AS_OF, PROJECTS, Site
from tests.refusals import refused

HOUR_S = 3600.0


def adjust(site: Site, path: str, core_h: float, *, ago: timedelta = timedelta(hours=2), **more: Any) -> Adjustment:
    operation = {
        "op": "adjust_usage",
        "entry": path,
        "resource": "cpu_s",
        "amount_s": core_h * HOUR_S,
        "at": (AS_OF - ago).isoformat(),
        **more,
    }
    publish_operations(policy_slug=site.slug, operations=[operation], reason="Node failure.", at=AS_OF, actor=COMMAND)
    return Adjustment.objects.latest("pk")


def preview(site: Site, path: str, core_h: float, actor: Actor, used_at: datetime = AS_OF) -> Any:
    return preview_adjustment(
        policy_slug=site.slug,
        entry_uid=UUID(uid_of(site, path)),
        resource="cpu_s",
        amount_s=core_h * HOUR_S,
        used_at=used_at,
        actor=actor,
    )


@pytest.mark.parametrize(
    ("path", "core_h"),
    [("/physics/alice", -20), ("/physics", -11), ("/physics", 30), ("/biology/dan", 7), ("/biology/carol", -1e6)],
)
def test_a_preview_of_an_adjustment_equals_the_next_recompute(
    site: Site, as_eva: Actor, path: str, core_h: float
) -> None:
    site.recompute()
    used_at = AS_OF - timedelta(hours=2)
    found = preview(site, path, core_h, as_eva, used_at)
    before = get_entry_page(policy_slug=site.slug, uid=UUID(uid_of(site, path)), actor=as_eva).entry
    assert (found.before.usage, found.before.actual, found.before.rank) == (
        before.usage,
        before.actual,
        before.rank,
    )
    adjust(site, path, core_h)
    site.recompute()
    after = get_entry_page(policy_slug=site.slug, uid=UUID(uid_of(site, path)), actor=as_eva).entry
    assert found.after.usage == pytest.approx(after.usage, rel=1e-12, abs=1e-6)
    assert found.after.actual == pytest.approx(after.actual, rel=1e-12)
    assert (found.after.rank, found.after.factor) == (after.rank, after.factor)
    assert after.adjusted == pytest.approx(core_h * HOUR_S)


def test_an_invalid_adjustment_has_no_preview(site: Site, as_eva: Actor) -> None:
    site.recompute()
    with pytest.raises(ValueError, match="amount_s"):
        preview(site, "/physics", 0, as_eva)


def test_the_list_shows_current_effect_and_author(site: Site, as_eva: Actor) -> None:
    site.publish(PROJECTS, {"window": {"length_s": None, "aging": "exponential", "half_life_s": 3600}})
    adjust(site, "/physics/alice", -8, ago=timedelta(hours=3), note="b-cn0417")
    site.recompute()
    (line,), following = list_adjustments(policy_slug=site.slug, actor=as_eva)
    assert (line.path, line.usage, line.is_active, line.may_revoke) == ("/physics/alice", -2 * HOUR_S, True, True)
    assert (line.adjustment.author_name, line.adjustment.reason, line.adjustment.note) == (
        "system",
        "Node failure.",
        "b-cn0417",
    )
    assert following is None


def test_a_revoked_adjustment_stays_listed_without_effect(site: Site, as_eva: Actor) -> None:
    made = adjust(site, "/physics/alice", -8)
    entry = uid_of(site, "/physics/alice")
    revoke = {"op": "adjust_usage", "entry": entry, "revokes": str(made.uid)}
    publish_operations(policy_slug=site.slug, operations=[revoke], reason="A mistake.", at=AS_OF, actor=COMMAND)
    site.recompute()
    (line,), _ = list_adjustments(policy_slug=site.slug, actor=as_eva)
    assert (line.is_active, line.usage) == (False, 0.0)
    assert list_adjustments(policy_slug=site.slug, with_revoked=False, actor=as_eva)[0] == []
    assert get_entry_page(policy_slug=site.slug, uid=UUID(entry), actor=as_eva).entry.adjusted == 0.0


def test_an_entry_lists_its_own_adjustments_and_those_below_and_above(site: Site, as_eva: Actor) -> None:
    for path in ("/physics", "/physics/alice", "/biology"):
        adjust(site, path, -1)
    pages = {
        path: [
            line.path
            for line in get_adjustments_page(policy_slug=site.slug, uid=UUID(uid_of(site, path)), actor=as_eva).lines
        ]
        for path in ("/physics", "/physics/bob")
    }
    assert pages == {"/physics": ["/physics/alice", "/physics"], "/physics/bob": ["/physics"]}


def test_adjustments_are_paged_newest_first(site: Site, as_eva: Actor) -> None:
    made = [adjust(site, "/physics", -1, note=str(number)).note for number in range(3)]
    first, following = list_adjustments(policy_slug=site.slug, actor=as_eva, limit=2)
    rest, end = list_adjustments(policy_slug=site.slug, actor=as_eva, limit=2, before=following)
    assert [line.adjustment.note for line in (*first, *rest)] == made[::-1]
    assert (len(first), end) == (2, None)


def test_a_preview_needs_numbers_and_the_right_to_see_them(
    site: Site, as_eva: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refused(Conflict, "no_snapshot"):
        preview(site, "/physics", -1, as_eva)
    site.recompute()
    Policy.objects.update(visibility="path")
    vera = User.objects.create_user("vera")
    make_grant(vera, uid_of(site, "/"), "viewer", policy=site.policy, reason="sums")
    for days, kind, code in ((0, Conflict, "no_snapshot"), (1, NotAllowed, "suppressed")):
        monkeypatch.setenv("FAIRSHARE_CLOCK", (AS_OF + timedelta(days=days, minutes=1)).isoformat())
        with refused(kind, code):  # sums are those of finished days
            preview(site, "/physics", -1, Actor(user=vera, via="page"))


def test_a_reserve_and_a_token_that_only_reads_adjust_nothing(site: Site, as_eva: Actor) -> None:
    site.publish([*PROJECTS, {"name": "spare", "kind": "reserve", "shares": 5}])
    reader = replace(as_eva, via="api", token=TokenBounds("fsh_x", frozenset({"policies:read", "priorities:read"})))
    may = [
        get_adjustments_page(policy_slug=site.slug, uid=UUID(uid_of(site, path)), actor=actor).may_adjust
        for actor in (as_eva, reader)
        for path in ("/", "/physics", "/spare")
    ]
    assert may == [True, True, False, False, False, False]


def test_an_adjustment_of_an_entry_that_is_gone_is_listed_for_those_who_see_everything(
    site: Site, as_eva: Actor
) -> None:
    adjust(site, "/physics/alice", -8)
    site.recompute()
    assert list(store.newest(site.slug).corrections) == [store.newest(site.slug).tree.index_of_path("/physics/alice")]
    site.publish([PROJECTS[1]])
    site.recompute()
    assert store.newest(site.slug).corrections == {}
    (line,), _ = list_adjustments(policy_slug=site.slug, actor=as_eva)
    assert line.usage == 0
    Policy.objects.update(visibility="path")
    carol = Actor(user=User.objects.create_user("carol"), via="page")
    assert list_adjustments(policy_slug=site.slug, actor=carol) == ([], None)


def test_adjustments_need_the_right_above_the_entry(site: Site) -> None:
    max_ = User.objects.create_user("max")
    make_grant(max_, uid_of(site, "/physics"), policy=site.policy, at=AS_OF - timedelta(days=9), reason="test")
    actor = Actor(user=max_, via="page")
    may = {
        path: get_adjustments_page(policy_slug=site.slug, uid=UUID(uid_of(site, path)), actor=actor).may_adjust
        for path in ("/physics", "/physics/alice", "/biology")
    }
    assert may == {"/physics": False, "/physics/alice": True, "/biology": False}


def test_the_path_lists_adjustments_at_its_levels(site: Site) -> None:
    alice = Actor(user=User.objects.create_user("alice"), via="page")
    adjust(site, "/physics", -10, ago=timedelta(days=2), note="node failure")
    site.recompute()
    (mine,) = get_my_priority(actor=alice)
    assert [len(step.adjustments) for step in mine.walk] == [1, 0]
    (found,) = mine.walk[0].adjustments
    assert [each for each in ("\u221210", "18 Nov 2026", "node failure") if each not in found.sentence] == []
    explained = explain(policy_slug=site.slug, account="alice", actor=alice)
    assert explained["results"][0]["steps"][0]["adjustments"] == [
        {
            "uid": found.uid,
            "resource": "cpu_s",
            "amount_s": -36000.0,
            "at": "2026-11-18T12:00:00Z",
            "note": "node failure",
            "counted": -36000.0,
            "sentence": found.sentence,
        }
    ]
