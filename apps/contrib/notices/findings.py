"""What is the case now, for each kind of notice, with its facts. What is no longer found closes its notice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from uuid import UUID

import numpy as np
from django.db import connection

from apps.accounts.actor import SYSTEM
from apps.contrib.notices.kind import Finding, PolicyPlace, SitePlace, SourcePlace
from apps.core.errors import Unavailable
from apps.federation.models import Mount, Remote, Subscription
from apps.federation.staleness import is_stale, last_contact_at
from apps.mapping.attachments import key_of
from apps.mapping.claims import list_claims
from apps.mapping.permissions import MapRights
from apps.mapping.rules.rule_set import load_rule_set
from apps.policies.models import ChangeSet, Revision
from apps.policies.recompute_runs import failed_recompute
from apps.policies.requests.inbox import OPEN
from apps.policies.requests.share_requests import RequestState, state_of_request
from apps.priorities.serving import store
from apps.runs.backup_state import LATE_AFTER, age_of, backup_mark
from apps.usage.timeliness import Timeliness, is_behind, is_long_late, timeliness
from apps.usage.timeliness import last_contact_at as last_contact_of_source_at

_LONG_WAITS = 3  # times the limit of the rule
_MOST_NOTICED_REVISIONS, _MOST_NOTICED_GROUPS = 50, 100  # the newest ones, and groups of one of them
_HOUR = timedelta(hours=1)
_CHANGED_SHARES = """
SELECT DISTINCT after.parent_uid FROM policies_entry AS after
JOIN policies_entry AS before
    ON before.policy_id = after.policy_id AND before.uid = after.uid AND before.until = after.since
WHERE after.policy_id = %(policy)s AND after.since = %(number)s AND after.parent_uid IS NOT NULL
    AND before.shares IS DISTINCT FROM after.shares
"""
_DECIDED = (RequestState.GRANTED, RequestState.GRANTED_OTHER, RequestState.DECLINED)


def waiting_decisions(place: PolicyPlace) -> Iterable[Finding]:
    """Undecided change sets by the time since their last change; changes approved for a later date don't wait."""
    limit = timedelta(days=place.terms["days"])
    for change_set in ChangeSet.objects.filter(policy=place.policy, state__in=OPEN).order_by("pk"):
        waits_for_its_day = (
            change_set.state == ChangeSet.State.APPROVED
            and change_set.effective_at is not None
            and not change_set.held_for
        )
        waited = place.at - change_set.updated_at
        if waits_for_its_day or waited < limit:
            continue
        facts = {
            "change_set": change_set.pk,
            "who": change_set.author_name,
            "days": waited.days,
            "is_request": change_set.origin == ChangeSet.Origin.REQUEST,
        }
        uid = change_set.asks_entry_uid or place.tree.uuid(0)
        yield Finding(str(change_set.pk), "bad" if waited >= _LONG_WAITS * limit else "warn", facts, uid)


def decided_requests(place: PolicyPlace) -> Iterable[Finding]:
    """Requests that were granted or declined lately, one each for its author."""
    since_at = place.at - timedelta(days=place.terms["days"])
    requests = ChangeSet.objects.filter(
        policy=place.policy,
        origin=ChangeSet.Origin.REQUEST,
        author__isnull=False,
        state__in=(ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN),
        updated_at__gt=since_at,
    )
    for request in requests.order_by("-pk"):
        state = state_of_request(request)
        i = None if request.asks_entry_uid is None else place.tree.index_of_uid(request.asks_entry_uid)
        if state not in _DECIDED or i is None:
            continue
        facts = {
            "change_set": request.pk,
            "user": request.author_id,
            "path": place.tree.path(i),
            "outcome": state.value,
        }
        yield Finding(str(request.pk), "info", facts, request.asks_entry_uid, person_id=request.author_id)


def changed_shares(place: PolicyPlace) -> Iterable[Finding]:
    """Groups in which a publication of the last days changed shares, one finding each.

    New entries don't count: a group grows with each member.
    """
    since_at = place.at - timedelta(days=place.terms["days"])
    revisions = Revision.objects.filter(policy=place.policy, published_at__gt=since_at).defer("tree", "settings")
    for revision in revisions.order_by("-number")[:_MOST_NOTICED_REVISIONS]:
        known = [i for uid in _groups_with_changed_shares(revision) if (i := place.tree.index_of_uid(uid)) is not None]
        for i in sorted(known)[:_MOST_NOTICED_GROUPS]:
            facts = {
                "path": place.tree.path(i),
                "name": place.tree.name[i],
                "revision": revision.number,
                "published_at": revision.published_at.isoformat(),
                "author": revision.author_id,
            }
            key = f"{place.policy.pk}:{revision.number}:{place.tree.uuid(i)}"
            yield Finding(key, "info", facts, place.tree.uuid(i))


def _groups_with_changed_shares(revision: Revision) -> set[UUID]:
    """Parents of the entries whose shares the revision changed."""
    with connection.cursor() as cursor:
        cursor.execute(_CHANGED_SHARES, {"policy": revision.policy_id, "number": revision.number})
        return {parent_uid for (parent_uid,) in cursor.fetchall()}


def failing_backup(place: SitePlace) -> Iterable[Finding]:
    """As in readiness; with the error of the last try."""
    mark = backup_mark()
    if mark is None or not (mark.n_failures or age_of(mark, place.at) > LATE_AFTER):
        return
    facts = {
        "n": mark.n_failures,
        "error": mark.error[:300],
        "made_at": mark.made_at.isoformat() if mark.made_at else "",
    }
    yield Finding("backup", "bad" if age_of(mark, place.at) > LATE_AFTER else "warn", facts)


def late_source(place: SourcePlace) -> Iterable[Finding]:
    """As on pages and in readiness, plus the grace period."""
    source, grace = place.source, place.terms["grace_h"] * _HOUR
    state = timeliness(source, place.at, grace=grace)
    if not is_behind(state):
        return
    contact_at = last_contact_of_source_at(source)
    since_at = contact_at or source.created_at
    is_uncollected = state is Timeliness.NEVER_COLLECTED
    facts = {
        "source": source.name,
        "slug": source.slug,
        "last_at": since_at.isoformat(),
        "hours": int((place.at - since_at) / _HOUR),
        "is_never": contact_at is None,
        "is_uncollected": is_uncollected,
        "error": source.collect_error[:300] if is_uncollected else "",
    }
    is_bad = is_uncollected or is_long_late(source, place.at, grace=grace)
    yield Finding(source.slug, "bad" if is_bad else "warn", facts)


def unmapped_usage(place: PolicyPlace) -> Iterable[Finding]:
    """In the newest snapshot: unmapped / (mapped + unmapped), in the policy's metric and window.

    Nothing for a policy without entries, to which no account can be mapped yet.
    """
    try:
        newest = store.newest(place.policy.slug)
    except Unavailable:
        return
    if len(newest.tree) == 1:
        return
    unmapped = float(newest.meta["unmapped_usage"])
    whole = unmapped + float(newest.values.usage[0])
    part = unmapped / whole if whole > 0 else 0.0
    if part * 100 > place.terms["percent"]:
        facts = {"policy": place.policy.name, "n": newest.meta["n_unmapped"], "fraction": part}
        yield Finding(str(place.policy.pk), "warn", facts, place.tree.uuid(0))


def claimed_accounts(place: PolicyPlace) -> Iterable[Finding]:
    """Claims that wait for a decision, one for each entry at which the claimed accounts count."""
    rights = MapRights(place.policy, place.tree, SYSTEM, place.at)
    claims = list_claims(rights, np.ones(len(place.tree), dtype=np.bool_))
    resolver = load_rule_set(place.policy, place.tree).on(place.tree) if claims else None
    for claim in claims:
        for i in sorted({resolver.resolve(key_of(account)).entry for account in claim.accounts} if resolver else ()):
            facts = {
                "claim": claim.claim.pk,
                "user": claim.claim.user_id,
                "who": claim.claim.user.username,
                "account": f"{claim.claim.namespace}:{claim.claim.user_name}",
                "path": place.tree.path(i),
            }
            uid = place.tree.uuid(i)
            yield Finding(f"{place.policy.pk}:{claim.claim.pk}:{uid}", "warn", facts, uid)


def failed_recomputes(place: PolicyPlace) -> Iterable[Finding]:
    """Present while the newest finished recompute failed, also by a package."""
    run = failed_recompute(place.policy)
    if run is not None:
        yield Finding(place.policy.slug, "bad", {"policy": place.policy.name, "error": run.error[:300]})


def lost_peers(place: PolicyPlace) -> Iterable[Finding]:
    """Peers that are no longer fetched until a manager decides, and peers without contact for their maximum age."""
    for remote in _remotes(place):
        is_mount = isinstance(remote, Mount)
        facts = {"what": str(remote), "mount" if is_mount else "subscription": remote.pk, "is_usage": not is_mount}
        key = f"{'mount' if is_mount else 'usage'}:{remote.pk}"
        if remote.state == Remote.State.BLOCKED:
            yield Finding(key, "bad", {**facts, "blocked_for": remote.error_code}, remote.entry_uid)
        elif is_stale(remote, place.at):
            facts |= {"hours": int((place.at - last_contact_at(remote)) / _HOUR), "action": remote.stale_action}
            level = "warn" if remote.stale_action == Remote.StaleAction.KEEP else "bad"
            yield Finding(key, level, facts, remote.entry_uid)  # type: ignore[arg-type]  # one of the two


def _remotes(place: PolicyPlace) -> Iterator[Mount | Subscription]:
    yield from Mount.objects.filter(policy=place.policy).select_related("policy").order_by("pk")
    yield from Subscription.objects.filter(policy=place.policy).select_related("policy").order_by("pk")
