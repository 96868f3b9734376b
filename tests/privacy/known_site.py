"""A site where each person ran one job, by whose numbers the person is known again in any answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from apps.accounts.actor import SYSTEM
from apps.accounts.models import Account
from apps.policies.models import Policy
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from tests.instants import AT
from tests.rights_world import World
from tests.small_site import _text, build_site, push

ISSUER = "site.example"
# user → (group, cores, seconds, days ago)
JOBS = {
    "alice": ("physics", 1999, 20_011, 3),
    "bob": ("physics", 1377, 19_043, 2),
    "zorblax": ("physics", 777, 21_503, 3),
    "carol": ("biology", 941, 17_707, 2),
}


def build_known_world() -> World:
    """With snapshots of two days."""
    with override_settings(FAIRSHARE_ISSUER=ISSUER), pytest.MonkeyPatch.context() as patch:
        site = build_site(AT)
        add = [{"op": "add", "parent": "/physics", "name": "zorblax", "kind": "user"}]
        made = make_change_set(policy_slug="grid", new=NewChangeSet(operations=add), at=AT, actor=SYSTEM)
        publish_change_set(id=made.pk, version=1, reason="one more", at=AT, actor=SYSTEM)
        site.policy = Policy.objects.get(pk=site.policy.pk)
        push(site, [_record(user, *job) for user, job in JOBS.items()])
        Account.objects.filter(user_name="alice").update(person=site.alice)
        for at in (AT - timedelta(days=1), AT):
            patch.setenv("FAIRSHARE_CLOCK", at.isoformat())
            site.at = at
            site.recompute()
        return World(site)


def _record(user: str, group: str, cores: int, run_s: int, days_ago: int) -> dict[str, Any]:
    end = AT - timedelta(days=days_ago)
    start = end - timedelta(seconds=run_s)
    return {
        "job": f"known-{user}",
        "user": user,
        "group": group,
        "start": _text(start),
        "end": _text(end),
        "cpus": cores,
    }
