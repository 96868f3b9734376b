"""Fetching what is mounted: conditional, bounded, checked, and landed as a change set; the last good one stays."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import zstandard
from django.db import DatabaseError, InterfaceError, transaction

from apps import outbound
from apps.accounts.actor import SYSTEM
from apps.accounts.audit import record
from apps.errors import DomainError, NotFound
from apps.federation.landing import Landing, lay_over
from apps.federation.models import Fetch, Mount
from apps.federation.publications import own_name
from apps.federation.trust import Judged, Trusted, Verdict, judge
from apps.federation.wire import PolicyLimits
from apps.policies.models import ChangeSet, Entry, Policy
from apps.policies.publishing import lock_policy
from apps.policies.replacing import hold_mounted, land_mounted
from apps.policies.trees import load_tree
from apps.runs.leases import Lease, LeaseLost, RunCancelled
from apps.runs.models import Run
from apps.runs.services import enqueue_run

KIND = "federation_fetch"
TOTAL_S = 60.0
MOST_REDIRECTS = 3
LONGEST_RETRY_S = 3_600
_BLOCKS = ("forked", "unknown_key")  # somebody has to look; an old version may be a cache that is behind
BAD_OUTCOMES = (Fetch.Outcome.REFUSED, Fetch.Outcome.UNREACHABLE)
_KEPT = 500  # looks of a mount that its timeline shows


@dataclass
class _Look:
    """What one look found, as the timeline will tell it."""

    outcome: str = Fetch.Outcome.SAME
    version: int | None = None
    n_bytes: int = 0
    code: str = ""
    message: str = ""
    etag: str = ""
    judged: Judged | None = None
    data: bytes = field(default=b"", repr=False)


def ask_for_due(*, at: datetime) -> int:
    """A run for each mount whose time has come; safe to run twice and at once."""
    _freeze_stale(at)
    due = Mount.objects.filter(due_at__lte=at).exclude(state__in=(Mount.State.PAUSED, Mount.State.BLOCKED))
    for mount in due.order_by("due_at", "pk"):
        ask_for(mount, at=at)
    return len(due)


def _freeze_stale(at: datetime) -> None:
    """Where a site chose so: what hasn't been confirmed for too long is put in force no more before somebody looks."""
    for mount in Mount.objects.filter(state=Mount.State.ACTIVE, stale_action=Mount.StaleAction.FREEZE):
        good_at = mount.good_at or mount.made_at
        if good_at + timedelta(seconds=mount.max_age_s) > at:
            continue
        with transaction.atomic():
            if Mount.objects.filter(pk=mount.pk, state=Mount.State.ACTIVE).update(state=Mount.State.FROZEN):
                record(
                    actor=SYSTEM, verb="federation.frozen", at=at, policy_slug=mount.policy.slug,
                    entry_uid=mount.entry_uid, subject=str(mount),
                    reason=f"Not confirmed since {good_at:%Y-%m-%d %H:%M} UTC.",
                )  # fmt: skip


def ask_for(mount: Mount, *, at: datetime) -> Run:
    """Joins one that waits already; two of a mount never work at once."""
    return enqueue_run(kind=KIND, subject=f"mount:{mount.pk}", arguments={"mount": mount.pk}, at=at, max_attempts=3)


def work_fetch(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `federation_fetch`. Whatever the other side does, what is in force stays until a good one lands."""
    mount = Mount.objects.select_related("policy").filter(pk=run.arguments.get("mount", 0)).first()
    if mount is None:
        raise NotFound("What was mounted there has been unmounted.")
    began_s, at = time.monotonic(), lease.clock()
    look = _looked(mount, at)
    with lease.fenced():
        row = Mount.objects.select_for_update(of=("self",)).select_related("policy").filter(pk=mount.pk).first()
        if row is None:
            raise NotFound("What was mounted there has been unmounted.")
        _take(row, look, at)
        _note(row, look, at, time.monotonic() - began_s)
        result = {"outcome": look.outcome, "version": look.version, "message": look.message}
        lease.finish(result, lease.clock())
    return result


def _looked(mount: Mount, at: datetime) -> _Look:
    """Everything that needs no lock: ask, check the signature, read."""
    look = _Look()
    try:
        answer = outbound.fetch(
            mount.url,
            headers={"If-None-Match": mount.etag} if mount.etag and mount.document else {},
            limits=outbound.Limits(n_bytes=mount.most_bytes, total_s=TOTAL_S, redirects=MOST_REDIRECTS),
        )
        look.n_bytes, look.etag = len(answer.body), answer.headers.get("etag", "")[:256]
        if answer.status == 304 and mount.document:
            look.etag = mount.etag
            look.data = zstandard.ZstdDecompressor().decompress(bytes(mount.document))
        elif answer.status == 200:
            look.data = answer.body
        else:
            raise outbound.Unreachable(f"It answers with status {answer.status}, and no document.", code="bad_status")
        if _is_settled(mount, look.data, at):
            look.version = mount.version
            return look
        look.judged = judge(
            look.data, trusted_of(mount), own_name=own_name(), names_above=(),
            limits=PolicyLimits(entries=1_000_000, levels=mount.most_levels), at=at,
        )  # fmt: skip
        look.version = look.judged.trusted.version
    except outbound.Unreachable as error:
        look.outcome, look.code, look.message = Fetch.Outcome.UNREACHABLE, error.code, error.message
    except (DatabaseError, InterfaceError, LeaseLost, RunCancelled):
        raise
    except DomainError as error:
        look.outcome, look.code, look.message = Fetch.Outcome.REFUSED, error.code, error.message
    return look


def _is_settled(mount: Mount, data: bytes, at: datetime) -> bool:
    """The document in force again, word for word and still in time: nothing is read or compared once more."""
    if mount.landed_version != mount.version or mount.expires_at is None or mount.expires_at <= at:
        return False
    return bool(mount.digest) and hashlib.sha256(data.partition(b"\n")[0]).hexdigest() == mount.digest


def trusted_of(mount: Mount) -> Trusted:
    return Trusted(mount.issuer, mount.publication, mount.fingerprint, mount.version, mount.digest)


def _take(mount: Mount, look: _Look, at: datetime) -> None:
    """Under the lock of the mount: what was judged is checked against what is trusted now, then landed."""
    if look.judged is None:
        mount.etag = look.etag or mount.etag
        return
    trusted = look.judged.trusted
    if trusted.version < mount.version:
        look.outcome, look.code = Fetch.Outcome.SAME, ""
        return
    policy = lock_policy(mount.policy_id)
    try:
        landing = lay_over(
            load_tree(policy), mount.entry_uid, look.judged.document,
            lived_elsewhere=lambda uids: _lived_elsewhere(policy, mount, set(uids)),
        )  # fmt: skip
        _land(mount, policy, look, landing, at)
    except DomainError as error:
        look.outcome, look.code, look.message = Fetch.Outcome.REFUSED, error.code, error.message
        return
    if trusted.fingerprint != mount.fingerprint:
        details = {"from": mount.fingerprint, "to": trusted.fingerprint}
        record(
            actor=SYSTEM, verb="federation.key_followed", at=at, policy_slug=policy.slug, entry_uid=mount.entry_uid,
            subject=str(mount), details=details,
        )  # fmt: skip
    if look.judged.verdict is Verdict.NEW or not mount.document:
        mount.document = zstandard.ZstdCompressor(level=3).compress(look.data)
    head = look.judged.document.head
    mount.fingerprint, mount.version, mount.digest = trusted.fingerprint, trusted.version, trusted.digest
    mount.issuers, mount.issued_at, mount.expires_at = list(head.issuers), head.issued_at, head.expires_at
    mount.etag = look.etag


def _land(mount: Mount, policy: Policy, look: _Look, landing: Landing, at: datetime) -> None:
    assert look.judged is not None  # noqa: S101 - asked by the caller
    version = look.judged.trusted.version
    if landing.is_empty:
        look.outcome = Fetch.Outcome.SAME if version == mount.landed_version else Fetch.Outcome.LANDED
        mount.landed_version = version
        _let_go_of_held(mount, at)
        return
    if mount.state == Mount.State.FROZEN:
        look.outcome, look.message = Fetch.Outcome.FROZEN, _told(landing)
        return
    reason = f"Version {version} of {mount.publication}, from {mount.issuer}: {_told(landing)}."
    beyond = _beyond(mount, landing)
    if not beyond:
        land_mounted(policy=policy, tree=landing.tree, reason=reason, at=at)
        look.outcome, look.message, mount.landed_version = Fetch.Outcome.LANDED, _told(landing), version
        _let_go_of_held(mount, at)
        return
    look.outcome, look.message = Fetch.Outcome.HELD, beyond
    held = mount.held
    if held is not None and held.state in _OPEN and held.base_number == policy.head_number and version == mount.version:
        return
    _let_go_of_held(mount, at)
    mount.held = hold_mounted(
        policy=policy, tree=landing.tree, mount_uid=mount.entry_uid, reason=f"{reason} {beyond}", at=at
    )


_OPEN = (ChangeSet.State.DRAFT, ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)


def _let_go_of_held(mount: Mount, at: datetime) -> None:
    """What waited for a decision is overtaken by a newer version, or by a newer tree of ours."""
    if mount.held is not None:
        ChangeSet.objects.filter(pk=mount.held.pk, state__in=_OPEN).update(
            state=ChangeSet.State.WITHDRAWN, updated_at=at
        )
        mount.held = None


def _beyond(mount: Mount, landing: Landing) -> str:
    """By which limit the change is too large to land by itself; "" for none."""
    n = landing.n_added + landing.n_gone + landing.n_changed
    if n > mount.most_entries:
        return f"Held for review: {n:,} entries change at once, and {mount.most_entries:,} land by themselves."
    if mount.landed_version and landing.furthest_points > mount.most_points + 1e-9:
        return (
            f"Held for review: a target moves by {landing.furthest_points:.1f} points, and {mount.most_points:g} "
            "land by themselves."
        )
    return ""


def _told(landing: Landing) -> str:
    return f"{landing.n_added:,} new, {landing.n_changed:,} changed, {landing.n_gone:,} gone"


def _lived_elsewhere(policy: Policy, mount: Mount, uids: set[UUID]) -> set[UUID]:
    """Which of these this policy once had outside of the mount: by where each was when it was last there."""
    found: set[UUID] = set()
    at_of: dict[UUID, set[UUID]] = {uid: {uid} for uid in uids}  # an entry above → the uids that it stands for
    for _ in range(70):
        rows = Entry.objects.filter(policy=policy, uid__in=at_of).order_by("uid", "-since").distinct("uid")
        above: dict[UUID, set[UUID]] = {}
        for uid, parent in rows.values_list("uid", "parent_uid"):
            if parent is None:
                found |= at_of[uid]
            elif parent != mount.entry_uid:
                above.setdefault(parent, set()).update(at_of[uid])
        if not above:
            break
        at_of = above
    return found


def _note(mount: Mount, look: _Look, at: datetime, duration_s: float) -> None:
    """The timeline, and when to look again: sooner or later, never not at all, except where somebody has to look."""
    is_good = look.outcome not in BAD_OUTCOMES
    mount.fetched_at, mount.error_code, mount.error = at, look.code, "" if is_good else look.message
    mount.n_failed = 0 if is_good else mount.n_failed + 1
    if is_good:
        mount.good_at = at
    elif look.code in _BLOCKS:
        mount.state = Mount.State.BLOCKED
        record(
            actor=SYSTEM, verb="federation.blocked", at=at, policy_slug=mount.policy.slug, entry_uid=mount.entry_uid,
            subject=str(mount), reason=look.message, outcome="failed",
        )  # fmt: skip
    wait_s = mount.every_s if is_good else min(mount.every_s * 2 ** min(mount.n_failed, 10), LONGEST_RETRY_S)
    mount.due_at = at + timedelta(seconds=max(wait_s, mount.every_s))
    mount.save()
    Fetch.objects.create(
        mount=mount, at=at, outcome=look.outcome, version=look.version, n_bytes=look.n_bytes, duration_s=duration_s,
        code=look.code, message=look.message[:2_000],
    )  # fmt: skip
    old = Fetch.objects.filter(mount=mount).order_by("-id").values_list("id", flat=True)[_KEPT : _KEPT + 1]
    Fetch.objects.filter(mount=mount, id__lte=next(iter(old), 0)).delete()
