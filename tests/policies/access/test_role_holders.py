"""What lists and explanations of grants say, and who may give what to whom until when."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group

from apps.accounts.actor import COMMAND, Actor, TokenBounds
from apps.accounts.models import AuditEvent, Token, User
from apps.accounts.services import NewToken, make_token
from apps.core.errors import Invalid, NotAllowed, NotFound
from apps.policies import services
from apps.policies.access.authority import FOREVER
from apps.policies.access.delegation import end_grant, list_dependent_grants, tag_of
from apps.policies.access.reader_grants import grant_owner_read
from apps.policies.access.role_holders import (
    explain_access,
    get_grant_line,
    list_grants,
    longest_end,
    may_grant,
    name_of,
)
from apps.policies.access.scope import visible_entries
from apps.policies.models import Grant, Policy
from apps.policies.tree.columns import TreeColumns
from tests.grants import make_grant
from tests.instants import AT
from tests.policies.access.test_delegation import DAY, change, give, uid

pytestmark = pytest.mark.django_db


def test_the_root_is_named_as_its_policy_and_other_entries_by_their_names(
    policy: Policy, tree: TreeColumns, alice: Actor, charlie: Actor
) -> None:
    for path in ("/", "/physics", "/physics/bob"):
        give(alice, "charlie", path, "viewer")
    lines = list_grants(policy_slug="grid", at=AT, actor=alice)
    named = [("/", "Grid"), ("/physics", "physics"), ("/physics/bob", "bob")]
    assert [(line.path, line.entry_name) for line in lines] == named
    access = explain_access(
        policy_slug="grid", entry_uid=uid(tree, "/physics/bob"), username="charlie", at=AT, actor=alice
    )
    assert [(step.path, step.name) for step in access.steps] == named
    assert get_grant_line(policy_slug="grid", grant_id=lines[1].grant.pk, at=AT, actor=alice) == lines[1]


def test_lists_are_of_an_entry_what_is_below_it_or_a_person(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    for name, path in (("dora", "/physics"), ("dora", "/physics/bob"), ("emil", "/physics"), ("emil", "/biology")):
        User.objects.get_or_create(username=name)
        give(alice, name, path, "viewer")

    def listed(**which: Any) -> list[tuple[str, str]]:
        lines = list_grants(policy_slug="grid", at=AT, actor=alice, **which)
        return [(line.path, name_of(line.grant)) for line in lines]

    at_physics, below = [("/physics", "dora"), ("/physics", "emil")], [("/physics/bob", "dora")]
    assert listed(entry_uid=uid(tree, "/physics")) == at_physics
    assert listed(entry_uid=uid(tree, "/physics"), below=True) == at_physics + below
    assert listed(username="dora") == [("/physics", "dora"), *below]
    assert listed(username="nobody") == listed(username="x\0") == []
    token = TokenBounds("fsh_x", frozenset({"policies:read"}), "grid", uid(tree, "/physics/bob"))
    bound = Actor(alice.user, "api", token)
    assert [line.path for line in list_grants(policy_slug="grid", at=AT, actor=bound)] == ["/physics/bob"]


def test_a_right_is_given_until_the_first_of_its_verbs_ends_and_only_by_delegates(
    policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    give(alice, "charlie", "/biology", "lead")
    rights = {actor.name: may_grant(policy_slug="grid", at=AT, actor=actor) for actor in (alice, bob, charlie)}
    assert rights == {"alice": True, "bob": True, "charlie": False}
    reader = Actor(alice.user, "api", TokenBounds("fsh_x", frozenset({"policies:read"})))
    assert not may_grant(policy_slug="grid", at=AT, actor=reader)

    def longest(actor: Actor, *verbs: str) -> datetime:
        return longest_end(policy_slug="grid", entry_uid=uid(tree, "/physics/bob"), verbs=verbs, at=AT, actor=actor)

    assert longest(alice, "edit_shares") == longest(bob, "edit_shares") == FOREVER
    make_grant(bob.user, uid(tree, "/physics"), "admin", verbs=["export"], expires_at=AT + 3 * DAY)
    assert longest(bob, "edit_shares", "export") == AT + 3 * DAY
    Grant.objects.filter(role="manager").update(expires_at=AT + DAY)
    assert longest(bob, "export") == AT + DAY, "the right to delegate ends first"


def test_an_end_lies_in_the_future_also_of_what_is_shortened(policy: Policy, alice: Actor, bob: Actor) -> None:
    own = Grant.objects.get()
    for actor in (bob, alice):
        for end in (AT, AT - DAY):
            with pytest.raises(Invalid, match="in the future"):
                change(actor, own, expires_at=end)
    assert change(bob, own, expires_at=AT + timedelta(seconds=1)).expires_at == AT + timedelta(seconds=1)


def test_a_grant_is_extended_by_another_end_alone_and_changed_by_all_else(
    policy: Policy, alice: Actor, bob: Actor
) -> None:
    grant = Grant.objects.get()
    changes: list[dict[str, Any]] = [
        {"reason": "Another one"},
        {"expires_at": AT + DAY},
        {"expires_at": AT + DAY, "reason": "And another"},
        {"verbs": ["edit_shares"], "expires_at": AT + 2 * DAY},
    ]
    for each in changes:
        grant = change(alice, grant, **each)
    logged = AuditEvent.objects.filter(verb__startswith="grant.").order_by("pk").values_list("verb", flat=True)
    assert list(logged) == ["grant.changed", "grant.extended", "grant.changed", "grant.changed"]
    assert change(alice, grant, reason=grant.reason) == grant
    assert AuditEvent.objects.filter(verb__startswith="grant.").count() == len(changes), "nothing was changed"


def test_who_only_reduces_a_grant_of_another_does_not_become_its_giver(
    policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor
) -> None:
    User.objects.create_user("dora")
    grant = give(alice, "dora", "/physics/alice", "lead")
    reduced = change(bob, grant, verbs=["view_aggregate", "edit_shares"], expires_at=AT + DAY)
    assert reduced.granted_by == alice.user
    assert change(bob, reduced, expires_at=AT + 2 * DAY).granted_by == bob.user, "but who extends it does"


def test_an_explanation_says_whether_everybody_sees_the_tree_and_of_whom_it_is(
    policy: Policy, tree: TreeColumns, alice: Actor
) -> None:
    where: dict[str, Any] = {"policy_slug": "grid", "entry_uid": tree.uuid(0), "at": AT, "actor": alice}
    assert not explain_access(**where, username="").is_open
    Policy.objects.update(visibility=Policy.Visibility.TREE)
    assert explain_access(**where, username="alice").is_open
    for name in ("nobody", "a\0b"):
        with pytest.raises(NotFound, check=lambda error: error.code == "no_such_person"):
            explain_access(**where, username=name)
    of_people = make_grant(None, tree.uuid(0), "viewer", people="staff")
    assert [name_of(grant) for grant in (of_people, Grant(user=alice.user))] == ["staff", "alice"]


def test_a_reason_has_at_most_512_characters(policy: Policy, alice: Actor, bob: Actor) -> None:
    grant = Grant.objects.get()
    assert change(alice, grant, reason="r" * 512).reason == "r" * 512
    with pytest.raises(Invalid, match="at most 512 characters"):
        change(alice, Grant.objects.get(), reason="r" * 513)


def test_only_administrators_let_everybody_see_and_nothing_but_see(policy: Policy, alice: Actor, bob: Actor) -> None:
    terms: dict[str, Any] = {"verbs": ["view_aggregate", "view_members"]}
    with pytest.raises(NotAllowed, check=lambda error: error.code == "site_only"):
        give_everybody(bob, "/physics/bob", **terms)
    for verb in ("edit_shares", "map_accounts", "publish"):
        with pytest.raises(Invalid, match=verb):
            give_everybody(alice, "/physics", verbs=["view_aggregate", verb])
    grant = give_everybody(alice, "/physics", **terms)
    assert (grant.user, grant.people, name_of(grant)) == (None, "*", "all signed-in users")
    with pytest.raises(Invalid, match="edit_shares"):
        change(alice, grant, verbs=["edit_shares"])


def give_everybody(actor: Actor, path: str, **more: Any) -> Grant:
    return give(actor, "", path, "viewer", people="*", **more)


def test_what_administrators_gave_depends_on_no_grant(policy: Policy, alice: Actor, bob: Actor, charlie: Actor) -> None:
    own = Grant.objects.get()
    by_bob, by_alice = give(bob, "charlie", "/physics", "viewer"), give(alice, "charlie", "/physics", "lead")
    assert list_dependent_grants(policy_slug="grid", grant_id=own.pk, at=AT, actor=alice) == [by_bob]
    end_grant(policy_slug="grid", grant_id=own.pk, tag=tag_of(own), at=AT, actor=bob)
    assert list(Grant.objects.all()) == [by_alice]


def test_what_is_kept_is_taken_over_by_who_ends_a_grant_but_not_for_themselves(
    policy: Policy, bob: Actor, charlie: Actor
) -> None:
    User.objects.create_user("dora")
    own, grant = Grant.objects.get(), give(bob, "charlie", "/physics", "manager")
    for_bob, for_dora = give(charlie, "bob", "/physics", "viewer"), give(charlie, "dora", "/physics/bob", "viewer")
    assert list_dependent_grants(policy_slug="grid", grant_id=grant.pk, at=AT, actor=bob) == [for_bob, for_dora]
    end_grant(policy_slug="grid", grant_id=grant.pk, tag=tag_of(grant), given_on="keep", at=AT, actor=bob)
    assert list(Grant.objects.order_by("pk").values_list("pk", "granted_by__username")) == [
        (own.pk, None),
        (for_dora.pk, "bob"),
    ]
    logged = AuditEvent.objects.filter(verb__startswith="grant.").order_by("pk").values_list("verb", flat=True)
    assert list(logged)[-3:] == ["grant.adopted", "grant.ended", "grant.ended"]


# --- What the owner of a scheduler's token may read


def token_of(owner: Actor, *scopes: str, policy_slug: str = "", subtree: Any = None, days: int = 30) -> Token:
    assert owner.user is not None
    new = NewToken("slurm", scopes, owner.user, policy_slug=policy_slug, subtree_uid=subtree, days=days)
    return make_token(new, at=AT, actor=COMMAND)[0]


def named(policy: Policy, tree: TreeColumns, actor: Actor, at: datetime) -> set[str]:
    sight = visible_entries(policy=policy, tree=tree, actor=actor, at=at)
    return {tree.path(i) for i in range(len(tree)) if sight.may_name_below(i)}


@pytest.mark.parametrize("path", ["/", "/physics"])
def test_the_owner_of_a_token_sees_names_where_it_reads_until_it_ends(
    policy: Policy, tree: TreeColumns, charlie: Actor, path: str
) -> None:
    subtree = None if path == "/" else uid(tree, path)
    token = token_of(charlie, "priorities:read", policy_slug="grid", subtree=subtree)
    assert grant_owner_read(token, at=AT, actor=COMMAND) == [policy]
    below = {entry for entry in map(tree.path, range(len(tree))) if entry.startswith(path)}
    last = token.expires_at - timedelta(seconds=1)
    assert named(policy, tree, charlie, AT) == named(policy, tree, charlie, last) == below
    assert named(policy, tree, charlie, token.expires_at) == set()
    assert grant_owner_read(token, at=AT, actor=COMMAND) == [], "the right is there"
    longer = token_of(charlie, "priorities:read", policy_slug="grid", subtree=subtree, days=60)
    assert grant_owner_read(longer, at=AT, actor=COMMAND) == [policy]
    assert named(policy, tree, charlie, longer.expires_at - timedelta(seconds=1)) == below
    assert Grant.objects.count() == 1, "the grant was extended"


def test_a_grant_without_end_or_of_totals_gets_the_right_besides(
    policy: Policy, tree: TreeColumns, charlie: Actor
) -> None:
    make_grant(charlie.user, tree.uuid(0), "viewer", verbs=["view_aggregate"], expires_at=None)
    token = token_of(charlie, "priorities:read")
    assert grant_owner_read(token, at=AT, actor=COMMAND) == [policy]
    grant = Grant.objects.get()
    assert (sorted(grant.verbs), grant.expires_at) == (["view_aggregate", "view_members"], None)


def test_no_right_is_given_that_nobody_needs(policy: Policy, tree: TreeColumns, alice: Actor, charlie: Actor) -> None:
    services.make_policy(slug="open", name="Open", at=AT, actor=COMMAND)
    Policy.objects.filter(slug="open").update(visibility=Policy.Visibility.TREE)
    for token in (
        token_of(alice, "priorities:read"),
        token_of(charlie, "usage:write"),
        token_of(charlie, "priorities:read", policy_slug="open"),
    ):
        assert grant_owner_read(token, at=AT, actor=COMMAND) == []
    assert charlie.user is not None
    charlie.user.groups.add(Group.objects.create(name="staff"))
    make_grant(None, tree.uuid(0), "viewer", policy=policy, people="staff", verbs=["view_members"])
    below = token_of(charlie, "priorities:read", policy_slug="grid", subtree=uid(tree, "/physics"))
    assert grant_owner_read(below, at=AT, actor=COMMAND) == [], "by a group, above"
    assert Grant.objects.count() == 1
