"""Rights are delegated downward: never more than one holds, never for longer, and never to oneself."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection, transaction
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from apps.accounts.actor import COMMAND, SYSTEM, Actor, TokenBounds
from apps.accounts.models import AuditEvent
from apps.core.errors import Archived, Conflict, DomainError, Invalid, NotAllowed, NotFound, Stale
from apps.policies import services
from apps.policies.access.authority import VERBS_OF_ROLE, GrantChange, GrantTerms, Lineages, until_of
from apps.policies.access.delegation import DAYS, change_grant, create_grant, end_grant, list_dependent_grants, tag_of
from apps.policies.access.role_holders import GrantState, ending_soon, explain_access, list_grants
from apps.policies.access.scope import Verb
from apps.policies.models import Grant, Policy
from apps.policies.records import NewChangeSet
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from tests.examples import examples
from tests.instants import AT
from tests.policies.conftest import person
from tests.policies.published import GRID

pytestmark = pytest.mark.django_db
YEAR = timedelta(days=DAYS)
DAY = timedelta(days=1)


def uid(tree: TreeColumns, path: str) -> UUID:
    i = tree.index_of_path(path)
    assert i is not None, path
    return tree.uuid(i)


def give(actor: Actor, to: str, path: str, role: str = "lead", **more: Any) -> Grant:
    tree = load_tree(Policy.objects.get(slug="grid"))
    given: dict[str, Any] = {"people": to} if ":" in to else {"username": to}
    at = more.pop("at", AT)
    return create_grant(
        policy_slug="grid",
        entry_uid=uid(tree, path),
        terms=GrantTerms(role=role, reason="for the test", **given, **more),
        at=at,
        actor=actor,
    )


def change(actor: Actor, grant: Grant, **more: Any) -> Grant:
    at, given_on = more.pop("at", AT), more.pop("given_on", "end")
    return change_grant(
        policy_slug="grid",
        grant_id=grant.pk,
        tag=tag_of(grant),
        change=GrantChange(**more),
        given_on=given_on,
        at=at,
        actor=actor,
    )


def end(actor: Actor, grant: Grant, **more: Any) -> None:
    end_grant(policy_slug="grid", grant_id=grant.pk, tag=tag_of(grant), at=AT, actor=actor, **more)


def refused(code: str = "not_allowed") -> Any:
    return pytest.raises(NotAllowed, check=lambda error: error.code == code)


def held(actor: Actor, path: str, *, at: Any = AT) -> set[str]:
    tree = load_tree(Policy.objects.get(slug="grid"))
    name = actor.user.username if actor.user else ""
    access = explain_access(policy_slug="grid", entry_uid=uid(tree, path), username=name, at=at, actor=SYSTEM)
    return {answer.verb for answer in access.verbs if answer.is_held}


# --- Giving


def test_a_role_assigned_by_an_administrator_applies_below_its_entry(
    policy: Policy, alice: Actor, charlie: Actor
) -> None:
    grant = give(alice, "charlie", "/physics", "manager")
    assert grant.verbs == [verb for verb in Verb.values if verb in VERBS_OF_ROLE["manager"]]
    assert held(charlie, "/physics/bob") == set(VERBS_OF_ROLE["manager"])
    assert held(charlie, "/biology") == set()
    assert grant.expires_at == AT + YEAR  # the suggested end


def test_a_grant_without_end_must_be_requested_explicitly(policy: Policy, alice: Actor, charlie: Actor) -> None:
    assert give(alice, "charlie", "/physics", expires_at=None).expires_at is None


@pytest.mark.paper("4.66")
def test_grants_are_audited_with_their_reason(policy: Policy, alice: Actor, charlie: Actor) -> None:
    grant = give(alice, "charlie", "/physics")
    event = AuditEvent.objects.latest("id")
    assert (event.verb, event.outcome, event.subject) == ("grant.given", "done", "charlie")
    assert (event.entry_uid, event.reason, event.details["verbs"]) == (grant.entry_uid, "for the test", grant.verbs)


def test_rights_can_be_chosen_individually(policy: Policy, alice: Actor, charlie: Actor) -> None:
    grant = give(alice, "charlie", "/physics", "viewer", verbs=["view_members", "view_aggregate"])
    assert grant.verbs == ["view_aggregate", "view_members"]
    for wrong in ([], ["fly"]):
        with pytest.raises(Invalid):
            give(alice, "charlie", "/biology", verbs=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "king"},
        {"expires_at": AT},
        {"expires_at": AT - DAY},
        {"people": "oidc:x"},
        {"reason": " "},
        {"username": "nobody-here"},
        {"username": ""},
        {"reason": "x" * 513},
    ],
)
def test_an_invalid_grant_is_refused_by_field(
    policy: Policy, tree: TreeColumns, alice: Actor, charlie: Actor, wrong: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"username": "charlie", "role": "lead", "reason": "r", **wrong}
    with pytest.raises(Invalid) as caught:
        create_grant(policy_slug="grid", entry_uid=uid(tree, "/physics"), at=AT, actor=alice, terms=GrantTerms(**given))
    assert caught.value.fields[0].where in {*wrong, "username"}
    assert not Grant.objects.exists()


@pytest.mark.paper("4.6")
def test_a_delegate_grants_held_rights_at_and_below_their_entry(policy: Policy, bob: Actor, charlie: Actor) -> None:
    give(bob, "charlie", "/physics/alice")
    give(bob, "charlie", "/physics", "viewer", expires_at=None)  # bob's own right has no end
    assert held(charlie, "/physics/alice") == set(VERBS_OF_ROLE["lead"])


@pytest.mark.parametrize(("path", "error"), [("/", NotAllowed), ("/biology", NotFound), ("/biology/lab", NotFound)])
@pytest.mark.paper("4.63")
def test_a_delegate_grants_nothing_above_or_beside_their_entry(
    policy: Policy, bob: Actor, charlie: Actor, path: str, error: type[DomainError]
) -> None:
    with pytest.raises(error):
        give(bob, "charlie", path, "viewer")


def test_a_grant_cannot_exceed_the_rights_of_its_author(policy: Policy, bob: Actor, charlie: Actor) -> None:
    with refused("more_than_own"):
        give(bob, "charlie", "/physics", "admin")
    with refused("more_than_own"):
        give(bob, "charlie", "/physics/alice", "viewer", verbs=["mount"])


def test_granting_needs_the_right_to_delegate(policy: Policy, alice: Actor, charlie: Actor) -> None:
    person("dora")
    give(alice, "charlie", "/physics", "lead")
    with refused():
        give(charlie, "dora", "/physics/bob", "viewer")


def test_a_grant_cannot_outlast_the_right_of_its_author(policy: Policy, bob: Actor, charlie: Actor) -> None:
    Grant.objects.update(expires_at=AT + 30 * DAY)
    assert give(bob, "charlie", "/physics", "viewer").expires_at == AT + 30 * DAY  # what is suggested fits
    for longer in (None, AT + 31 * DAY):
        with refused("longer_than_own"):
            give(bob, "charlie", "/physics/bob", "viewer", expires_at=longer)


def test_the_latest_possible_end_is_that_of_the_right_that_ends_first(
    policy: Policy, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    give(alice, "bob", "/", "viewer", verbs=["mount"], expires_at=AT + 5 * DAY)
    assert give(bob, "charlie", "/physics", "viewer", verbs=["mount"]).expires_at == AT + 5 * DAY


def test_an_expired_right_cannot_be_granted(policy: Policy, bob: Actor, charlie: Actor) -> None:
    Grant.objects.update(expires_at=AT)
    with pytest.raises(NotFound):
        give(bob, "charlie", "/physics", "viewer")


def test_users_cannot_grant_roles_to_themselves_or_their_groups(policy: Policy, bob: Actor) -> None:
    assert bob.user is not None
    bob.user.groups.add(Group.objects.create(name="oidc:physics"))
    for to in ("bob", "oidc:physics"):
        with refused("own_grant"):
            give(bob, to, "/physics/bob", "viewer")


def test_a_role_is_granted_once_per_entry(policy: Policy, alice: Actor, charlie: Actor) -> None:
    give(alice, "charlie", "/physics")
    with pytest.raises(Conflict, match="already"):
        give(alice, "charlie", "/physics")
    give(alice, "charlie", "/physics", "viewer")


def test_refused_grants_are_audited(policy: Policy, bob: Actor, charlie: Actor) -> None:
    with refused("more_than_own"):
        give(bob, "charlie", "/physics", "admin")
    event = AuditEvent.objects.latest("id")
    assert (event.verb, event.outcome, event.actor_name, event.subject) == ("grant.given", "refused", "bob", "charlie")


def test_a_grant_to_a_sign_in_group_applies_to_its_members(policy: Policy, alice: Actor, charlie: Actor) -> None:
    grant = give(alice, "LDAP: cn=HPC, ou=Groups", "/physics", "viewer")
    assert grant.people == "ldap:cn=hpc,ou=groups"
    assert held(charlie, "/physics") == set()
    assert charlie.user is not None
    charlie.user.groups.add(Group.objects.create(name=grant.people))
    assert held(charlie, "/physics") == {"view_aggregate"}


def test_a_token_grants_only_inside_its_subtree_and_scope(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    person("dora")
    physics = uid(tree, "/physics")

    def token(*scopes: str) -> Actor:
        return Actor(alice.user, "api", TokenBounds("fsh_x", frozenset(scopes), "grid", physics))

    give(token("policies:write"), "dora", "/physics/bob", "viewer")
    with pytest.raises(NotFound):
        give(token("policies:write"), "dora", "/biology", "viewer")
    with pytest.raises(NotAllowed):
        give(token("policies:read"), "dora", "/physics", "viewer")
    whole = give(alice, "dora", "/", "viewer")
    with pytest.raises(NotFound):
        end(token("policies:write"), whole)
    assert {line.path for line in list_grants(policy_slug="grid", at=AT, actor=token("policies:read"))} == {
        "/physics/bob"
    }


# --- Changing and ending


def test_users_can_reduce_but_not_extend_their_own_grant(policy: Policy, bob: Actor) -> None:
    grant = Grant.objects.get()
    for more in ({"role": "admin"}, {"verbs": [*grant.verbs, "mount"]}):
        with refused("own_grant"):
            change(bob, grant, **more)
    less = change(bob, grant, verbs=["view_aggregate", "edit_shares"], expires_at=AT + DAY)
    with refused("own_grant"):
        change(bob, less, expires_at=AT + 2 * DAY)
    end(bob, less)
    assert not Grant.objects.exists()


def test_the_reason_of_a_grant_is_that_of_its_giver(policy: Policy, alice: Actor, bob: Actor, charlie: Actor) -> None:
    own = Grant.objects.get()
    for more in ({}, {"expires_at": AT + DAY}):
        with refused("own_grant"):
            change(bob, own, reason="Given for another reason", **more)
    person("dora")
    given = give(bob, "charlie", "/physics", "viewer")
    assert change(bob, given, reason="By its giver").granted_by == bob.user
    from_above = give(alice, "dora", "/physics/alice", "viewer")
    changed = change(bob, from_above, reason="By another manager")
    assert changed.granted_by == bob.user, "who writes the reason gives the grant from then on"


def test_a_manager_of_the_same_entry_cannot_change_a_grant_of_another(policy: Policy, alice: Actor, bob: Actor) -> None:
    person("dora")
    grant = give(alice, "dora", "/physics", "manager")
    with refused("not_your_grant"):
        change(bob, grant, role="viewer")
    with refused("not_your_grant"):
        end(bob, grant)


def test_the_author_and_managers_above_can_change_a_grant(
    policy: Policy, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    person("dora")
    given = give(bob, "charlie", "/physics", "viewer")
    change(bob, given, role="lead")
    from_above = give(alice, "dora", "/physics/alice", "viewer")
    changed = change(bob, from_above, role="lead")
    assert changed.granted_by == bob.user  # it depends on bob's right from now on
    assert AuditEvent.objects.latest("id").details["before"]["role"] == "viewer"


def test_managers_above_change_only_grants_they_could_have_made(policy: Policy, alice: Actor, bob: Actor) -> None:
    person("dora")
    grant = give(alice, "dora", "/physics/alice", "admin")
    with refused("not_your_grant"):
        end(bob, grant)


def test_a_wider_role_must_be_held_until_its_end(policy: Policy, alice: Actor, bob: Actor) -> None:
    person("dora")
    Grant.objects.update(expires_at=AT + 30 * DAY)
    grant = give(alice, "dora", "/physics/alice", "viewer", expires_at=AT + 60 * DAY)
    with refused("longer_than_own"):
        change(bob, grant, role="lead")
    change(bob, grant, role="lead", expires_at=AT + 30 * DAY)


def test_a_grant_is_extended_up_to_the_end_of_the_own_right(policy: Policy, bob: Actor, charlie: Actor) -> None:
    grant = give(bob, "charlie", "/physics", "viewer", expires_at=AT + DAY)
    assert change(bob, grant, expires_at=AT + YEAR).expires_at == AT + YEAR
    assert AuditEvent.objects.latest("id").verb == "grant.extended"
    Grant.objects.filter(user=bob.user).update(expires_at=AT + 400 * DAY)
    grant.refresh_from_db()
    with refused("longer_than_own"):
        change(bob, grant, expires_at=AT + 401 * DAY)


def test_a_stale_version_of_a_grant_is_refused(policy: Policy, alice: Actor, charlie: Actor) -> None:
    grant = give(alice, "charlie", "/physics")
    change(alice, grant, role="viewer")
    with pytest.raises(Stale):
        change(alice, grant, role="manager")
    with pytest.raises(Stale):
        end(alice, grant)


def test_an_invisible_grant_is_not_found(policy: Policy, alice: Actor, bob: Actor, charlie: Actor) -> None:
    grant = give(alice, "charlie", "/biology")
    with pytest.raises(NotFound):
        end(bob, grant)
    with pytest.raises(NotFound):
        end_grant(policy_slug="grid", grant_id=2**70, tag="x", at=AT, actor=alice)


@pytest.mark.parametrize("choice", ["keep", "end"])
def test_dependent_grants_end_with_their_grant_or_are_transferred(
    policy: Policy, alice: Actor, bob: Actor, charlie: Actor, choice: Any
) -> None:
    dora = person("dora")
    person("emil")
    grant = give(alice, "charlie", "/physics", "manager")
    beside = give(bob, "emil", "/physics/bob", "viewer")
    middle = give(charlie, "dora", "/physics/alice", "manager")
    leaf = give(dora, "emil", "/physics/alice", "lead")
    assert set(list_dependent_grants(policy_slug="grid", grant_id=grant.pk, at=AT, actor=alice)) == {middle, leaf}
    end(alice, grant, given_on=choice)
    assert set(Grant.objects.exclude(user=bob.user)) == ({beside, middle, leaf} if choice == "keep" else {beside})
    assert AuditEvent.objects.filter(verb="grant.ended").count() == (1 if choice == "keep" else 3)
    if choice == "keep":
        middle.refresh_from_db()
        leaf.refresh_from_db()
        assert (middle.granted_by, leaf.granted_by) == (alice.user, dora.user)


def test_mutual_grants_do_not_sustain_each_other(policy: Policy, alice: Actor, charlie: Actor) -> None:
    dora = person("dora")
    grant = give(alice, "charlie", "/physics", "manager")
    give(charlie, "dora", "/physics", "manager")
    give(dora, "charlie", "/physics", "lead")
    end(alice, grant)
    assert not Grant.objects.exists()


def test_giving_up_a_grant_ends_dependent_grants(policy: Policy, alice: Actor, charlie: Actor) -> None:
    person("dora")
    grant = give(alice, "charlie", "/physics", "manager")
    give(charlie, "dora", "/physics", "viewer")
    end(charlie, grant, given_on="keep")
    assert not Grant.objects.exists()


def test_a_shortened_grant_shortens_dependent_grants(policy: Policy, alice: Actor, charlie: Actor) -> None:
    person("dora")
    grant = give(alice, "charlie", "/physics", "manager")
    short = give(charlie, "dora", "/physics/bob", "viewer", expires_at=AT + DAY)
    give(charlie, "dora", "/physics/alice", "viewer", expires_at=AT + 9 * DAY)
    change(alice, grant, expires_at=AT + 2 * DAY)
    assert set(Grant.objects.exclude(user=charlie.user)) == {short}


# --- What is listed


def test_grants_stay_with_their_entry_through_renames_and_moves(policy: Policy, tree: TreeColumns, bob: Actor) -> None:
    lab = str(uid(tree, "/biology/lab"))
    operations = [
        {"op": "rename", "entry": "/physics", "name": "fysik"},
        {"op": "move", "entry": "/fysik", "parent": lab},
    ]
    draft = services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=operations, reason="r"), at=AT, actor=COMMAND
    )
    services.publish_change_set(id=draft.pk, version=1, at=AT, actor=COMMAND)
    assert held(bob, "/biology/lab/fysik/alice") == set(VERBS_OF_ROLE["manager"])
    assert [line.path for line in list_grants(policy_slug="grid", at=AT, actor=bob)] == ["/biology/lab/fysik"]


def test_a_grant_at_an_archived_entry_is_inactive_until_it_is_restored(
    policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    grant = give(bob, "charlie", "/physics/bob", "lead")
    for operation, state in (("archive", GrantState.DORMANT), ("restore", GrantState.ACTIVE)):
        operations = [{"op": operation, "entry": str(uid(tree, "/physics/bob"))}]
        draft = services.make_change_set(
            policy_slug="grid", new=NewChangeSet(operations=operations, reason="r"), at=AT, actor=alice
        )
        services.publish_change_set(id=draft.pk, version=1, at=AT, actor=alice)
        for actor in (alice, bob, charlie):
            line = next(each for each in list_grants(policy_slug="grid", at=AT, actor=actor) if each.grant == grant)
            assert (line.state, line.entry_name) == (state, "bob")
    assert line.path == "/physics/bob"
    with pytest.raises(Conflict):
        give(alice, "charlie", "/physics/bob", "lead")


def test_a_grant_at_an_archived_entry_can_be_ended(
    policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    grant = give(bob, "charlie", "/physics/bob", "lead")
    operations = [{"op": "archive", "entry": "/physics/bob"}]
    draft = services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=operations, reason="r"), at=AT, actor=alice
    )
    services.publish_change_set(id=draft.pk, version=1, at=AT, actor=alice)
    with pytest.raises(NotFound):
        create_grant(
            policy_slug="grid",
            entry_uid=grant.entry_uid,
            terms=GrantTerms(username="charlie", role="viewer", reason="r"),
            at=AT,
            actor=alice,
        )
    end(bob, grant)
    assert not Grant.objects.filter(pk=grant.pk).exists()


def test_grants_are_listed_by_end_with_expired_ones_first(policy: Policy, alice: Actor, charlie: Actor) -> None:
    ends = {"/physics": 10, "/biology": 3, "/biology/lab": 200, "/": None}
    for path, days in ends.items():
        give(alice, "charlie", path, "viewer", expires_at=None if days is None else AT + days * DAY)
    lines = list_grants(policy_slug="grid", at=AT + 5 * DAY, actor=alice)
    soon = ending_soon(lines)
    assert [(line.path, line.state.value) for line in soon] == [("/biology", "expired"), ("/physics", "ends_soon")]
    assert len(lines) == 4


def test_users_see_their_own_grants_and_delegates_those_at_their_entries(
    policy: Policy, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    give(alice, "charlie", "/biology", "viewer")
    give(bob, "charlie", "/physics/bob", "viewer")

    def paths(actor: Actor) -> list[str]:
        return [line.path for line in list_grants(policy_slug="grid", at=AT, actor=actor)]

    assert paths(alice) == ["/biology", "/physics", "/physics/bob"]
    assert paths(bob) == ["/physics", "/physics/bob"]
    assert paths(charlie) == ["/biology", "/physics/bob"]
    assert paths(person("dora")) == []


# --- A person's rights here, and why


def test_the_origin_of_a_right_is_explained_step_by_step(
    policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    give(alice, "charlie", "/", "viewer", expires_at=AT + DAY)
    give(bob, "charlie", "/physics/bob", "lead", expires_at=None)
    where: dict[str, Any] = {"policy_slug": "grid", "entry_uid": uid(tree, "/physics/bob")}
    access = explain_access(**where, username="charlie", at=AT, actor=bob)
    assert [step.path for step in access.steps] == ["/", "/physics", "/physics/bob"]
    assert [[grant.role for grant in step.grants] for step in access.steps] == [["viewer"], [], ["lead"]]
    by_verb = {answer.verb: answer for answer in access.verbs}
    assert [(g.path, g.is_inherited) for g in by_verb["view_aggregate"].grounds] == [
        ("/", True),
        ("/physics/bob", False),
    ]
    assert by_verb["view_aggregate"].until is None
    assert by_verb["edit_shares"].grounds[0].grant.granted_by == bob.user
    assert not by_verb["delegate"].is_held
    assert (access.may_see, access.may_divide, access.may_change_own, access.is_admin) == (True, True, False, False)


def test_users_check_their_own_rights_and_delegates_those_of_others(
    policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    give(alice, "charlie", "/physics", "viewer")
    where: dict[str, Any] = {"policy_slug": "grid", "entry_uid": uid(tree, "/physics"), "at": AT}
    assert explain_access(**where, username="", actor=charlie).person == charlie.user
    assert explain_access(**where, username="alice", actor=bob).is_admin
    with pytest.raises(NotAllowed):
        explain_access(**where, username="bob", actor=charlie)
    with pytest.raises(NotFound):
        explain_access(**where, username="no-such-person", actor=bob)
    with pytest.raises(NotFound):
        explain_access(policy_slug="grid", entry_uid=uid(tree, "/biology"), username="bob", at=AT, actor=bob)


def test_an_expired_grant_gives_no_right(policy: Policy, alice: Actor, charlie: Actor) -> None:
    give(alice, "charlie", "/physics", "viewer", expires_at=AT + DAY)
    assert held(charlie, "/physics", at=AT + DAY) == set()


def test_a_deactivated_user_has_no_rights(policy: Policy, alice: Actor, charlie: Actor) -> None:
    give(alice, "charlie", "/physics", "viewer")
    assert charlie.user is not None
    charlie.user.is_active = False
    charlie.user.save()
    assert held(charlie, "/physics") == set()


# --- Whatever delegates do


paths = st.sampled_from(["/", "/physics", "/physics/alice", "/physics/bob", "/biology", "/biology/lab"])
who = st.sampled_from(["p", "q", "r"])
to = st.sampled_from(["p", "q", "r", "oidc:team"])
some_verbs = st.lists(
    st.sampled_from(["view_aggregate", "edit_shares", "delegate", "publish"]), min_size=1, unique=True
)
days = st.one_of(st.none(), st.integers(1, 30))
number = st.integers(0, 100)


class Delegates(RuleBasedStateMachine):
    """p, q and r give rights to each other; an administrator gives the first, and withdraws some."""

    @initialize()
    def start(self) -> None:
        self.savepoint = transaction.atomic()
        self.savepoint.__enter__()
        services.make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
        services.publish_document(policy_slug="grid", document=GRID, reason="The start.", at=AT, actor=COMMAND)
        self.policy = Policy.objects.get(slug="grid")
        self.tree = load_tree(self.policy)
        self.lineages = Lineages(self.policy, self.tree)
        self.people = {name: person(name) for name in ("p", "q", "r")}
        self.admin = person("admin", is_admin=True)
        team = Group.objects.create(name="oidc:team")
        for name in ("q", "r"):
            user = self.people[name].user
            assert user is not None
            user.groups.add(team)

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.savepoint.__exit__(None, None, None)

    def _try(self, act: Any, *args: Any, **more: Any) -> None:
        with suppress(NotAllowed, NotFound, Conflict, Invalid):
            act(*args, **more)

    @rule(to=to, path=paths, verbs=some_verbs, days=days)
    def from_above(self, to: str, path: str, verbs: list[str], days: int | None) -> None:
        self._try(give, self.admin, to, path, "viewer", verbs=verbs, expires_at=self._end(days))

    @rule(by=who, to=to, path=paths, role=st.sampled_from(["viewer", "lead"]), verbs=some_verbs, days=days)
    def hand_on(self, by: str, to: str, path: str, role: str, verbs: list[str], days: int | None) -> None:
        self._try(give, self.people[by], to, path, role, verbs=verbs, expires_at=self._end(days))

    @rule(by=who, which=number, verbs=some_verbs, days=days, keep=st.booleans())
    def alter(self, by: str, which: int, verbs: list[str], days: int | None, keep: bool) -> None:
        if (grant := self._grant(which)) is not None:
            choice = "keep" if keep else "end"
            self._try(change, self.people[by], grant, verbs=verbs, expires_at=self._end(days), given_on=choice)

    @rule(by=st.sampled_from(["p", "q", "r", "admin"]), which=number, keep=st.booleans())
    def take(self, by: str, which: int, keep: bool) -> None:
        if (grant := self._grant(which)) is not None:
            actor = self.admin if by == "admin" else self.people[by]
            self._try(end, actor, grant, given_on="keep" if keep else "end")

    def _grant(self, which: int) -> Grant | None:
        grants = list(Grant.objects.select_related("policy", "user", "granted_by").order_by("pk"))
        return grants[which % len(grants)] if grants else None

    def _end(self, days: int | None) -> Any:
        return None if days is None else AT + days * DAY

    @invariant()
    def nobody_holds_more_than_was_given_from_above(self) -> None:
        grants = list(Grant.objects.select_related("granted_by"))
        given = [grant for grant in grants if grant.granted_by == self.admin.user]
        for grant in grants:
            lineage = self.lineages.of(grant.entry_uid)
            for verb in grant.verbs:
                assert any(
                    verb in root.verbs and root.entry_uid in lineage and until_of(root) >= until_of(grant)
                    for root in given
                ), (grant, verb)

    @invariant()
    def nobody_gave_to_themselves(self) -> None:
        assert not [grant for grant in Grant.objects.all() if grant.user_id and grant.user_id == grant.granted_by_id]


def test_no_sequence_of_delegations_exceeds_the_rights_granted_from_above() -> None:
    run_state_machine_as_test(Delegates, settings=examples(25, steps=15, suppress=HealthCheck))


@pytest.mark.django_db(transaction=True)
def test_grants_wait_for_one_another_and_for_publishing_in_their_policy(
    policy: Policy, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    """Else a right could be withdrawn while its holder delegates it."""
    grant = Grant.objects.get()
    person("dora")
    begun, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                Policy.objects.select_for_update(no_key=True).get(pk=policy.pk)
                begun.set()
                done.wait(60)
        finally:
            connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert begun.wait(60)
        for act in (
            lambda: give(bob, "charlie", "/physics", "viewer"),
            lambda: change(bob, grant, verbs=["view_members"]),
            lambda: end(bob, grant),
        ):
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '50ms'")
                with pytest.raises(OperationalError, match="lock timeout"), transaction.atomic():
                    act()
    finally:
        done.set()
        holder.join()
    assert Grant.objects.get() == grant
    give(bob, "charlie", "/physics", "viewer")


def test_no_grant_of_an_archived_policy_changes(policy: Policy, alice: Actor, bob: Actor) -> None:
    grant = Grant.objects.get()
    Policy.objects.update(archived_at=AT)
    for act in (
        lambda: change(alice, grant, verbs=["view_members"]),
        lambda: end(alice, grant),
    ):
        with pytest.raises((Archived, NotFound)):
            act()
    assert Grant.objects.get().verbs == grant.verbs


def test_a_grant_at_an_entry_that_nobody_knows_is_listed_below_the_root(policy: Policy, bob: Actor) -> None:
    Grant.objects.update(entry_uid=UUID(int=7))
    (line,) = list_grants(policy_slug="grid", at=AT, actor=SYSTEM)
    assert (line.path, line.entry_name, line.state) == ("/…/", "", GrantState.DORMANT)
