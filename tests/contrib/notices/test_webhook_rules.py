"""Who makes, changes and switches webhooks, and which events are left out; no call leaves this machine."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import SYSTEM, Actor, TokenBounds
from apps.accounts.models import AuditEvent, User
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.models import Delivery, Notice, Webhook
from apps.contrib.notices.places import Place
from apps.contrib.notices.webhook_calls import call_due, plan_deliveries
from apps.contrib.notices.webhooks import (
    MOST_WEBHOOKS,
    change_webhook,
    get_webhook,
    make_webhook,
    path_of,
    remove_webhook,
    send_test,
    switch_webhook,
)
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, Stale
from apps.usage.models import Source
from tests.examples import new_uid
from tests.instants import AT
from tests.refusals import refused
from tests.small_site import Site

HOUR = timedelta(hours=1)
URL = "https://chat.example.org/in/secret"


def page(user: User) -> Actor:
    return Actor(user=user, via="page")


def make(actor: Actor, place: Place | None = None, **more: Any) -> Webhook:
    given = {"name": "Chat", "url": URL, "kinds": (), **more}
    return make_webhook(place=place or Place(), at=AT, actor=actor, **given)[0]


def late(at_h: int) -> None:
    """cluster-a is late at this hour."""
    Source.objects.update(expected_every_s=3600, last_received_at=AT - 9 * HOUR)
    evaluate(at=AT + at_h * HOUR, only={"late_source"})


def test_a_webhook_belongs_to_a_person_who_signed_in(site: Site) -> None:
    bounds = TokenBounds("fsh_x", frozenset({"admin", "policies:write"}))
    token = Actor(user=site.admin, via="api", token=bounds)
    for actor in (SYSTEM, token):
        with refused(NotAllowed, "session_only"):
            make(actor)
    made = make(page(site.admin))
    with refused(NotFound):
        get_webhook(id=made.pk, at=AT, actor=token)
    assert get_webhook(id=made.pk, at=AT, actor=page(site.admin)).host == "chat.example.org"


def test_a_person_has_a_limited_number_of_webhooks(site: Site) -> None:
    for _ in range(MOST_WEBHOOKS):
        make(page(site.admin))
    with refused(Conflict):
        make(page(site.admin))
    make(page(site.pia), Place(policy=site.policy, entry_uid=site.uid("/physics")))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "n" * 129}, "name"),
        ({"name": "a\x07b"}, "name"),
        ({"url": "ftp://chat.example.org/"}, "url"),
        ({"kinds": ["over_budget", "nothing"]}, "kinds"),
    ],
)
def test_a_wrong_field_is_refused_at_making_and_changing(site: Site, given: dict[str, Any], field: str) -> None:
    with refused(Invalid, field=field):
        make(page(site.admin), **given)
    made = make(page(site.admin))
    with refused(Invalid, field=field):
        change_webhook(
            id=made.pk, version=1, at=AT, actor=page(site.admin), **{"name": "Chat", "url": URL, "kinds": [], **given}
        )


def test_a_change_of_an_older_version_is_refused(site: Site) -> None:
    admin = page(site.admin)
    made = make(admin)
    changed = change_webhook(id=made.pk, version=1, name="A  b ", url=URL, kinds=["over_budget"], at=AT, actor=admin)
    assert (changed.version, changed.name, changed.kinds) == (2, "A b", ["over_budget"])
    with refused(Stale):
        remove_webhook(id=made.pk, version=1, at=AT, actor=admin)
    remove_webhook(id=made.pk, version=2, at=AT, actor=admin)
    assert not Webhook.objects.exists()


def test_switching_off_drops_what_waits_and_on_begins_with_later_events(computed: Site) -> None:
    admin = page(computed.admin)
    made = make(admin)
    late(1)
    assert plan_deliveries(at=AT + HOUR) == 1
    off = switch_webhook(id=made.pk, version=1, is_on=False, at=AT + HOUR, actor=admin)
    assert (off.is_on, Delivery.objects.get().state) == (False, Delivery.State.DROPPED)
    assert switch_webhook(id=made.pk, version=2, is_on=False, at=AT + HOUR, actor=admin).version == 2
    assert plan_deliveries(at=AT + 2 * HOUR) == 0
    switch_webhook(id=made.pk, version=2, is_on=True, at=AT + 3 * HOUR, actor=admin)
    assert plan_deliveries(at=AT + 3 * HOUR) == 0
    verbs = AuditEvent.objects.filter(verb__startswith="webhook.turned").order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["webhook.turned_off", "webhook.turned_on"]


def test_an_end_is_sent_only_to_those_who_received_the_beginning(computed: Site) -> None:
    late(1)
    make(page(computed.admin))
    Source.objects.update(last_received_at=AT + 2 * HOUR)
    evaluate(at=AT + 2 * HOUR, only={"late_source"})
    assert Notice.objects.get(kind="late_source").closed_at is not None
    assert plan_deliveries(at=AT + 2 * HOUR) == 0


def test_a_webhook_of_an_entry_gets_no_notices_of_the_whole_policy_or_of_other_entries(computed: Site) -> None:
    place = Place(policy=computed.policy, entry_uid=computed.uid("/physics"))
    made = make(page(computed.admin), place)
    late(1)
    opened = {"kind": "over_budget", "level": "warn", "opened_at": AT, "news_at": AT + HOUR, "changed_at": AT}
    uids = {
        "whole": None,
        "gone": new_uid(),
        "beside": computed.uid("/biology"),
        "above": computed.uid("/"),
        "at": computed.uid("/physics"),
        "below": computed.uid("/physics/bob"),
    }
    for key, uid in uids.items():
        Notice.objects.create(key=key, policy=computed.policy, entry_uid=uid, facts={"is_starved": False}, **opened)
    plan_deliveries(at=AT + HOUR)
    found = made.deliveries.values_list("notice__key", flat=True)
    assert set(found) == {"at", "below"}
    assert path_of(made) == "/physics"
    made.entry_uid = new_uid()
    assert path_of(made) == "?"


def test_what_the_owner_may_not_see_any_more_is_dropped_before_it_is_sent(computed: Site) -> None:
    """The receiver's address doesn't exist: nothing is tried."""
    made = make(page(computed.admin))
    late(1)
    plan_deliveries(at=AT + HOUR)
    test = send_test(id=made.pk, at=AT + HOUR, actor=page(computed.admin))
    User.objects.filter(pk=computed.admin.pk).update(is_superuser=False)
    assert call_due(at=AT + HOUR) == 0
    found = list(Delivery.objects.order_by("pk").values_list("state", "attempts", "ended_at"))
    assert found == [(Delivery.State.DROPPED, 0, AT + HOUR)] * 2
    assert test.pk == Delivery.objects.latest("pk").pk


def test_one_test_at_a_time(site: Site) -> None:
    made = make(page(site.admin))
    send_test(id=made.pk, at=AT, actor=page(site.admin))
    with refused(Conflict, "test_waits"):
        send_test(id=made.pk, at=AT, actor=page(site.admin))
