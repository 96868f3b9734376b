"""Process a mounted document: check it, merge it with the tree, and publish it as a change set within limits."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import datetime
from uuid import UUID

import zstandard

from apps.core import outbound
from apps.core.errors import DomainError
from apps.core.signing import BadDocument
from apps.federation.conditions import STILL_OPEN
from apps.federation.documents.trust import TrustedState, Verdict, check_document
from apps.federation.documents.wire import PolicyLimits
from apps.federation.fetch_requests import FetchRequest, FetchResult, build_request
from apps.federation.models import Fetch, Mount, Publication
from apps.federation.mounts.application import AppliedDocument, apply_document
from apps.federation.mounts.uid_ownership import owned_by_another_policy, owned_elsewhere
from apps.federation.publishing import own_name
from apps.federation.staleness import record_of
from apps.policies.models import ChangeSet, Policy
from apps.policies.publishing.direct import propose_mounted_tree, publish_mounted_tree
from apps.policies.publishing.revisions import lock_policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import MountedPublication


def request_for(mount: Mount) -> FetchRequest:
    return build_request(mount, url=mount.url, etag=mount.etag if mount.document else "")


def trusted_state_of(mount: Mount) -> TrustedState:
    return TrustedState(mount.issuer, mount.publication, mount.fingerprint, mount.version, mount.digest)


def read_answer(mount: Mount, answer: outbound.Answer, fetched: FetchResult, at: datetime) -> None:
    """Run all checks that need no lock: is it a document, by which authority, and is it accepted.

    Raises:
        DomainError: the problem.
    """
    if answer.status == 304 and mount.document:
        fetched.etag = mount.etag
        if _is_applied(mount, at):
            fetched.version = mount.version
            return
        fetched.data = zstandard.ZstdDecompressor().decompress(bytes(mount.document))
    elif answer.status == 200:
        fetched.data = answer.body
    else:
        raise outbound.Unreachable(f"It answers with status {answer.status}, and no document.", code="bad_status")
    if _is_settled(mount, fetched.data, at):
        fetched.version = mount.version
        return
    fetched.accepted = check_document(
        fetched.data,
        trusted_state_of(mount),
        own_name=own_name(),
        publishes=Publication.objects.exists(),
        names_above=(),
        limits=PolicyLimits(entries=1_000_000, levels=mount.most_levels),
        at=at,
    )
    fetched.version = fetched.accepted.trusted.version


def _is_settled(mount: Mount, data: bytes, at: datetime) -> bool:
    """Whether it is the current document, unchanged and still valid, so that it needn't be read or compared."""
    return (
        _is_applied(mount, at)
        and bool(mount.digest)
        and hashlib.sha256(data.partition(b"\n")[0]).hexdigest() == mount.digest
    )


def _is_applied(mount: Mount, at: datetime) -> bool:
    """Whether the stored document is applied and still valid."""
    return mount.applied_version == mount.version and mount.expires_at is not None and mount.expires_at > at


def apply(mount: Mount, fetched: FetchResult, at: datetime) -> None:
    """Apply an accepted document, under the lock of the mount."""
    if fetched.accepted is None:
        if not fetched.code:  # not of a rejected one: its confirmation (304) would count as a successful fetch
            mount.etag = fetched.etag or mount.etag
        return
    trusted = fetched.accepted.trusted
    policy = lock_policy(mount.policy_id)
    try:
        applied = apply_document(
            _mounted_tree(policy, mount),
            mount.entry_uid,
            fetched.accepted.document,
            owned_elsewhere=lambda uids: _owned_elsewhere(policy, mount, uids),
        )
        _apply(mount, policy, fetched, applied, at)
    except DomainError as error:
        fetched.refuse(error.code, error.message)
        return
    if trusted.fingerprint != mount.fingerprint:
        details = {"from": mount.fingerprint, "to": trusted.fingerprint}
        record_of(mount, verb="federation.key_followed", at=at, details=details)
    if fetched.accepted.verdict is Verdict.NEW or not mount.document:
        mount.document = zstandard.ZstdCompressor(level=3).compress(fetched.data)
    head = fetched.accepted.document.head
    mount.fingerprint, mount.version, mount.digest = trusted.fingerprint, trusted.version, trusted.digest
    mount.issuers, mount.issued_at, mount.expires_at = list(head.issuers), head.issued_at, head.expires_at
    mount.etag = fetched.etag


def _owned_elsewhere(policy: Policy, mount: Mount, uids: Collection[UUID]) -> set[UUID]:
    others = owned_by_another_policy(policy, MountedPublication(mount.issuer, mount.publication), uids)
    return owned_elsewhere(policy, mount.entry_uid, uids) | others


def _mounted_tree(policy: Policy, mount: Mount) -> TreeColumns:
    """Load the tree. Raises BadDocument if the entry is no longer its mount; that change removed the entries below."""
    tree = load_tree(policy)
    at = tree.index_of_uid(mount.entry_uid)
    if at is not None and tree.mount.get(at) != MountedPublication(mount.issuer, mount.publication):
        message = f"{tree.path(at)} isn't marked as mounted from {mount} any more: unmount it, or mount it again."
        raise BadDocument(message, code="mount_gone")
    return tree


def _apply(mount: Mount, policy: Policy, fetched: FetchResult, applied: AppliedDocument, at: datetime) -> None:
    version = fetched.accepted.trusted.version
    if applied.is_empty:
        fetched.outcome = Fetch.Outcome.SAME if version == mount.applied_version else Fetch.Outcome.APPLIED
        mount.applied_version = version
        withdraw_pending_version(mount, at)
        return
    if mount.state == Mount.State.FROZEN:
        fetched.outcome, fetched.message = Fetch.Outcome.FROZEN, _summary(applied)
        return
    reason = f"Version {version} of {mount.publication}, from {mount.issuer}: {_summary(applied)}."
    beyond = _exceeded_limit(mount, applied)
    if not beyond:
        publish_mounted_tree(policy=policy, tree=applied.tree, reason=reason, at=at)
        fetched.outcome, fetched.message, mount.applied_version = Fetch.Outcome.APPLIED, _summary(applied), version
        withdraw_pending_version(mount, at)
        return
    fetched.outcome, fetched.message = Fetch.Outcome.HELD, beyond
    if mount.held is not None and version == mount.version:
        if mount.held.state == ChangeSet.State.WITHDRAWN:  # a rejected version isn't proposed again
            fetched.message = f"{beyond} This version was withdrawn here; the next one is checked again."
            return
        if mount.held.state in STILL_OPEN and mount.held.base_number == policy.head_number:
            return
    withdraw_pending_version(mount, at)
    mount.held = propose_mounted_tree(
        policy=policy, tree=applied.tree, mount_uid=mount.entry_uid, reason=f"{reason} {beyond}", at=at
    )


def withdraw_pending_version(mount: Mount, at: datetime) -> None:
    """Withdraw the waiting change set, which a newer version or a newer tree has superseded."""
    if mount.held is not None:
        ChangeSet.objects.filter(pk=mount.held.pk, state__in=STILL_OPEN).update(
            state=ChangeSet.State.WITHDRAWN, updated_at=at
        )
        mount.held = None


def _exceeded_limit(mount: Mount, applied: AppliedDocument) -> str:
    """Name of the limit that the change exceeds, so that it needs a review; "" for none."""
    n = applied.n_added + applied.n_gone + applied.n_changed
    if n > mount.most_entries:
        return f"Held for review: {n:,} entries change at once; the limit is {mount.most_entries:,}."
    if mount.applied_version and applied.furthest_points > mount.most_points + 1e-9:
        return (
            f"Held for review: a target moves by {applied.furthest_points:.1f} points; "
            f"the limit is {mount.most_points:g}."
        )
    return ""


def _summary(applied: AppliedDocument) -> str:
    return f"{applied.n_added:,} added, {applied.n_changed:,} changed, {applied.n_gone:,} removed"
