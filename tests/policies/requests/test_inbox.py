"""The inbox and the rules of requests: whose turn it is, and what a request may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.actor import COMMAND, SYSTEM, Actor, TokenBounds
from apps.core.errors import Conflict, DomainError, Invalid
from apps.policies import services
from apps.policies.changesets import lifecycle
from apps.policies.models import ChangeSet, Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.records import NewChangeSet
from apps.policies.requests.inbox import get_inbox
from apps.policies.requests.requested_shares import leads, node_of_request, shares_for_target, target_of
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from tests.instants import AT
from tests.policies.requests.test_share_requests import ask, grant, lead, manager, uid_of  # noqa: F401 - fixtures


def publish(*operations: dict[str, Any]) -> TreeColumns:
    publish_operations(policy_slug="grid", operations=operations, reason="r", at=AT, actor=COMMAND)
    return load_tree(Policy.objects.get(slug="grid"))


def drafted(actor: Actor, asks: str, operation: dict[str, Any]) -> ChangeSet:
    new = NewChangeSet(operations=[operation], asks=asks, reason="r")
    return services.make_change_set(policy_slug="grid", new=new, at=AT, actor=actor)


def refusal(draft: ChangeSet, actor: Actor) -> str:
    with pytest.raises(DomainError) as refused:
        services.propose_change_set(id=draft.pk, version=draft.version, at=AT, actor=actor)
    return refused.value.code


def bound(actor: Actor, tree: TreeColumns, path: str = "", slug: str = "") -> Actor:
    subtree = uid_of(tree, path) if path else None
    return Actor(actor.user, "api", TokenBounds("fsh_x", frozenset({"policies:write"}), slug, subtree))


def test_a_lead_leads_below_the_grant_and_within_the_token(policy: Policy, tree: TreeColumns, lead: Actor) -> None:  # noqa: F811
    physics = uid_of(tree, "/physics")
    assert leads(policy, tree, physics, lead, AT)
    assert leads(policy, tree, uid_of(tree, "/physics/bob"), lead, AT)
    assert not leads(policy, tree, uid_of(tree, "/biology"), lead, AT)
    assert leads(policy, tree, physics, bound(lead, tree, "/physics"), AT)
    assert not leads(policy, tree, physics, bound(lead, tree, "/physics/bob"), AT)
    assert not leads(policy, publish({"op": "archive", "entry": "/physics"}), physics, lead, AT)


def test_a_request_for_an_archived_entry_is_not_sent(policy: Policy, lead: Actor) -> None:  # noqa: F811
    draft = drafted(lead, "/physics", {"op": "set_shares", "entry": "/physics", "shares": 40})
    publish({"op": "archive", "entry": "/physics"})
    assert refusal(draft, lead) == "entry_archived"


def test_the_root_requests_nothing(policy: Policy, lead: Actor) -> None:  # noqa: F811
    grant(policy, "/", lead)
    draft = drafted(lead, "/", {"op": "set_shares", "entry": "/physics", "shares": 40})
    assert refusal(draft, lead) == "not_a_request"


def test_beside_an_entry_that_inherits_a_request_asks_for_more_shares(policy: Policy, lead: Actor) -> None:  # noqa: F811
    publish({"op": "set_shares", "entry": "/biology", "shares": "parent"})
    fewer = drafted(lead, "/physics", {"op": "set_shares", "entry": "/physics", "shares": 29})
    assert refusal(fewer, lead) == "not_a_request"
    assert ask(policy, lead, shares=31.0).state == "proposed"
    for percent in (10.0, 60.0):
        with pytest.raises(Invalid) as refused:
            ask(policy, lead, percent=percent)
        assert refused.value.code == "not_a_request"


def test_a_target_is_a_part_of_the_siblings_shares(policy: Policy, tree: TreeColumns) -> None:
    physics = uid_of(tree, "/physics")
    assert (target_of(tree, tree.uuid(0)), target_of(tree, physics)) == (None, 0.3)
    assert shares_for_target(tree, physics, 0.5) == 70.0
    with pytest.raises(Invalid):
        shares_for_target(tree, tree.uuid(0), 0.5)
    archived = publish({"op": "archive", "entry": "/physics"})
    assert target_of(archived, physics) is None
    with pytest.raises(Conflict) as refused:
        node_of_request(archived, physics)
    assert refused.value.code == "entry_archived"
    assert target_of(publish({"op": "set_shares", "entry": "/biology", "shares": "parent"}), tree.uuid(1)) is None


def test_a_token_of_another_policy_reads_an_empty_inbox(policy: Policy, tree: TreeColumns, lead: Actor) -> None:  # noqa: F811
    services.make_policy(slug="other", name="Other", at=AT, actor=COMMAND)
    asked = ask(policy, lead)
    assert get_inbox(at=AT, actor=bound(lead, tree, slug="grid")).sent == [asked]
    assert get_inbox(at=AT, actor=bound(lead, tree, slug="other")).is_empty


def test_who_is_no_user_has_sent_and_drafted_nothing(policy: Policy, lead: Actor) -> None:  # noqa: F811
    asked = ask(policy, lead)
    publish({"op": "set_shares", "entry": "/biology", "shares": 51})
    for actor in (COMMAND, SYSTEM):
        found = get_inbox(at=AT, actor=actor)
        assert (found.sent, found.drafts, found.requests) == ([], [], [asked])


def test_a_scheduled_change_set_is_listed_once(policy: Policy, bob: Actor, manager: Actor) -> None:  # noqa: F811
    draft = services.make_change_set(
        policy_slug="grid",
        new=NewChangeSet(operations=[{"op": "set_shares", "entry": "/physics/alice", "shares": 2}], reason="r"),
        at=AT,
        actor=bob,
    )
    later = AT.replace(year=AT.year + 1)
    lifecycle.schedule_change_set(id=draft.pk, version=draft.version, effective_at=later, at=AT, actor=bob)
    own, other = get_inbox(at=AT, actor=bob), get_inbox(at=AT, actor=manager)
    assert (own.sent, own.scheduled, own.n_waiting) == ([draft], [], 0)
    assert (other.sent, other.scheduled, other.n_waiting) == ([], [draft], 0)
