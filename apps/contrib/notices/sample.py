"""Notices of the sample grid: a disabled webhook for two people, and what the rules find."""

from __future__ import annotations

from apps.cli.sample.grid import POLICY_SLUG
from apps.cli.sample.site import SampleSite
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.kinds import is_kind
from apps.contrib.notices.places import Place
from apps.contrib.notices.webhooks import make_webhook, switch_webhook
from apps.policies.models import Policy


def make_webhooks(site: SampleSite) -> None:
    """They are disabled, so that nothing is sent to other machines."""
    policy = Policy.all_objects.get(slug=POLICY_SLUG)
    places = {"admin": Place(policy), "maria": Place(policy, site.uid_of("/climate"))}
    for username, place in places.items():
        owner = site.actor(username)
        made, _secret = make_webhook(
            name="Chat of the operators" if username == "admin" else "Chat of the climate group",
            url="https://chat.example/hooks/fairshare",
            place=place,
            kinds=[name for name in ("over_budget",) if is_kind(name)],
            at=site.at,
            actor=owner,
        )
        switch_webhook(id=made.pk, version=made.version, is_on=False, at=site.at, actor=owner)


def find_notices(site: SampleSite) -> None:
    evaluate(at=site.at)
