"""A VO with usage of three sites, for tests of the grid view."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.test import override_settings

from apps.accounts.actor import COMMAND
from apps.federation.models import HeldHour, Publication, PublishedDocument, Subscription, UsageFeed
from apps.policies.records import PolicyDetails
from apps.policies.services import make_policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.usage.models import Source
from apps.usage.services import NewSource, make_source
from tests.priority_site import AS_OF, Site

HOUR = timedelta(hours=1)
SETTINGS = {"window": {"length_s": 10 * 86_400, "aging": "none"}}
TREE: list[dict[str, Any]] = [
    {
        "name": "vo",
        "kind": "vo",
        "shares": 30,
        "scope": "global",
        "children": [
            {"name": "p1", "kind": "project", "shares": 50, "children": [{"name": "ada"}, {"name": "ben"}]},
            {"name": "p2", "kind": "project", "shares": 50, "children": [{"name": "cleo"}]},
        ],
    },
    {"name": "rest", "shares": 70, "children": [{"name": "zoe"}]},
]
AGO = {
    "": (2, 30),
    "east": (3, 300),
    "west": (5,),
}  # hours before AS_OF at which jobs ended; 300 h are out of the window


def make_grid_site() -> Site:
    """A VO that is published, with usage of this site and of two others, one of them subscribed to."""
    with override_settings(FAIRSHARE_SITE="north", FAIRSHARE_ISSUER="vo.example"):
        made, peers = _with_usage()
        _with_others(made, peers)
    return made


def _with_usage() -> tuple[Site, dict[str, Source]]:
    policy = make_policy(
        slug="grid",
        name="grid",
        details=PolicyDetails(visibility="tree"),
        settings=PolicySettings(),
        at=AS_OF,
        actor=COMMAND,
    )
    source = make_source(NewSource(slug="grid-c1", name="c1", namespace="c1"), at=AS_OF, actor=COMMAND)
    made = Site(policy, source)
    made.publish(TREE, SETTINGS)
    made.map(made.rule("/", user_pattern="zoe", suffix="/rest/{user}"), made.rule("/vo", group_pattern="p*"))
    peers = {
        name: make_source(
            NewSource(slug=name, name=name, namespace="c1", origin=f"{name}.example", site=name.title()),
            at=AS_OF,
            actor=COMMAND,
        )
        for name in ("east", "west")
    }
    for n, (name, hours_ago) in enumerate(AGO.items()):
        for ago_h in hours_ago:
            sent_by = peers.get(name)
            made.job("ada", "p1", 10 + n, ago_h=ago_h, source=sent_by)
            made.job("cleo", "p2", 3 * (n + 1), ago_h=ago_h, source=sent_by)
    made.job("zoe", "x", 40)
    made.recompute()
    return made, peers


def _with_others(made: Site, peers: dict[str, Source]) -> None:
    tree = load_tree(made.policy)
    vo = tree.uuid(tree.index_of_path("/vo") or 0)
    publication = Publication.objects.create(policy=made.policy, entry_uid=vo, name="vo", made_at=AS_OF)
    for version, age in ((40, 60), (41, 3)):
        PublishedDocument.objects.create(
            publication=publication,
            version=version,
            digest="d",
            content_digest="c",
            revision_number=1,
            n_entries=6,
            issued_at=AS_OF - timedelta(minutes=age),
            expires_at=AS_OF + timedelta(days=7),
            key_fingerprint="0" * 64,
            data=b"",
        )
    east = Subscription.objects.create(
        policy=made.policy,
        entry_uid=vo,
        url="https://east.example/f",
        issuer="east.example",
        feed="vo",
        fingerprint="0" * 64,
        source=peers["east"],
        capacity_cores=2.0,
        reported_capacity_cores=20.0,
        enforced_version=40,
        good_at=AS_OF - timedelta(minutes=4),
        max_age_s=3_600,
        made_at=AS_OF,
    )
    for ago_h, cpu_s in ((4, 90_000.0), (400, 50_000.0)):
        HeldHour.objects.create(
            subscription=east, hour_at=AS_OF - ago_h * HOUR, number=7, cpu_s=cpu_s, most_cpu_s=7_272.0, found_at=AS_OF
        )
    UsageFeed.objects.create(policy=made.policy, entry_uid=vo, name="vo", capacity_cores=4.0, made_at=AS_OF)
