"""Pinned entries of a person: few, visible ones, in the order of pinning."""

from __future__ import annotations

from uuid import UUID

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.core.errors import Conflict, NotAllowed, NotFound
from apps.policies.models import Pin, Policy
from apps.priorities.pins import MOST_PINS, list_pinned, pin_entry, pinned_among, unpin_entry
from tests.examples import new_uid
from tests.mapping.test_membership import uid_of
from tests.priority_site import AS_OF, PROJECTS, Site, new_site
from tests.refusals import refused

pytestmark = pytest.mark.django_db


def pin(site: Site, path: str, actor: Actor) -> UUID:
    uid = UUID(uid_of(site, path))
    pin_entry(policy_slug=site.slug, uid=uid, at=AS_OF, actor=actor)
    return uid


def pinned(actor: Actor) -> list[str]:
    return [row.path for _view, row in list_pinned(actor=actor)]


def test_entries_are_pinned_once_by_each_person(site: Site, as_alice: Actor, as_eva: Actor) -> None:
    uids = [pin(site, path, as_alice) for path in ("/physics/bob", "/biology", "/physics/bob")]
    assert (pinned(as_alice), pinned(as_eva)) == (["/physics/bob", "/biology"], [])
    assert pinned_among(policy_slug="grid", uids=[*uids, new_uid()], actor=as_alice) == set(uids)
    unpin_entry(policy_slug="grid", uid=uids[0], actor=as_eva)
    unpin_entry(policy_slug="grid", uid=uids[1], actor=as_alice)
    assert pinned(as_alice) == ["/physics/bob"]


def test_a_person_has_a_limited_number_of_pins_and_may_repeat_one(site: Site, as_alice: Actor) -> None:
    pin(site, "/physics", as_alice)
    rows = [
        Pin(user=as_alice.user, policy=site.policy, entry_uid=new_uid(), created_at=AS_OF) for _ in range(MOST_PINS - 1)
    ]
    Pin.objects.bulk_create(rows)
    pin(site, "/physics", as_alice)
    with refused(Conflict, "too_many_pins"):
        pin(site, "/biology", as_alice)


def test_pins_of_entries_and_policies_that_are_hidden_now_are_kept_and_not_listed(site: Site, as_alice: Actor) -> None:
    other = new_site("other")
    other.publish(PROJECTS)
    pin(other, "/physics", as_alice)
    pin(other, "/biology", as_alice)
    pin(site, "/biology", as_alice)
    pin(site, "/physics", as_alice)
    site.map()
    Policy.objects.filter(slug="grid").update(visibility="path")
    Policy.objects.filter(slug="other").update(archived_at=AS_OF)
    assert pinned(as_alice) == ["/physics"], "on her own path"
    with refused(NotFound):
        pin(site, "/biology", as_alice)
    assert Pin.objects.count() == 4
    unpin_entry(policy_slug="grid", uid=UUID(uid_of(site, "/biology")), actor=as_alice)
    assert Pin.objects.count() == 3


def test_only_people_have_pins(site: Site) -> None:
    uid = UUID(uid_of(site, "/physics"))
    with refused(NotAllowed):
        pin_entry(policy_slug="grid", uid=uid, at=AS_OF, actor=COMMAND)
    with refused(NotAllowed):
        unpin_entry(policy_slug="grid", uid=uid, actor=COMMAND)
    assert list_pinned(actor=COMMAND) == []
    assert pinned_among(policy_slug="grid", uids=[uid], actor=COMMAND) == set()
