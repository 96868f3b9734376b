"""Effects of change sets: at once for small policies, by a run for large ones, and marked when they are of before."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.core.errors import Conflict, NotFound
from apps.policies import services
from apps.policies.changesets import lifecycle
from apps.policies.models import ChangeSet
from apps.policies.records import ChangeSetEdit, NewChangeSet
from apps.policies.tree.stored import load_tree
from apps.priorities import change_effect_runs
from apps.priorities.change_effect_runs import get_effect, request_effect
from apps.priorities.serving import store
from apps.priorities.shares_preview import preview_shares
from apps.runs.models import Run
from apps.runs.services import work_run_now
from tests.mapping.test_membership import uid_of
from tests.priority_site import AS_OF, Site, children

LESS = {"op": "set_shares", "entry": "/physics", "shares": 1}


def drafted(site: Site, *operations: dict[str, Any]) -> ChangeSet:
    return services.make_change_set(
        policy_slug=site.slug, new=NewChangeSet(operations=operations, reason="Try."), at=AS_OF, actor=COMMAND
    )


@pytest.fixture
def computed(site: Site) -> Site:
    site.recompute(AS_OF)
    site.recompute()
    store.poll()
    return site


@pytest.fixture
def large(computed: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(change_effect_runs, "MOST_ENTRIES_AT_ONCE", 3)
    return computed


def test_effects_of_a_small_policy_are_computed_at_once(computed: Site) -> None:
    effect = get_effect(drafted(computed, LESS), at=AS_OF)
    assert effect.state == "ready"
    assert effect.projection is not None
    assert effect.projection.n_moved > 0
    assert not Run.objects.filter(kind=change_effect_runs.KIND).exists()


def test_without_priorities_there_are_no_effects(site: Site) -> None:
    assert get_effect(drafted(site, LESS), at=AS_OF).state == "no_snapshot"


def test_a_run_before_the_first_priorities_ends_without_an_effect(site: Site, as_eva: Actor) -> None:
    change_set = drafted(site, LESS)
    done = work_run_now(request_effect(change_set_id=change_set.pk, at=AS_OF, actor=as_eva).pk)
    assert (done.state, get_effect(change_set, at=AS_OF).state) == ("failed", "no_snapshot")


def test_a_change_set_that_cannot_be_applied_names_the_reason(computed: Site) -> None:
    mine = drafted(computed, LESS)
    services.change_shares(
        policy_slug=computed.slug,
        entry_uid=load_tree(computed.policy).uuid(2),
        shares=7,
        reason="x",
        at=AS_OF,
        actor=COMMAND,
    )
    effect = get_effect(ChangeSet.objects.get(pk=mine.pk), at=AS_OF)
    assert (effect.state, effect.projection) == ("conflict", None)
    assert "shares" in effect.problem


def test_effects_of_a_large_policy_are_computed_in_the_background_and_stored(large: Site) -> None:
    mine = drafted(large, LESS)
    assert get_effect(mine, at=AS_OF).state == "absent"
    run = request_effect(change_set_id=mine.pk, at=AS_OF, actor=COMMAND)
    assert get_effect(mine, at=AS_OF).state == "asked"
    done = work_run_now(run.pk)
    assert done.state == "succeeded", done.error
    kept = get_effect(mine, at=AS_OF)
    assert kept.state == "ready"
    assert kept.projection is not None
    assert done.result["n_moved"] == kept.projection.n_moved > 0


def test_a_stored_effect_is_stale_after_a_publication_and_deleted_with_its_change_set(large: Site) -> None:
    mine = drafted(large, LESS)
    work_run_now(request_effect(change_set_id=mine.pk, at=AS_OF, actor=COMMAND).pk)
    bob = load_tree(large.policy).index_of_path("/physics/bob") or 0
    services.change_shares(
        policy_slug=large.slug,
        entry_uid=load_tree(large.policy).uuid(bob),
        shares=7,
        reason="x",
        at=AS_OF,
        actor=COMMAND,
    )
    stale = get_effect(mine, at=AS_OF)
    assert stale.state == "stale"
    assert stale.projection is not None
    work_run_now(request_effect(change_set_id=mine.pk, at=AS_OF, actor=COMMAND).pk)
    assert get_effect(mine, at=AS_OF).state == "ready"
    edited = services.update_change_set(
        id=mine.pk,
        version=mine.version,
        edit=ChangeSetEdit(operations=[{**LESS, "shares": 2}]),
        at=AS_OF,
        actor=COMMAND,
    )
    assert get_effect(edited, at=AS_OF).state == "absent"


def test_newer_usage_makes_a_stored_effect_stale(large: Site) -> None:
    mine = drafted(large, LESS)
    work_run_now(request_effect(change_set_id=mine.pk, at=AS_OF, actor=COMMAND).pk)
    large.job("dan", "biology", 900, ago_h=2)
    large.recompute()
    store.poll()
    assert get_effect(mine, at=AS_OF).state == "stale"


def test_effects_of_an_invisible_change_set_are_not_computed(computed: Site, as_alice: Actor, as_eva: Actor) -> None:
    mine = drafted(computed, LESS)
    with pytest.raises(NotFound):
        request_effect(change_set_id=mine.pk, at=AS_OF, actor=as_alice)
    services.withdraw_change_set(id=mine.pk, version=mine.version, at=AS_OF, actor=as_eva)
    with pytest.raises(Conflict):
        request_effect(change_set_id=mine.pk, at=AS_OF, actor=as_eva)


def assert_leaves_counted(refused: Conflict) -> None:
    """That some leaves change rank, where none may."""
    assert refused.code == "needs_approval"
    n_moved, most = map(int, re.findall(r"\d+", refused.message))
    assert n_moved > most == 0


def test_leaves_that_change_rank_are_counted_for_the_size_guard(computed: Site, as_eva: Actor) -> None:
    services.change_settings(
        policy_slug=computed.slug, settings={"review": {"users": 0}}, reason="x", at=AS_OF, actor=COMMAND
    )
    with pytest.raises(Conflict) as refused:
        services.change_settings(
            policy_slug=computed.slug, settings={"window": {"length_s": 3600}}, reason="x", at=AS_OF, actor=as_eva
        )
    assert_leaves_counted(refused.value)
    services.change_settings(
        policy_slug=computed.slug, settings={"fallback_factor": 0.4}, reason="x", at=AS_OF, actor=as_eva
    )
    mine = services.make_change_set(
        policy_slug=computed.slug, new=NewChangeSet(operations=[LESS]), at=AS_OF, actor=as_eva
    )
    with pytest.raises(Conflict) as refused:
        lifecycle.schedule_change_set(
            id=mine.pk,
            version=mine.version,
            effective_at=AS_OF + timedelta(days=1),
            reason="x",
            at=AS_OF,
            actor=as_eva,
        )
    assert refused.value.code == "needs_approval"


def test_effects_include_adjustments_and_rules(computed: Site, as_eva: Actor) -> None:
    given = {"op": "adjust_usage", "entry": "/physics/alice", "resource": "cpu_s", "amount_s": -144_000.0}
    effect = get_effect(drafted(computed, {**given, "at": (AS_OF - timedelta(hours=2)).isoformat()}), at=AS_OF)
    assert effect.projection is not None
    assert effect.projection.n_moved > 0
    services.change_settings(
        policy_slug=computed.slug, settings={"review": {"users": 0}}, reason="x", at=AS_OF, actor=COMMAND
    )
    mine = services.make_change_set(
        policy_slug=computed.slug,
        new=NewChangeSet(operations=[{**given, "at": (AS_OF - timedelta(hours=2)).isoformat()}]),
        at=AS_OF,
        actor=as_eva,
    )
    with pytest.raises(Conflict) as refused:
        services.publish_change_set(id=mine.pk, version=mine.version, reason="x", at=AS_OF, actor=as_eva)
    assert_leaves_counted(refused.value)


@pytest.mark.parametrize(("number", "first"), [(3, "u000"), (204, "u204")])
def test_a_preview_of_a_long_group_shows_the_changed_entry_wherever_it_is(
    make_site: Callable[..., Site], as_eva: Actor, number: int, first: str
) -> None:
    made, name = make_site(), f"u{number:03}"
    made.publish(children(physics={f"u{n:03}": 1.0 for n in range(205)}))
    uid = UUID(uid_of(made, f"/physics/{name}"))
    rows = preview_shares(policy_slug="grid", entry_uid=uid, shares=5, actor=as_eva).rows
    assert (len(rows), rows[0].name) == (200, first)
    assert [(row.name, row.after.shares) for row in rows if row.is_changed] == [(name, 5)]
