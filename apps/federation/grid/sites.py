"""The sites of a shared entry: declared capacity, age of their data, and the policy version that they enforce."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from django.conf import settings as site_settings
from django.db.models import Count, Sum

from apps.federation.conditions import Condition, condition_of, is_held, subscriptions_with_quarantine
from apps.federation.models import Mount, Publication, PublishedDocument, Subscription, UsageFeed
from apps.policies.models import Policy
from apps.policies.tree.columns import Mask, TreeColumns
from apps.priorities.models import Fallback
from apps.usage.models import Source

_Measured = Callable[[str, float | None], tuple[float | None, float | None]]


class Unsubscribed(StrEnum):
    """States of a site without a subscription; other sites have a Condition."""

    HERE = "here"
    UNTOLD = "untold"  # usage of that origin exists, without a subscription at this entry


SiteState = Unsubscribed | Condition


@dataclass(frozen=True, slots=True)
class SiteColumn:
    """One site. capacity_cores: as agreed. last_contact_at: when its data was last confirmed.

    possible_core_s: allowed by its capacity since the beginning of the window, or since its first hour if that is
    later.
    """

    origin: Annotated[str, '"" is this site']
    name: str
    state: Annotated[
        SiteState,
        "A condition as peers have it; here: this site; untold: its records come without a subscription",
    ]
    capacity_cores: float | None
    reported_capacity_cores: Annotated[float | None, "As declared now, if it is larger"]
    core_s: Annotated[float | None, "Delivered to the entry; null: hidden"]
    possible_core_s: float | None
    last_contact_at: datetime | None
    max_age_s: int | None
    enforced: Annotated[int | None, "Version of the entry's document that is active there"]
    published: Annotated[int | None, "The newest version"]
    published_at: datetime | None
    held_hours: int = 0
    held_core_s: float = 0.0
    running_held: bool = False
    subscription_id: int | None = None
    path: str = ""  # path of the subscribed entry if it is another one

    @property
    def is_here(self) -> bool:
        return not self.origin

    def is_old(self, at: datetime) -> bool:
        """Whether its data is older than allowed, whatever other problem it has."""
        if self.last_contact_at is None or self.max_age_s is None:
            return self.state is Condition.STALE
        return self.last_contact_at + timedelta(seconds=self.max_age_s) <= at

    @property
    def is_behind(self) -> bool:
        return self.enforced is not None and self.published is not None and self.enforced < self.published

    @property
    def part_of_capacity(self) -> float | None:
        """Amount divided by the possible amount, ≥ 0; None if the capacity is unknown or the amount is hidden."""
        if self.core_s is None or not self.possible_core_s:
            return None
        return self.core_s / self.possible_core_s


@dataclass(frozen=True)
class _Newest:
    """The newest version of an entry's document known to this site, and the versions active here."""

    version: int | None = None
    at: datetime | None = None
    active_version: int | None = None


def load_sites(
    *,
    policy: Policy,
    tree: TreeColumns,
    entry: int,
    amounts: Mapping[str, float],
    since: datetime | None,
    as_of: datetime | None,
    first_at: Mapping[str, datetime],
    at: datetime,
) -> tuple[tuple[SiteColumn, ...], datetime | None]:
    """This site first, then subscribed sites by name, then other origins with usage here.

    amounts: core-seconds of the entry by origin, empty if hidden. The second result: since when the entry uses local
    usage only because peers are unreachable, or None.
    """
    way = [tree.uuid(i) for i in (*tree.ancestors(entry), entry)]
    below = tree.subtree_mask(entry)
    newest = _newest(policy, way)

    def measured(origin: str, capacity: float | None) -> tuple[float | None, float | None]:
        begins = max(filter(None, (since, first_at.get(origin))), default=None)
        known = capacity is not None and begins is not None and as_of is not None and origin in first_at
        hours_s = (as_of - begins) / timedelta(seconds=1) if known and as_of and begins else 0.0
        possible = capacity * hours_s if capacity is not None and hours_s > 0 else None
        return (amounts.get(origin, 0.0) if amounts else None), possible

    rows = Subscription.objects.filter(policy=policy).select_related("source").order_by("issuer", "pk")
    subscriptions = list(subscriptions_with_quarantine(rows))
    wanted = [
        subscription
        for subscription in subscriptions
        if subscription.entry_uid in way or _contains(tree, below, subscription.entry_uid)
    ]
    chosen = _one_column_per_site(wanted, way, tree)
    sites = [_own_site(policy, way, newest, measured, at)]
    sites += [_peer(subscription, tree, entry, newest, measured, since, at) for subscription in chosen]
    known = {site.origin for site in sites}
    sites += [
        _unsubscribed(origin, measured) for origin, core_s in amounts.items() if origin not in known and core_s > 0
    ]
    fallback = Fallback.objects.filter(policy=policy, entry_uid__in=way).order_by("since").first()
    return tuple(sites), None if fallback is None else fallback.since


def _contains(tree: TreeColumns, part: Mask, uid: UUID) -> bool:
    place = tree.index_of_uid(uid)
    return place is not None and bool(part[place])


def _one_column_per_site(
    subscriptions: Sequence[Subscription], way: Sequence[UUID], tree: TreeColumns
) -> list[Subscription]:
    """One column for each site: the subscription at the nearest entry at or above this one."""
    order = {uid: place for place, uid in enumerate(reversed(way))}
    best: dict[str, Subscription] = {}
    for subscription in sorted(subscriptions, key=lambda each: (order.get(each.entry_uid, len(order)), each.pk)):
        best.setdefault(subscription.issuer, subscription)
    return sorted(best.values(), key=lambda each: (each.source.site or each.issuer, each.pk))


def _own_site(policy: Policy, way: Sequence[UUID], newest: _Newest, measured: _Measured, at: datetime) -> SiteColumn:
    feeds = {feed.entry_uid: feed for feed in UsageFeed.objects.filter(policy=policy, entry_uid__in=way)}
    feed = next((feeds[uid] for uid in reversed(way) if uid in feeds), None)
    capacity = feed.capacity_cores if feed is not None else None
    core_s, possible = measured("", capacity)
    return SiteColumn(
        origin="",
        name=str(site_settings.FAIRSHARE_SITE),
        state=Unsubscribed.HERE,
        capacity_cores=capacity,
        reported_capacity_cores=None,
        core_s=core_s,
        possible_core_s=possible,
        last_contact_at=_last_contact_at(""),
        max_age_s=None,
        enforced=newest.active_version,
        published=newest.version,
        published_at=newest.at,
    )


def _peer(
    subscription: Subscription,
    tree: TreeColumns,
    entry: int,
    newest: _Newest,
    measured: _Measured,
    since: datetime | None,
    at: datetime,
) -> SiteColumn:
    core_s, possible = measured(subscription.source.origin, subscription.capacity_cores)
    hours = subscription.held_hours.all() if since is None else subscription.held_hours.filter(hour_at__gte=since)
    held = hours.aggregate(n=Count("pk"), cpu_s=Sum("cpu_s"))
    there = tree.index_of_uid(subscription.entry_uid)
    reported = subscription.reported_capacity_cores
    return SiteColumn(
        origin=subscription.source.origin,
        name=subscription.source.site or subscription.issuer,
        state=condition_of(subscription, is_held=is_held(subscription), at=at),
        capacity_cores=subscription.capacity_cores,
        reported_capacity_cores=reported if reported and reported > subscription.capacity_cores else None,
        core_s=core_s,
        possible_core_s=possible,
        last_contact_at=subscription.good_at,
        max_age_s=subscription.max_age_s,
        enforced=subscription.enforced_version,
        published=newest.version if subscription.enforced_version is not None else None,
        published_at=newest.at if subscription.enforced_version is not None else None,
        held_hours=int(held["n"] or 0),
        held_core_s=float(held["cpu_s"] or 0.0),
        running_held=subscription.running_held,
        subscription_id=subscription.pk,
        path=tree.path(there) if there is not None and there != entry else "",
    )


def _unsubscribed(origin: str, measured: _Measured) -> SiteColumn:
    core_s, _possible = measured(origin, None)
    name = Source.objects.filter(origin=origin).exclude(site="").values_list("site", flat=True).first()
    return SiteColumn(
        origin=origin,
        name=name or origin,
        state=Unsubscribed.UNTOLD,
        capacity_cores=None,
        reported_capacity_cores=None,
        core_s=core_s,
        possible_core_s=None,
        enforced=None,
        published=None,
        published_at=None,
        max_age_s=None,
        last_contact_at=_last_contact_at(origin),
    )


def _last_contact_at(origin: str) -> datetime | None:
    contacts = (source.last_contact_at for source in Source.objects.filter(origin=origin))
    return max((at for at in contacts if at is not None), default=None)


def _newest(policy: Policy, way: Sequence[UUID]) -> _Newest:
    """The newest version of the publication or mount at the nearest entry at or above."""
    published = {
        publication.entry_uid: publication
        for publication in Publication.objects.filter(policy=policy, entry_uid__in=way)
    }
    mounted = {mount.entry_uid: mount for mount in Mount.objects.filter(policy=policy, entry_uid__in=way)}
    for uid in reversed(way):
        if uid in published:
            document = PublishedDocument.objects.filter(publication=published[uid]).defer("data").order_by("-version")
            last = document.first()
            return _Newest() if last is None else _Newest(last.version, last.issued_at, last.version)
        if uid in mounted:
            mount = mounted[uid]
            return _Newest(mount.version or None, mount.issued_at, mount.applied_version or None)
    return _Newest()
