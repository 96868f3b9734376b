"""The sample grid among others: a VO's policy mounted, a site's usage subscribed to, and what it publishes itself."""

from __future__ import annotations

from datetime import datetime, timedelta

from apps.accounts.actor import Actor
from apps.accounts.models import Token, User
from apps.accounts.services import make_token, verify_token
from apps.cli.sample import peers
from apps.cli.sample.core_hours import PART
from apps.cli.sample.grid import POLICY_SLUG, SITES
from apps.cli.sample.jobs import DAYS
from apps.federation.fetch_schedule import ingest_answer
from apps.federation.fetching import inline
from apps.federation.models import Mount, Subscription
from apps.federation.mounts.services import make_mount
from apps.federation.publications.readers import note_reading
from apps.federation.publications.services import issue, make_publication
from apps.federation.usage_feeds.feeds import issue_usage, make_feed
from apps.federation.usage_feeds.subscriptions import subscribe
from apps.federation.usage_feeds.usage_ingest import address_since

_PUBLISHED_FOR_S = 90 * 86_400  # Turku reads once, when the sample is loaded


def begins_at(at: datetime) -> datetime:
    """The first hour of what the others publish: that of the first usage of the sample."""
    return (at - timedelta(days=DAYS)).replace(minute=0, second=0, microsecond=0)


def mount_vo(*, at: datetime, begins: datetime, admin: Actor) -> Mount:
    """The neutrino VO maintains its projects and people itself from the first day on."""
    mount = make_mount(
        policy_slug=POLICY_SLUG,
        entry=f"/{peers.VO}",
        url=peers.policy_url(begins),
        issuer=peers.VO_ISSUER,
        publication=peers.VO,
        fingerprint=peers.key_of(peers.VO_ISSUER).public.fingerprint,
        reason="The VO maintains its projects itself; fingerprint compared by telephone.",
        at=at,
        actor=admin,
    )
    ingest_document(mount, at=at)
    return mount


def subscribe_to_site(*, at: datetime, begins: datetime, admin: Actor) -> None:
    """What the VO's members use at Turku counts for them here, too."""
    row = subscribe(
        policy_slug=POLICY_SLUG,
        entry=f"/{peers.VO}",
        url=peers.usage_url(begins),
        issuer=peers.SITE_ISSUER,
        feed=peers.VO,
        fingerprint=peers.key_of(peers.SITE_ISSUER).public.fingerprint,
        capacity_cores=float(peers.SITE_CORES),
        reason="Turku runs jobs of the neutrino VO, too.",
        at=at,
        actor=admin,
    )
    ingest_document(row, at=at)


def publish_own(*, at: datetime, admin: User) -> None:
    """What others may read of the grid, and who did: Turku."""
    actor = Actor(user=admin, via="command")
    publication = make_publication(
        policy_slug=POLICY_SLUG,
        entry="/climate",
        name="climate",
        is_open=True,
        expires_after_s=_PUBLISHED_FOR_S,
        at=at,
        actor=actor,
    )
    cores = sum(site.cores for site in SITES) / PART
    feed = make_feed(
        policy_slug=POLICY_SLUG,
        entry=f"/{peers.VO}",
        name=peers.VO,
        capacity_cores=cores,
        expires_after_s=_PUBLISHED_FOR_S,
        at=at,
        actor=actor,
    )
    _token, text = make_token(
        name=peers.SITE_ISSUER, scopes=[Token.Scope.FEDERATION], user=admin, policy_slug=POLICY_SLUG, at=at, actor=actor
    )
    _user, bounds = verify_token(text, at=at)
    reader = Actor(user=admin, via="api", token=bounds)
    note_reading(publication, number=issue(publication, at=at).document.version, actor=reader, at=at)
    told = issue_usage(feed, since=0, at=at)
    note_reading(feed, number=told.number if told is not None else 0, actor=reader, at=at)


def ingest_document(remote: Mount | Subscription, *, at: datetime) -> None:
    """As the worker would at that instant; refused documents stop the load."""
    url = remote.url if isinstance(remote, Mount) else address_since(remote.url, remote.number, remote.seen_number)
    answer = inline.answer(url, at=at)
    if answer is None:
        raise LookupError(f"{url} isn't published here")
    fetched = ingest_answer(remote, answer, at=at)
    if fetched.code:
        raise ValueError(f"{remote}: {fetched.message}")
