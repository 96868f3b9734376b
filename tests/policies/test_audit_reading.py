"""Who reads what of the log: one's own actions, events within one's grants, and administrators everything."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from apps.accounts import audit_log as audit
from apps.accounts.actor import COMMAND, SYSTEM, Actor, TokenBounds
from apps.accounts.models import AuditEvent
from apps.core.errors import NotAllowed, NotFound
from apps.policies import services
from apps.policies.audit_reading import AuditCount, AuditFilter, AuditReader
from apps.policies.models import Grant, Policy
from apps.policies.records import NewChangeSet
from apps.policies.tree.columns import TreeColumns
from tests.grants import make_grant
from tests.instants import AT
from tests.policies.publishing.test_revert import publish, uid_of


def reasons_read_by(actor: Actor, **wanted: Any) -> list[str]:
    """Reasons of what the actor reads, newest first."""
    return [event.reason for event in AuditReader(actor, AT).page(AuditFilter(**wanted), limit=500).events]


def edit(entry: str, shares: Any) -> dict[str, Any]:
    return {"op": "set_shares", "entry": entry, "shares": shares}


@pytest.fixture
def history(policy: Policy, alice: Actor) -> None:
    publish(policy, edit("/physics/bob", 5), actor=alice, reason="inside")
    publish(policy, edit("/biology", 60), actor=alice, reason="outside")
    publish(policy, edit("/physics/alice", 5), edit("/biology", 70), actor=alice, reason="both")
    publish(policy, edit("/physics", 40), actor=alice, reason="the entry itself")
    publish(policy, {"op": "set_policy", "settings": {"fallback_factor": 0.25}}, actor=alice, reason="settings")


@pytest.mark.usefixtures("history")
def test_a_manager_reads_audit_rows_of_the_own_subtree(bob: Actor) -> None:
    assert set(reasons_read_by(bob)) == {"inside", "the entry itself"}


@pytest.mark.usefixtures("history")
def test_a_role_at_the_root_reads_the_whole_policy(policy: Policy, tree: TreeColumns, charlie: Actor) -> None:
    make_grant(charlie.user, tree.uuid(0), "lead", policy=policy, verbs=["view_members"])
    assert {"inside", "outside", "both", "settings"} <= set(reasons_read_by(charlie))


@pytest.mark.usefixtures("history")
def test_administrators_read_all_rows_and_others_their_own(alice: Actor, charlie: Actor) -> None:
    audit.record(actor=charlie, verb="token.made", at=AT, reason="mine")
    audit.record(actor=SYSTEM, verb="user.made", at=AT, reason="somebody else's")
    assert set(reasons_read_by(charlie)) == {"mine"}
    assert {"mine", "somebody else's", "settings"} <= set(reasons_read_by(alice))


@pytest.mark.usefixtures("history")
def test_current_rights_decide_on_past_rows(bob: Actor) -> None:
    Grant.objects.all().delete()
    assert reasons_read_by(bob) == []


def test_rows_of_a_moved_user_need_rights_at_both_parents(policy: Policy, bob: Actor) -> None:
    there = uid_of(policy, "/physics/bob")
    publish(policy, edit("/physics/bob", 5), reason="before")
    publish(policy, {"op": "move", "entry": "/physics/bob", "parent": "/biology/lab"}, reason="the move")
    publish(policy, edit("/biology/lab/bob", 6), reason="after")
    assert reasons_read_by(bob) == []
    publish(policy, {"op": "move", "entry": there, "parent": "/physics"}, reason="back")
    assert reasons_read_by(bob) == []  # his place in between isn't theirs to know of
    assert reasons_read_by(COMMAND, entries=frozenset([UUID(there)])).count("the move") >= 1


def test_rows_of_an_archived_user_need_rights_at_the_last_parent(policy: Policy, bob: Actor) -> None:
    publish(policy, edit("/physics/bob", 5), reason="before")
    publish(policy, edit("/biology/lab", 5), reason="elsewhere")
    publish(
        policy, {"op": "archive", "entry": "/physics/bob"}, {"op": "lock", "entry": "/physics/alice"}, reason="gone"
    )
    publish(policy, {"op": "archive", "entry": "/biology"}, reason="elsewhere too")
    assert set(reasons_read_by(bob)) == {"before", "gone"}


def test_drafts_of_others_are_not_in_the_log(policy: Policy, bob: Actor, alice: Actor) -> None:
    draft = services.make_change_set(
        policy_slug="grid",
        new=NewChangeSet(operations=[edit("/physics/bob", 9)], reason="secret plan"),
        at=AT,
        actor=alice,
    )
    assert "secret plan" not in reasons_read_by(bob)
    services.propose_change_set(id=draft.pk, version=1, at=AT, actor=alice)
    assert "secret plan" in reasons_read_by(bob)


def test_siblings_that_gave_shares_are_listed(policy: Policy, alice: Actor, bob: Actor) -> None:
    giver = uid_of(policy, "/physics/alice")
    publish(policy, edit("/physics/bob", {"percent": 90, "from": [giver]}), actor=alice, reason="taken")
    assert "taken" in reasons_read_by(bob)
    assert "taken" in reasons_read_by(alice, entries=frozenset([UUID(giver)]))


@pytest.mark.usefixtures("history")
def test_the_log_is_filtered_by_actor_action_entry_time_and_channel(policy: Policy, alice: Actor) -> None:
    later = Actor(user=alice.user, via="api")
    audit.record(
        actor=later,
        verb="grant.given",
        at=AT + timedelta(days=2),
        policy_slug="grid",
        reason="a role",
        outcome=AuditEvent.Outcome.REFUSED,
    )
    assert reasons_read_by(alice, verb="grant") == ["a role"]
    assert reasons_read_by(alice, verb="gra") == []
    assert reasons_read_by(alice, outcome="refused") == ["a role"]
    assert reasons_read_by(alice, via="api") == ["a role"]
    assert reasons_read_by(alice, since=AT + timedelta(days=1)) == ["a role"]
    assert "a role" not in reasons_read_by(alice, until=AT + timedelta(days=1))
    assert "a role" in reasons_read_by(alice, who="ALI")
    assert reasons_read_by(alice, who="nobody") == []
    assert set(reasons_read_by(alice, text="outside")) == {"outside"}
    physics = UUID(uid_of(policy, "/physics"))
    assert set(reasons_read_by(alice, entries=frozenset([physics]))) == {"inside", "both", "the entry itself"}
    assert reasons_read_by(alice, policy_slug="other") == []


def test_long_logs_are_paged_without_gaps(policy: Policy, alice: Actor, bob: Actor) -> None:
    for n in range(450):
        audit.record(actor=bob if n % 3 else alice, verb="token.made", at=AT, reason=str(n))
    reader, seen, before = AuditReader(bob, AT), [], None
    while True:
        page = reader.page(AuditFilter(verb="token"), before=before, limit=60)
        seen += [event.reason for event in page.events]
        if page.next_before is None:
            break
        before = page.next_before
    assert seen == [str(n) for n in range(449, -1, -1) if n % 3]
    assert [event.reason for event in reader.every(AuditFilter(verb="token"))] == seen
    assert reader.count(AuditFilter(verb="token")) == AuditCount(300, 0, is_all=True)
    assert reader.count(AuditFilter(verb="token"), most=100) == AuditCount(100, 0, is_all=False)


def test_an_invisible_row_is_not_found(policy: Policy, alice: Actor, bob: Actor, charlie: Actor) -> None:
    publish(policy, edit("/physics/bob", 5), actor=alice)
    row = AuditEvent.objects.latest("id").pk
    assert AuditReader(bob, AT).event(row).pk == row
    for actor, id in ((charlie, row), (bob, 1), (alice, 10**6), (alice, 0), (alice, 2**70)):
        with pytest.raises(NotFound):
            AuditReader(actor, AT).event(id)


def bound(actor: Actor, *scopes: str, **bounds: Any) -> Actor:
    return Actor(user=actor.user, via="api", token=TokenBounds("fsh_x", frozenset(scopes), **bounds))


@pytest.mark.usefixtures("history")
def test_a_token_reads_within_its_limits(policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor) -> None:
    physics = tree.index_of_path("/physics")
    assert physics is not None
    narrow = bound(alice, "policies:read", policy_slug="grid", subtree_uid=tree.uuid(physics))
    assert set(reasons_read_by(narrow)) == {"inside", "the entry itself"}
    assert set(reasons_read_by(bound(bob, "policies:read"))) == {"inside", "the entry itself"}
    assert set(reasons_read_by(bound(alice, "self:read"))) >= {
        "inside",
        "outside",
        "both",
        "settings",
    }  # alice did it all
    assert reasons_read_by(bound(bob, "policies:read", policy_slug="other")) == []
    with pytest.raises(NotAllowed):
        reasons_read_by(bound(alice, "usage:write"))


@pytest.mark.usefixtures("history")
def test_a_self_scoped_token_shows_no_actions_of_others(bob: Actor) -> None:
    assert reasons_read_by(bound(bob, "self:read")) == []
    assert set(reasons_read_by(bound(bob, "policies:write"))) == {"inside", "the entry itself"}


@pytest.mark.usefixtures("history")
def test_token_limits_above_the_grant_do_not_extend_it(policy: Policy, tree: TreeColumns, bob: Actor) -> None:
    whole = bound(bob, "policies:read", policy_slug="grid", subtree_uid=tree.uuid(0))
    assert set(reasons_read_by(whole)) == {"inside", "the entry itself"}
    elsewhere = tree.index_of_path("/biology")
    assert elsewhere is not None
    assert reasons_read_by(bound(bob, "policies:read", policy_slug="grid", subtree_uid=tree.uuid(elsewhere))) == []


@pytest.mark.usefixtures("history")
def test_a_viewer_of_totals_cannot_read_the_log(policy: Policy, tree: TreeColumns, charlie: Actor) -> None:
    grant = make_grant(charlie.user, tree.uuid(0), "viewer", policy=policy, verbs=["view_aggregate"])
    assert reasons_read_by(charlie) == []
    Grant.objects.filter(pk=grant.pk).update(verbs=["view_aggregate", "view_members"])
    assert "inside" in reasons_read_by(charlie)


def test_paths_are_resolved_only_if_visible(policy: Policy, bob: Actor, charlie: Actor) -> None:
    reader = AuditReader(bob, AT)
    assert reader.entries_at("/physics/bob") == {UUID(uid_of(policy, "/physics/bob"))}
    assert reader.entries_at("/physics", "grid") == {UUID(uid_of(policy, "/physics"))}
    for path, slug in (("/biology", ""), ("/nothing", ""), ("/", ""), ("/physics", "other")):
        assert reader.entries_at(path, slug) == frozenset()
    assert AuditReader(charlie, AT).entries_at("/physics") == frozenset()


def test_a_page_has_a_search_limit_and_a_cursor_to_continue(
    alice: Actor, bob: Actor, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.policies.audit_reading._MOST_ROWS_CHECKED", 200)
    publish(policy, edit("/physics/bob", 5), actor=alice, reason="long ago")
    for n in range(250):
        audit.record(actor=alice, verb="recompute.requested", at=AT, policy_slug="grid", reason=str(n))
    first = AuditReader(bob, AT).page(AuditFilter(), limit=50)
    assert first.events == []
    assert first.next_before is not None
    then = AuditReader(bob, AT).page(AuditFilter(), before=first.next_before, limit=50)
    assert [event.reason for event in then.events if event.verb == "policy.published"] == ["long ago"]
    assert not AuditReader(bob, AT).count(AuditFilter()).is_all
