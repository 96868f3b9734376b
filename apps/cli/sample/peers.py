"""Peers of the sample grid: a mounted policy, a subscription, and publications of its own.

The neutrino VO's policy is mounted, and the site Turku's usage is subscribed to. This installation simulates both peers
(`federation.own_publishers`): their documents depend only on address, clock and SECRET_KEY, so they need neither tables
nor network. Signatures, versions and expiry are as for real peers.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np
from django.conf import settings

from apps.accounts.actor import Actor
from apps.accounts.models import Token, User
from apps.accounts.services import NewToken, make_token, verify_token
from apps.cli.sample.grid import MOUNTED, PART, POLICY_SLUG, SEED, SITES, Grid
from apps.cli.sample.jobs import DAYS
from apps.core.errors import NotFound
from apps.core.signing import SigningKey, digest_of, sign_document
from apps.federation import own_publishers
from apps.federation.documents.wire import FORMAT, instant_text
from apps.federation.documents.wire_usage import Enforced, State, UsageDocument, UsageHead, write_usage
from apps.federation.fetch_schedule import ingest_answer
from apps.federation.models import Mount, Subscription
from apps.federation.mounts.services import make_mount
from apps.federation.publishing import current_document, make_publication
from apps.federation.readings import record_reading
from apps.federation.usage_feeds.feed_build import build_feed
from apps.federation.usage_feeds.feeds import make_feed
from apps.federation.usage_feeds.subscriptions import subscribe
from apps.federation.usage_feeds.usage_ingest import address_since
from apps.policies.models import Policy
from apps.usage.bucket_deltas import AMOUNTS

VO = MOUNTED
VO_ISSUER, SITE_ISSUER = "neutrinos.example", "turku.example"
SITE_NAME = "turku"
OWN_NAME = "nordgrid.example"
SITE_CORES = 96
_SITE_LOAD = 11.0  # cores that are busy on average
_RENEWED_EVERY = timedelta(days=3)
_EXPIRES_AFTER = timedelta(days=7)
_FEED_EXPIRES_AFTER = timedelta(days=1)
_NEW_SHARES_AFTER = timedelta(days=DAYS - 20)  # from the first day on: more for the simulation
_HOUR = timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PATH = re.compile(r"/since/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)/neutrinos(\.fairshare|/usage)")
_PUBLISHED_FOR_S = 90 * 86_400  # Turku fetches once, when the sample is loaded


def policy_url(begins_at: datetime) -> str:
    """Address of the VO's publication. begins_at: when its first version was issued."""
    return f"https://{VO_ISSUER}/since/{instant_text(begins_at)}/{VO}.fairshare"


def usage_url(begins_at: datetime) -> str:
    """Address of the site's usage feed. begins_at: its first hour."""
    return f"https://{SITE_ISSUER}/since/{instant_text(begins_at)}/{VO}/usage"


def key_of(issuer: str) -> SigningKey:
    """Signing key of a simulated peer, derived from the oldest known SECRET_KEY, so that key rotation keeps it."""
    secret = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS][-1]
    return SigningKey(hmac.new(secret.encode(), f"sample authority {issuer}".encode(), hashlib.sha256).digest())


def register_publishers() -> None:
    own_publishers.register(VO_ISSUER, _publish_policy)
    own_publishers.register(SITE_ISSUER, _publish_usage)
    own_publishers.register_name(lambda: OWN_NAME if Policy.all_objects.filter(is_sample=True).exists() else "")


def uid_of(path: str) -> UUID:
    """uid of an entry of the VO by its path; "" is the root."""
    return uuid5(NAMESPACE_URL, f"https://{VO_ISSUER}/{path}")


def _publish_policy(url: str, at: datetime) -> bytes:
    begins_at, _query = _parsed(url, ".fairshare")
    return sign_document(_policy_document(begins_at, _version(begins_at, at)), key_of(VO_ISSUER))


def _publish_usage(url: str, at: datetime) -> bytes:
    begins_at, query = _parsed(url, "/usage")
    since = int(query.get("since", "0"))
    feed = _Feed(begins_at, at)
    return sign_document(write_usage(feed.document(since, int(query.get("seen", since)))), key_of(SITE_ISSUER))


def _parsed(url: str, what: str) -> tuple[datetime, dict[str, str]]:
    parts = urlsplit(url)
    match = _PATH.fullmatch(parts.path)
    if match is None or match[2] != what:
        raise NotFound("The sample publishes nothing at this address.")
    begins_at = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return begins_at, {name: values[-1] for name, values in parse_qs(parts.query).items()}


def _version(begins_at: datetime, at: datetime) -> int:
    """Number of the current version, from 1; there is a new one every few days."""
    return 1 + max(0, (at - begins_at) // _RENEWED_EVERY)


def _policy_document(begins_at: datetime, version: int) -> dict[str, Any]:
    """The document of a version. Each version refers to the previous one, so all of them are generated."""
    previous: str | None = None
    document: dict[str, Any] = {}
    for number in range(1, version + 1):
        issued_at = begins_at + (number - 1) * _RENEWED_EVERY
        document = {
            "format": FORMAT,
            "issuer": VO_ISSUER,
            "publication": VO,
            "version": number,
            "previous": previous,
            "issued_at": instant_text(issued_at),
            "expires_at": instant_text(issued_at + _EXPIRES_AFTER),
            "issuers": [],
            "root": _root(is_new=issued_at - begins_at >= _NEW_SHARES_AFTER),
        }
        previous = digest_of(document)
    return document


def _root(*, is_new: bool) -> dict[str, Any]:
    """The VO's projects and users. is_new: after the change of shares."""
    shares = Grid().project_shares(VO) | ({"simulation": 12} if is_new else {})
    projects = []
    for project, n in shares.items():
        path = f"{VO}/{project}"
        users = [
            {"uid": str(uid_of(f"{path}/{member.user}")), "name": member.user, "kind": "user", "shares": member.shares}
            for member in Grid().members
            if (member.vo, member.project) == (VO, project)
        ]
        projects.append({"uid": str(uid_of(path)), "name": project, "kind": "project", "shares": n, "children": users})
    return {"uid": str(uid_of("")), "name": VO, "kind": "vo", "scope": "global", "children": projects}


@dataclass(frozen=True)
class _Feed:
    """Usage of the site up to the last complete hour. Its number is the number of hours. Deterministic."""

    begins_at: datetime
    at: datetime
    entries: Sequence[UUID] = field(default_factory=lambda: _people())

    @property
    def number(self) -> int:
        return max(1, (self.at - self.begins_at) // _HOUR)

    def document(self, since: int, seen: int) -> UsageDocument:
        """The document with usage after number `since`."""
        since, seen = min(since, self.number), min(max(since, seen), self.number)
        first = (self.begins_at - _EPOCH) // _HOUR
        cores = self._cores()[since:]
        hour, entry = np.nonzero(cores)
        amounts = np.zeros((len(hour), len(AMOUNTS)))
        amounts[:, AMOUNTS.index("cpu_s")] = 3600.0 * cores[hour, entry]
        amounts[:, AMOUNTS.index("jobs")] = 1.0
        return UsageDocument(
            head=self._head(since, seen),
            entries=self.entries,
            hours=np.arange(since, self.number) + first,
            row_hour=hour + since + first,
            row_entry=entry,
            amounts=amounts,
        )

    def _cores(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Cores by hour and entry. Rows are drawn in order, so that later hours do not change earlier ones."""
        drawn = np.random.default_rng(SEED).random((self.number, len(self.entries)))
        is_busy, size = drawn > 0.6, np.floor(drawn * 1000) % 7 + 1
        return np.where(is_busy, np.ceil(size * _SITE_LOAD / (0.4 * 4 * len(self.entries))), 0.0)

    def _head(self, since: int, seen: int) -> UsageHead:
        return UsageHead(
            issuer=SITE_ISSUER,
            feed=VO,
            root=uid_of(""),
            number=self.number,
            since=since,
            more=False,
            newest=self._state(self.number),
            seen=self._state(seen) if since else None,
            issued_at=self.at.replace(microsecond=0),
            expires_at=self.at.replace(microsecond=0) + _FEED_EXPIRES_AFTER,
            site=SITE_NAME,
            capacity_cores=float(SITE_CORES),
            enforces=Enforced(VO_ISSUER, VO, _version(self.begins_at, self.at)),
        )

    def _state(self, number: int) -> State:
        return State(number, hashlib.md5(f"{SITE_ISSUER} {number}".encode(), usedforsecurity=False).hexdigest())


def _people() -> list[UUID]:
    members = (member for member in Grid().members if member.vo == VO)
    return sorted((uid_of(f"{VO}/{member.project}/{member.user}") for member in members), key=str)


def begins_at(at: datetime) -> datetime:
    """First hour of the peers' documents: that of the first usage of the sample."""
    return (at - timedelta(days=DAYS)).replace(minute=0, second=0, microsecond=0)


def mount_vo(*, at: datetime, begins: datetime, admin: Actor) -> Mount:
    """Mount the publication of the neutrino VO from the first day on."""
    mount = make_mount(
        policy_slug=POLICY_SLUG,
        entry=f"/{VO}",
        url=policy_url(begins),
        issuer=VO_ISSUER,
        publication=VO,
        fingerprint=key_of(VO_ISSUER).public.fingerprint,
        reason="The VO maintains its projects itself; fingerprint compared by telephone.",
        at=at,
        actor=admin,
    )
    ingest_document(mount, at=at)
    return mount


def subscribe_to_site(*, at: datetime, begins: datetime, admin: Actor) -> None:
    """Subscribe to usage of the VO's members at Turku, so that it counts here, too."""
    row = subscribe(
        policy_slug=POLICY_SLUG,
        entry=f"/{VO}",
        url=usage_url(begins),
        issuer=SITE_ISSUER,
        feed=VO,
        fingerprint=key_of(SITE_ISSUER).public.fingerprint,
        capacity_cores=float(SITE_CORES),
        reason="Turku runs jobs of the neutrino VO, too.",
        at=at,
        actor=admin,
    )
    ingest_document(row, at=at)


def publish_own(*, at: datetime, admin: User) -> None:
    """Publish a part of the grid, and record that Turku has fetched it."""
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
        entry=f"/{VO}",
        name=VO,
        capacity_cores=cores,
        expires_after_s=_PUBLISHED_FOR_S,
        at=at,
        actor=actor,
    )
    _token, text = make_token(
        NewToken(name=SITE_ISSUER, scopes=[Token.Scope.FEDERATION], user=admin, policy_slug=POLICY_SLUG),
        at=at,
        actor=actor,
    )
    _user, bounds = verify_token(text, at=at)
    reader = Actor(user=admin, via="api", token=bounds)
    record_reading(publication, number=current_document(publication, at=at).document.version, actor=reader, at=at)
    record_reading(feed, number=build_feed(feed.pk, at=at).number, actor=reader, at=at)


def ingest_document(remote: Mount | Subscription, *, at: datetime) -> None:
    """Fetch and ingest as the worker would at that instant. A rejected document stops the loading."""
    url = remote.url if isinstance(remote, Mount) else address_since(remote.url, remote.number, remote.seen_number)
    answer = own_publishers.local_answer(url, at=at)
    if answer is None:
        raise LookupError(f"{url} isn't published here")
    fetched = ingest_answer(remote, answer, at=at)
    if fetched.code:
        raise ValueError(f"{remote}: {fetched.message}")
