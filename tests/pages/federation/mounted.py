"""A small site in which the policy of another authority is mounted, by the pages in the order of a user's steps."""

from __future__ import annotations

import html
import re
from datetime import datetime
from typing import Any

from django.test import Client, override_settings

from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.federation.fetch_schedule import request_fetch
from apps.federation.models import Mount
from apps.policies.publishing.direct import publish_operations
from apps.runs.services import work_run_now
from tests.federation.other_side import KEY, OtherSide, serving
from tests.sign_in import sign_in
from tests.small_site import Site, build_site

NEW = "/federation/mount/"
LIMITS = {
    "every": "5",
    "max_age": "24",
    "most_points": "5",
    "most_entries": "10000",
    "most_levels": "32",
    "stale_action": "keep",
}


def signed_in(user: User) -> Client:
    return sign_in(Client(), user)


def hidden(answer: Any) -> dict[str, str]:
    """What a form of the page carries along, as a browser would send it."""
    pairs = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', answer.content.decode())
    return {name: html.unescape(value) for name, value in pairs if name != "csrfmiddlewaretoken"}


def walk(client: Client, side: OtherSide, **last: str) -> Any:
    """Every step of the way, each form sent as the page before wrote it."""
    seen = client.post(NEW, {"step": "preview", "policy": "grid", "url": side.url, "token": "s3cret"})
    chosen = client.post(NEW, {**hidden(seen), "step": "key", "fingerprint": KEY.public.fingerprint})
    given = {**hidden(chosen), **LIMITS, "entry": "/vo-a", "reason": "We granted it.", "step": "place"}
    return client.post(NEW, {**given, **last})


def new_side(at: datetime) -> OtherSide:
    """With its first version published: the same bytes whenever it is made."""
    side = OtherSide(at=at)
    side.publish(issuers=("project.example",))
    return side


def make_placed(at: datetime) -> Site:
    """A site with an entry for VO-A."""
    made = build_site(at)
    made.recompute()
    add = {"op": "add", "parent": "/", "name": "vo-a", "kind": "vo", "shares": 25}
    publish_operations(policy_slug="grid", operations=[add], reason="granted", at=at, actor=SYSTEM)
    return made


def make_mounted(at: datetime) -> Site:
    """The same, with VO-A mounted there and fetched once."""
    made = make_placed(at)
    with serving(new_side(at)) as side:
        allowed = [f"127.0.0.1:{side.port}"]
        with override_settings(FAIRSHARE_ISSUER="site.example", FAIRSHARE_OUTBOUND_ALLOW=allowed):
            walk(signed_in(made.admin), side)
            work_run_now(request_fetch(Mount.objects.get(), at=at).pk)
    return made
