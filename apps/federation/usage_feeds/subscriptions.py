"""Subscribe to the usage of an entry at another site: preview its feed, trust its key, fetch it on schedule.

A subscription follows one lineage of its feed: a document either continues it, or the whole feed is read again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from apps.accounts.actor import Actor
from apps.core import outbound
from apps.core.addresses import target_of
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound
from apps.core.signing import PublicKey
from apps.federation import staleness
from apps.federation.documents.wire_usage import MOST_DOCUMENT_CORES, UsageDocument, read_usage
from apps.federation.fetch_requests import fetch_for_preview, sealed_token
from apps.federation.models import Mount, Publication, Subscription
from apps.federation.mounts.services import clean_fingerprint, clean_settings, may_mount_at
from apps.federation.publishing import own_name
from apps.policies.access.scope import administers_within_bounds
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.difference import mount_of
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import clean_authority
from apps.usage.models import Source
from apps.usage.records.peer_sums import delete_peer_source, make_peer_source

PREVIEW_S = 20.0
_LONGEST_SLUG = 64


@dataclass(frozen=True)
class FeedPreview:
    """The feed at an address, before it is trusted: its key has to be compared over a separate channel."""

    url: str
    key: PublicKey
    document: UsageDocument

    @property
    def n_entries(self) -> int:
        return len(self.document.entries)

    @property
    def n_hours(self) -> int:
        return len(self.document.hours)

    @property
    def n_running(self) -> int | None:
        """Number of running jobs; None if they are not reported."""
        return None if self.document.running is None else len(self.document.running)


def preview_feed(*, url: str, policy_slug: str, entry: str, token: str = "", at: datetime, actor: Actor) -> FeedPreview:
    """Fetch and read a feed, for a manager who may subscribe at the entry (a path). Nothing is stored.

    Raises:
        Refused, Unreachable, TooLarge, BadDocument: the address or its content, with a message for the manager.
        TooOften: this person already waits for several documents.
        NotFound, NotAllowed, Invalid: the entry, or the actor may not subscribe there.
    """
    _load_entry(policy_slug, entry, at, actor)
    limits = outbound.Limits(n_bytes=64 * 1024**2, total_s=PREVIEW_S, redirects=3)
    opened = fetch_for_preview(url, token, limits, actor)
    return FeedPreview(url, opened.key, read_usage(opened.document))


@transaction.atomic
def subscribe(
    *,
    policy_slug: str,
    entry: str,
    url: str,
    issuer: str,
    feed: str,
    fingerprint: str,
    capacity_cores: float,
    token: str = "",
    settings: Mapping[str, Any] | None = None,
    reason: str,
    at: datetime,
    actor: Actor,
) -> Subscription:
    """Ingest the usage of an entry (a path) at another site, under the key whose fingerprint was compared.

    capacity_cores: as declared and agreed; usage above it is held. token: issued by the other side for this reader; it
    is stored sealed and never shown again.

    Raises:
        NotAllowed, NotFound, Conflict, Invalid: the actor, the entry, an existing subscription, settings out of range.
    """
    policy, tree, i = _load_entry(policy_slug, entry, at, actor)
    _refuse_names(issuer, feed)
    target_of(url)
    _refuse_twice(tree, i, issuer, feed)
    fields = {
        "fingerprint": clean_fingerprint(fingerprint),
        "capacity_cores": clean_cores(capacity_cores),
        "sealed_token": sealed_token(token),
        **clean_settings(settings or {}, of_usage=True),
    }
    source = make_peer_source(
        slug=_slug_for(issuer, feed), name=f"{issuer}, {feed}"[:128], origin=issuer, site=issuer, at=at, actor=actor
    )
    made = Subscription.objects.create(
        policy=policy,
        entry_uid=tree.uuid(i),
        url=url,
        issuer=issuer,
        feed=feed,
        source=source,
        due_at=at,
        made_by=actor.user,
        made_at=at,
        **fields,
    )
    details = {
        "url": url,
        "issuer": issuer,
        "feed": feed,
        "fingerprint": made.fingerprint,
        "source": source.slug,
        "capacity_cores": made.capacity_cores,
    }
    staleness.record_of(made, verb="federation.subscribed", at=at, actor=actor, reason=reason, details=details)
    return made


@transaction.atomic
def unsubscribe(*, subscription_id: int, reason: str, at: datetime, actor: Actor) -> None:
    """Remove the subscription with its buckets, running jobs and source."""
    row = get_subscription(subscription_id=subscription_id, actor=actor, at=at, lock=True)
    staleness.end_fallback(row, at)
    source = row.source
    details = {"source": source.slug}
    staleness.record_of(row, verb="federation.unsubscribed", at=at, actor=actor, reason=reason, details=details)
    row.delete()
    delete_peer_source(source, at=at, actor=actor)


def get_subscription(*, subscription_id: int, actor: Actor, at: datetime, lock: bool = False) -> Subscription:
    """Return a subscription; NotFound unless the actor may mount at its entry."""
    rows = Subscription.objects.select_related("policy", "source")
    if lock:
        rows = rows.select_for_update(of=("self",), no_key=True)
    subscription = rows.filter(pk=subscription_id).first()
    if subscription is None or not may_mount_at(subscription.policy, subscription.entry_uid, actor, at):
        raise NotFound(f"There is no subscription {subscription_id}.")
    return subscription


def list_subscriptions(*, actor: Actor, at: datetime) -> list[Subscription]:
    """Subscriptions that the actor decides about, by policy and site."""
    rows = Subscription.objects.select_related("policy", "source").order_by("policy__slug", "issuer", "feed", "id")
    return [row for row in rows if may_mount_at(row.policy, row.entry_uid, actor, at)]


def clean_cores(value: float) -> float:
    if type(value) not in (int, float) or not 0 < value <= MOST_DOCUMENT_CORES:
        message = f"must be a number above 0, at most {MOST_DOCUMENT_CORES:,.0f}"
        raise Invalid(f"capacity_cores {message}.", fields=[FieldProblem("capacity_cores", message)])
    return float(value)


def _load_entry(policy_slug: str, entry: str, at: datetime, actor: Actor) -> tuple[Policy, TreeColumns, int]:
    """An entry whose uids both sites share, and that the actor decides about.

    Raises:
        NotFound, NotAllowed, Invalid: no such entry for the actor; another manager's decision; not shared with any
        site.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope="federation")
    tree = load_tree(policy)
    i = tree.index_of_path(entry)
    if i is None or not may_mount_at(policy, tree.uuid(i), actor, at):
        raise NotFound(f"There is no entry {entry[:200]!r} in {policy_slug[:80]} that you may subscribe at.")
    if _is_mounted(policy, tree, i):
        return policy, tree, i
    above = [tree.uuid(j) for j in (*tree.ancestors(i), i)]
    if not Publication.objects.filter(policy=policy, entry_uid__in=above).exists():
        message = "Usage can be reported only for entries that are mounted here, or published here"
        raise Invalid(f"{message}.", code="not_shared", fields=[FieldProblem("entry", message)])
    if not administers_within_bounds(actor, "federation"):
        raise NotAllowed("Only administrators take usage of what this site publishes.")
    return policy, tree, i


def _is_mounted(policy: Policy, tree: TreeColumns, i: int) -> bool:
    at = mount_of(tree, i)
    return at is not None and Mount.objects.filter(policy=policy, entry_uid=tree.uuid(at)).exists()


def _refuse_names(issuer: str, feed: str) -> None:
    problems = []
    for where, name in (("issuer", issuer), ("feed", feed)):
        try:
            clean_authority(name)
        except ValueError as error:
            problems.append(FieldProblem(where, str(error)))
    if problems:
        raise Invalid(f"{problems[0].where} {problems[0].message}.", fields=problems)
    if issuer == own_name():
        raise Invalid("This site is that authority: its own usage counts already.", code="mount_loop")


def _refuse_twice(tree: TreeColumns, i: int, issuer: str, feed: str) -> None:
    """Reject a second subscription to the same entries, whose usage would count double.

    One site's usage counts in every policy.

    Raises:
        Conflict: another subscription to that site covers some of the same entries.
    """
    uids = set(_uids_below(tree, i))
    for other in Subscription.objects.filter(issuer=issuer).select_related("policy"):
        other_tree = load_tree(other.policy)
        j = other_tree.index_of_uid(other.entry_uid)
        if other.feed == feed or (j is not None and not uids.isdisjoint(_uids_below(other_tree, j))):
            message = f"There is a subscription to usage of these entries from {issuer}, for {other.policy.slug}"
            raise Conflict(f"{message}: its usage counts in every policy.", code="subscribed")


def _uids_below(tree: TreeColumns, i: int) -> list[bytes]:
    return [row.tobytes() for row in tree.uid[tree.subtree_mask(i)]]


def _slug_for(issuer: str, feed: str) -> str:
    """A unique, readable slug: the feed vo-a of peer-a.example is peer-a-example-vo-a.

    It is shown to all users as the name of a source, so it contains no name of an entry.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", f"{issuer}-{feed}".lower()).strip("-")
    base = plain[: _LONGEST_SLUG - 5].rstrip("-")
    taken = set(Source.all_objects.filter(slug__startswith=base).values_list("slug", flat=True))
    return next(slug for n in range(1, 10_000) if (slug := base if n == 1 else f"{base}-{n}") not in taken)
