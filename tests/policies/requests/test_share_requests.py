"""Requests upward: sent by leads of a group, decided above it, and never a way to raise one's own share."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent
from apps.core.errors import Conflict, DomainError, Invalid, NotAllowed, NotFound
from apps.policies import services
from apps.policies.access.authority import VERBS_OF_ROLE
from apps.policies.changesets.lifecycle import comment_on
from apps.policies.models import ChangeSet, Comment, Grant, Policy, Revision
from apps.policies.records import NewChangeSet
from apps.policies.requests import share_requests
from apps.policies.requests.inbox import count_waiting, get_inbox, last_comments
from apps.policies.requests.requested_shares import MOST_OPEN_REQUESTS, target_of
from apps.policies.requests.share_requests import RequestedShares, RequestState, RequestTerms
from apps.policies.selectors import get_change_set
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import Dates
from tests.grants import make_grant
from tests.instants import AT
from tests.policies.conftest import person

LEAD = list(VERBS_OF_ROLE[Grant.Role.LEAD])


def uid_of(tree: TreeColumns, path: str) -> Any:
    i = tree.index_of_path(path)
    assert i is not None, path
    return tree.uuid(i)


def grant(policy: Policy, path: str, actor: Actor, verbs: list[str] = LEAD) -> None:
    make_grant(actor.user, uid_of(load_tree(policy), path), "lead", policy=policy, verbs=verbs)


def shares_at(policy: Policy, path: str) -> float:
    policy.refresh_from_db()
    tree = load_tree(policy)
    return tree.node(tree.index_of_path(path) or 0).shares or 0.0


@pytest.fixture
def lead(policy: Policy) -> Actor:
    actor = person("lena")
    grant(policy, "/physics", actor)
    return actor


@pytest.fixture
def manager(policy: Policy) -> Actor:
    """Allocation manager of the whole grid, no administrator."""
    actor = person("maria")
    grant(policy, "/", actor, list(VERBS_OF_ROLE[Grant.Role.MANAGER]))
    return actor


def ask(policy: Policy, actor: Actor, path: str = "/physics", **wish: Any) -> ChangeSet:
    policy.refresh_from_db()
    given: dict[str, Any] = {"shares": 40.0, "reason": "Two new postdocs.", **wish}
    if "percent" in given:
        del given["shares"]
    entry = uid_of(load_tree(policy), path)
    reason = given.pop("reason")
    return share_requests.request_shares(
        policy_slug="grid",
        entry_uid=entry,
        terms=RequestTerms(**given),
        reason=reason,
        at=AT,
        actor=actor,
    )


def test_a_request_is_a_proposed_change_set_for_the_own_entry(policy: Policy, lead: Actor) -> None:
    asked = ask(policy, lead, until=date(2027, 6, 30))
    physics = uid_of(load_tree(policy), "/physics")
    assert (asked.state, asked.origin, asked.asks_entry_uid) == ("proposed", "request", physics)
    assert [operation["op"] for operation in asked.operations] == ["set_shares", "set_dates"]
    assert asked.operations[1]["dates"]["at_end"] == 30.0
    assert share_requests.requested_shares_of(asked) == RequestedShares(40.0, date(2027, 6, 30))
    assert shares_at(policy, "/physics") == 30.0


def test_the_requester_cannot_publish(policy: Policy, lead: Actor) -> None:
    asked = ask(policy, lead)
    for step in (
        lambda: services.publish_change_set(id=asked.pk, version=asked.version, at=AT, actor=lead),
        lambda: share_requests.grant_request(id=asked.pk, version=asked.version, at=AT, actor=lead),
        lambda: share_requests.grant_request(id=asked.pk, version=asked.version, shares=31.0, at=AT, actor=lead),
        lambda: share_requests.decline_request(id=asked.pk, version=asked.version, text="No.", at=AT, actor=lead),
    ):
        with pytest.raises(NotAllowed):
            step()
    assert shares_at(policy, "/physics") == 30.0


def test_a_requested_percentage_is_converted_to_shares(policy: Policy, lead: Actor, manager: Actor) -> None:
    asked = ask(policy, lead, percent=40.0)
    share_requests.grant_request(id=asked.pk, version=asked.version, at=AT, actor=manager)
    policy.refresh_from_db()
    tree = load_tree(policy)
    assert target_of(tree, uid_of(tree, "/physics")) == pytest.approx(0.4, rel=1e-5)
    assert shares_at(policy, "/biology") == 50.0


@pytest.mark.parametrize("percent", [0.0, 100.0, 150.0, -3.0])
def test_impossible_percentages_are_refused(policy: Policy, lead: Actor, percent: float) -> None:
    with pytest.raises(Invalid):
        ask(policy, lead, percent=percent)


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"shares": 30.0}, "nothing_to_change"),
        ({"shares": 20.0}, "not_a_request"),
        ({"shares": -1.0}, "invalid"),
        ({"until": date(2026, 11, 19)}, "invalid"),
        ({"reason": "  "}, "reason_missing"),
    ],
)
def test_a_request_needs_a_larger_share_and_a_reason(
    policy: Policy, lead: Actor, wish: dict[str, Any], code: str
) -> None:
    with pytest.raises(Invalid) as refused:
        ask(policy, lead, **wish)
    assert refused.value.code == code
    assert not ChangeSet.objects.filter(origin="request").exists()


def test_only_leads_of_an_entry_request_shares_for_it(
    policy: Policy, lead: Actor, charlie: Actor, manager: Actor
) -> None:
    with pytest.raises(NotFound):
        ask(policy, charlie)
    with pytest.raises(NotFound):
        ask(policy, lead, "/biology")
    Policy.objects.update(visibility="tree")
    with pytest.raises(NotAllowed):
        ask(policy, lead, "/biology", shares=60.0)
    with pytest.raises(Conflict) as own:
        ask(policy, manager)
    assert own.value.code == "own_decision"
    with pytest.raises(Conflict):
        ask(policy, lead, "/physics/alice", shares=5.0)


def test_a_change_set_with_other_operations_is_not_a_request(policy: Policy, lead: Actor) -> None:
    tree = load_tree(policy)
    physics, alice = (str(uid_of(tree, path)) for path in ("/physics", "/physics/alice"))
    for operation in (
        {"op": "set_shares", "entry": alice, "shares": 9},
        {"op": "archive", "entry": physics},
        {"op": "add", "parent": physics, "name": "x"},
    ):
        draft = services.make_change_set(
            policy_slug="grid",
            new=NewChangeSet(
                asks="/physics",
                reason="r",
                operations=[{"op": "set_shares", "entry": physics, "shares": 40}, operation],
            ),
            at=AT,
            actor=lead,
        )
        assert draft.origin == "request"
        with pytest.raises(Invalid):
            services.propose_change_set(id=draft.pk, version=draft.version, at=AT, actor=lead)


def test_the_requested_entry_must_be_visible(policy: Policy, lead: Actor) -> None:
    operations = [{"op": "set_shares", "entry": "/physics", "shares": 40}]
    for asks in ("/nowhere", "/biology", "00000000-0000-4000-8000-000000000000"):
        with pytest.raises(NotFound):
            services.make_change_set(
                policy_slug="grid", new=NewChangeSet(asks=asks, operations=operations, reason="r"), at=AT, actor=lead
            )
    with pytest.raises(Invalid) as refused:
        services.make_change_set(
            policy_slug="grid", new=NewChangeSet(asks="zz", operations=operations, reason="r"), at=AT, actor=lead
        )
    assert [problem.where for problem in refused.value.fields] == ["asks"]


def test_one_open_request_per_entry_and_ten_per_user(policy: Policy, lead: Actor) -> None:
    first = ask(policy, lead)
    with pytest.raises(Conflict) as twice:
        ask(policy, lead, shares=50.0)
    assert twice.value.code == "asked"
    services.withdraw_change_set(id=first.pk, version=first.version, at=AT, actor=lead)
    ask(policy, lead, shares=50.0)
    for n in range(1, MOST_OPEN_REQUESTS):
        ChangeSet.objects.create(
            policy=policy,
            base_number=2,
            state="proposed",
            origin="request",
            author=lead.user,
            author_name="lena",
            asks_entry_uid=uid_of(load_tree(policy), "/biology"),
            created_at=AT + timedelta(seconds=n),
            updated_at=AT,
        )
    ChangeSet.objects.filter(origin="request", asks_entry_uid=first.asks_entry_uid).update(state="withdrawn")
    ask(policy, lead)  # the tenth
    ChangeSet.objects.filter(asks_entry_uid=first.asks_entry_uid, state="proposed").update(
        asks_entry_uid=uid_of(load_tree(policy), "/biology")
    )
    with pytest.raises(Conflict) as eleventh:
        ask(policy, lead, shares=60.0)
    assert eleventh.value.code == "too_many_requests_open"


def test_a_request_is_granted_as_requested(policy: Policy, lead: Actor, manager: Actor) -> None:
    asked = ask(policy, lead)
    revision = share_requests.grant_request(id=asked.pk, version=asked.version, text="Fine.", at=AT, actor=manager)
    asked.refresh_from_db()
    assert (revision.author_name, asked.author_name, asked.state) == ("maria", "lena", "published")
    assert share_requests.state_of_request(asked) is RequestState.GRANTED
    assert shares_at(policy, "/physics") == 40.0
    assert Comment.objects.get(change_set=asked).text == "Fine."


def test_another_amount_is_a_new_version_visible_to_the_requester(policy: Policy, lead: Actor, manager: Actor) -> None:
    asked = ask(policy, lead, until=date(2027, 6, 30))
    share_requests.grant_request(id=asked.pk, version=asked.version, shares=35.0, until=None, at=AT, actor=manager)
    seen = get_change_set(id=asked.pk, actor=lead, at=AT)
    assert seen.version > asked.version
    assert share_requests.state_of_request(seen) is RequestState.GRANTED_OTHER
    assert share_requests.requested_shares_of(seen) == RequestedShares(40.0, date(2027, 6, 30))
    assert share_requests.offer_of(seen) == RequestedShares(35.0, None)
    assert shares_at(policy, "/physics") == 35.0
    assert AuditEvent.objects.filter(verb="changeset.counter_offered", subject=f"change set {asked.pk}").count() == 1


def test_another_amount_applies_on_top_of_concurrent_changes(policy: Policy, lead: Actor, manager: Actor) -> None:
    asked = ask(policy, lead)
    services.change_shares(
        policy_slug="grid", entry_uid=uid_of(load_tree(policy), "/physics"), shares=32, reason="r", at=AT, actor=COMMAND
    )
    with pytest.raises(Conflict):
        share_requests.grant_request(id=asked.pk, version=asked.version, at=AT, actor=manager)
    assert shares_at(policy, "/physics") == 32.0
    share_requests.grant_request(id=asked.pk, version=asked.version, shares=36.0, at=AT, actor=manager)
    assert shares_at(policy, "/physics") == 36.0


def test_a_request_is_declined_with_a_comment(policy: Policy, lead: Actor, manager: Actor) -> None:
    asked = ask(policy, lead)
    with pytest.raises(Invalid):
        share_requests.decline_request(id=asked.pk, version=asked.version, text=" ", at=AT, actor=manager)
    share_requests.decline_request(id=asked.pk, version=asked.version, text="Not this year.", at=AT, actor=manager)
    seen = get_change_set(id=asked.pk, actor=lead, at=AT)
    assert share_requests.state_of_request(seen) is RequestState.DECLINED
    assert last_comments([seen])[seen.pk].text == "Not this year."
    with pytest.raises(Conflict):
        share_requests.grant_request(id=asked.pk, version=seen.version, at=AT, actor=manager)
    assert shares_at(policy, "/physics") == 30.0


def test_a_returned_and_answered_request_stays_open(policy: Policy, lead: Actor, manager: Actor) -> None:
    asked = ask(policy, lead)
    comment_on(id=asked.pk, text="Is half of it enough?", at=AT, actor=manager)
    comment_on(id=asked.pk, text="Until January, yes.", at=AT, actor=lead)
    assert [each.author_name for each in asked.comments.all()] == ["maria", "lena"]
    assert count_waiting(at=AT, actor=manager) == 1


def test_a_request_is_withdrawn_by_its_author(policy: Policy, lead: Actor, manager: Actor) -> None:
    asked = ask(policy, lead)
    with pytest.raises(NotAllowed):
        services.withdraw_change_set(id=asked.pk, version=asked.version, at=AT, actor=manager)
    services.withdraw_change_set(id=asked.pk, version=asked.version, at=AT, actor=lead)
    asked.refresh_from_db()
    assert share_requests.state_of_request(asked) is RequestState.WITHDRAWN
    assert count_waiting(at=AT, actor=manager) == 0


def test_a_request_is_listed_for_the_managers_above(
    policy: Policy, lead: Actor, manager: Actor, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    asked = ask(policy, lead)
    waiting = {actor.name: count_waiting(at=AT, actor=actor) for actor in (manager, alice, bob, charlie, lead)}
    assert waiting == {"maria": 1, "alice": 1, "bob": 0, "charlie": 0, "lena": 0}
    assert get_inbox(at=AT, actor=manager).requests == [asked]
    assert get_inbox(at=AT, actor=lead).sent == [asked]
    viewer = person("vera")
    grant(policy, "/", viewer, ["view_aggregate", "view_members", "edit_shares"])
    assert count_waiting(at=AT, actor=viewer) == 0  # may write it, and not publish it


def test_a_request_for_a_locked_entry_is_decided_by_its_locker(
    policy: Policy, lead: Actor, manager: Actor, alice: Actor
) -> None:
    lock = services.make_change_set(
        policy_slug="grid",
        new=NewChangeSet(operations=[{"op": "lock", "entry": "/physics"}], reason="r"),
        at=AT,
        actor=alice,
    )
    services.publish_change_set(id=lock.pk, version=lock.version, at=AT, actor=alice)
    asked = ask(policy, lead)
    assert (count_waiting(at=AT, actor=manager), count_waiting(at=AT, actor=alice)) == (0, 1)
    with pytest.raises(NotAllowed):
        share_requests.grant_request(id=asked.pk, version=asked.version, at=AT, actor=manager)


def test_proposals_are_listed_for_users_who_can_approve_them(
    policy: Policy, manager: Actor, bob: Actor, charlie: Actor
) -> None:
    operations = [{"op": "set_shares", "entry": "/physics/alice", "shares": 2}]
    draft = services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=operations, reason="r"), at=AT, actor=bob
    )
    assert count_waiting(at=AT, actor=manager) == 0
    assert get_inbox(at=AT, actor=bob).drafts == [draft]
    services.propose_change_set(id=draft.pk, version=draft.version, at=AT, actor=bob)
    assert [each.pk for each in get_inbox(at=AT, actor=manager).reviews] == [draft.pk]
    assert count_waiting(at=AT, actor=bob) == 0  # he has asked others
    ChangeSet.objects.filter(pk=draft.pk).update(held_for="It did not fit.")
    assert count_waiting(at=AT, actor=bob) == 1
    assert count_waiting(at=AT, actor=charlie) == 0
    assert get_inbox(at=AT, actor=charlie).is_empty


def test_granting_counts_as_second_approval_but_another_amount_does_not(
    policy: Policy, lead: Actor, manager: Actor
) -> None:
    guard = {"review": {"points": 2.0, "users": None}}
    services.change_settings(policy_slug="grid", settings=guard, reason="r", at=AT, actor=COMMAND)
    asked = ask(policy, lead, shares=60.0)
    with pytest.raises(Conflict) as alone:
        share_requests.grant_request(id=asked.pk, version=asked.version, shares=50.0, at=AT, actor=manager)
    assert alone.value.code == "needs_approval"
    assert share_requests.grant_request(id=asked.pk, version=asked.version, at=AT, actor=manager).number == 4


def test_expiring_shares_are_listed_for_their_managers(
    policy: Policy, lead: Actor, manager: Actor, charlie: Actor
) -> None:
    asked = ask(policy, lead, until=AT.date() + timedelta(days=30))
    share_requests.grant_request(id=asked.pk, version=asked.version, at=AT, actor=manager)
    for actor, n in ((manager, 1), (lead, 1), (charlie, 0)):
        assert len(get_inbox(at=AT, actor=actor).shares) == n
    tree = load_tree(Policy.objects.get(pk=policy.pk))
    dates = tree.dates[tree.index_of_path("/physics") or 0]
    assert dates == Dates(ends_on=AT.date() + timedelta(days=30), at_end=30.0)
    assert get_inbox(at=AT - timedelta(days=40), actor=lead).shares == []


def test_expiring_grants_are_listed_for_their_holder(policy: Policy, lead: Actor) -> None:
    Grant.objects.filter(user=lead.user).update(expires_at=AT + timedelta(days=20))
    assert [each.line.path for each in get_inbox(at=AT, actor=lead).grants] == ["/physics"]


def test_a_stale_version_decides_nothing(policy: Policy, lead: Actor, manager: Actor) -> None:
    asked = ask(policy, lead)
    with pytest.raises(DomainError) as stale:
        share_requests.grant_request(id=asked.pk, version=asked.version - 1, at=AT, actor=manager)
    assert stale.value.code == "stale"
    assert not Revision.objects.filter(change_set=asked).exists()


def test_an_archived_entry_cannot_get_shares(policy: Policy, lead: Actor, manager: Actor) -> None:
    asked = ask(policy, lead)
    gone = services.make_change_set(
        policy_slug="grid",
        new=NewChangeSet(operations=[{"op": "archive", "entry": "/physics"}], reason="r"),
        at=AT,
        actor=COMMAND,
    )
    services.publish_change_set(id=gone.pk, version=gone.version, at=AT, actor=COMMAND)
    assert count_waiting(at=AT, actor=manager) == 0
    with pytest.raises((Conflict, NotFound)):
        share_requests.grant_request(id=asked.pk, version=asked.version, at=AT, actor=manager)
