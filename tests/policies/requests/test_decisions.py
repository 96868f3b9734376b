"""Deciding a request: only what was sent as one, with another amount only where it differs."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.core.errors import Conflict, Invalid, NotFound
from apps.policies import services
from apps.policies.models import Approval, ChangeSet, Policy
from apps.policies.records import NewChangeSet
from apps.policies.requests.share_requests import RequestState, grant_request, state_of_request
from tests.instants import AT
from tests.policies.requests.test_share_requests import ask, lead, manager, shares_at  # noqa: F401 - fixtures


def drafted(actor: Actor, operation: dict[str, Any], **more: Any) -> ChangeSet:
    new = NewChangeSet(operations=[operation], reason="r", **more)
    return services.make_change_set(policy_slug="grid", new=new, at=AT, actor=actor)


def decide(change_set: ChangeSet, actor: Actor, **more: Any) -> None:
    grant_request(id=change_set.pk, version=change_set.version, at=AT, actor=actor, **more)
    change_set.refresh_from_db()


def test_only_requests_that_were_sent_are_decided(policy: Policy, lead: Actor, manager: Actor, alice: Actor) -> None:  # noqa: F811
    wanted = {"op": "set_shares", "entry": "/physics", "shares": 40}
    plain = drafted(manager, wanted)
    plain = services.propose_change_set(id=plain.pk, version=plain.version, at=AT, actor=manager)
    unsent = drafted(lead, wanted, asks="/physics")
    for change_set, code in ((plain, "not_a_request"), (unsent, "not_proposed")):
        with pytest.raises(Conflict) as refused:
            decide(change_set, alice)
        assert refused.value.code == code
    with pytest.raises(NotFound):
        grant_request(id=0, version=1, at=AT, actor=alice)
    assert shares_at(policy, "/physics") == 30


def test_granting_the_same_amount_and_day_grants_the_request_itself(
    policy: Policy,
    lead: Actor,  # noqa: F811
    manager: Actor,  # noqa: F811
) -> None:
    asked = ask(policy, lead, until=date(2027, 6, 30))
    decide(asked, manager, shares=40.0, until=date(2027, 6, 30))
    assert (state_of_request(asked), asked.asked) == (RequestState.GRANTED, None)
    assert [each.user_name for each in Approval.objects.filter(change_set=asked)] == ["maria"]


def test_a_request_is_for_a_number_of_shares(policy: Policy, lead: Actor) -> None:  # noqa: F811
    with pytest.raises(Invalid) as refused:
        ask(policy, lead, shares="parent")
    assert [field.where for field in refused.value.fields] == ["shares"]


def test_a_command_grants_without_an_approval_of_a_person(policy: Policy, lead: Actor) -> None:  # noqa: F811
    asked = ask(policy, lead)
    decide(asked, COMMAND)
    assert (state_of_request(asked), asked.approvals.count()) == (RequestState.GRANTED, 0)
    assert shares_at(policy, "/physics") == 40
