"""Requests for shares: a lead requests more for their group; a manager above grants all or part of it, or declines.

A request is a change set of origin `request`. It gives no rights: publishing it is checked like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from apps.accounts.actor import Actor
from apps.accounts.audit_log import record
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid, NotAllowed
from apps.policies.access.scope import WRITE, visible_entries
from apps.policies.changesets.change_sets import (
    get_change_set_for_write,
    load_revision,
    reanchor,
    replace_operations,
    require_reason,
)
from apps.policies.changesets.lifecycle import comment_on
from apps.policies.models import Approval, ChangeSet, Policy, Revision
from apps.policies.operations.apply import Operation, apply_operations
from apps.policies.operations.dated_shares import shares_operations
from apps.policies.publishing.revisions import lock_policy
from apps.policies.publishing.size_guard import require_approver
from apps.policies.records import NewChangeSet
from apps.policies.requests.inbox import OPEN, Decider
from apps.policies.requests.requested_shares import node_of_request, parse_requested_shares, shares_for_target
from apps.policies.selectors import get_policy
from apps.policies.services import make_change_set, merge_and_publish, move_on, propose_change_set
from apps.policies.tree.columns import Node
from apps.policies.tree.names import clean_shares
from apps.policies.tree.stored import load_tree

State = ChangeSet.State
_UNSET: Any = object()


class RequestState(StrEnum):
    """State of a request, as shown to its author."""

    DRAFT = "draft"
    OPEN = "open"
    GRANTED = "granted"
    GRANTED_OTHER = "granted_other"  # other shares or another last day
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class RequestedShares:
    """Requested or offered shares. shares: a number, or as in REST. until: the last day; None for no end."""

    shares: Any
    until: date | None


@dataclass(frozen=True, kw_only=True)
class RequestTerms:
    """What to request: shares or a percentage of the parent, until a last day (None: no end)."""

    shares: float | None = None
    percent: float | None = None
    until: date | None = None


def request_shares(
    *,
    policy_slug: str,
    entry_uid: UUID,
    terms: RequestTerms,
    reason: str,
    at: datetime,
    actor: Actor,
) -> ChangeSet:
    """Send a request for more shares of an entry that the actor leads, or for a percentage of its parent.

    A percentage becomes the number of shares that yields it while the siblings keep theirs.
    """
    reason = require_reason(reason)
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    with transaction.atomic():
        lock_policy(policy.pk)  # enforces the limit of open requests
        operations = plan_request(policy_slug=policy_slug, entry_uid=entry_uid, terms=terms, at=at, actor=actor)
        change_set = make_change_set(
            policy_slug=policy_slug,
            new=NewChangeSet(operations=operations, reason=reason, asks=str(entry_uid)),
            at=at,
            actor=actor,
        )
        return propose_change_set(id=change_set.pk, version=change_set.version, at=at, actor=actor)


def plan_request(
    *,
    policy_slug: str,
    entry_uid: UUID,
    terms: RequestTerms,
    at: datetime,
    actor: Actor,
) -> list[Operation]:
    """Return the operations of a request, without saving."""
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    visible_entries(policy=policy, tree=tree, actor=actor, at=at).require(tree.index_of_uid(entry_uid))
    node = node_of_request(tree, entry_uid)
    percent = terms.percent
    wanted = _amount(terms.shares) if percent is None else shares_for_target(tree, entry_uid, percent / 100)
    return _operations(node, wanted, terms.until, at)


def grant_request(
    *,
    id: int,
    version: int,
    shares: float | Mapping[str, float] | None = None,
    until: date | None = _UNSET,
    text: str = "",
    at: datetime,
    actor: Actor,
) -> Revision:
    """Publish a request. shares, until: grant these instead, as a new version by the deciding manager.

    shares: a number, or {"percent": …} of the parent, 0–100, while the siblings keep theirs.

    Granting a request unchanged also counts as approval by a second person.
    """
    with transaction.atomic():
        change_set = _locked_request(id, version, at, actor)
        other = _other_operations(change_set, shares, until, at)
        if text.strip():
            comment_on(id=id, text=text, at=at, actor=actor)
        if other is not None:
            change_set = _offer(change_set, other, actor, at)
        else:
            _approve(change_set, actor, at)
        change_set.decided_by, change_set.decided_name, change_set.effective_at = actor.user, actor.name, None
        change_set.save(update_fields=["decided_by", "decided_name", "effective_at"])
        return merge_and_publish(change_set, actor, at)


def decline_request(*, id: int, version: int, text: str, at: datetime, actor: Actor) -> ChangeSet:
    """Decline a request with a comment."""
    text = require_reason(text)
    with transaction.atomic():
        change_set = _locked_request(id, version, at, actor)
        comment_on(id=id, text=text, at=at, actor=actor)
        change_set.decided_by, change_set.decided_name = actor.user, actor.name
        return move_on(change_set, State.WITHDRAWN, actor, at, "changeset.declined", text)


def answer_requests(
    *, versions: Mapping[int, int], grants: bool, text: str = "", at: datetime, actor: Actor
) -> list[ChangeSet]:
    """Grant requests unchanged, or decline them with a comment: all of them, or none.

    versions: the version that the actor has read, by request. Each is published or declined, and recorded, by itself.

    Raises:
        Invalid: without a request, or to decline without a comment.
        DomainError: of the first request that can't be answered so, as `grant_request` and `decline_request`.
    """
    if not versions:
        raise Invalid(
            "Choose at least one request.", code="none_chosen", fields=[FieldProblem("request", "is missing")]
        )
    policy_ids = ChangeSet.objects.filter(pk__in=versions).order_by("policy_id").values_list("policy_id", flat=True)
    with transaction.atomic():
        for policy_id in policy_ids.distinct():
            lock_policy(policy_id)
        for id, version in sorted(versions.items()):
            if grants:
                grant_request(id=id, version=version, at=at, actor=actor)
            else:
                decline_request(id=id, version=version, text=text, at=at, actor=actor)
    return list(ChangeSet.objects.filter(pk__in=versions).select_related("policy", "revision").order_by("pk"))


def state_of_request(change_set: ChangeSet) -> RequestState:
    if change_set.state == State.PUBLISHED:
        return RequestState.GRANTED if change_set.asked is None else RequestState.GRANTED_OTHER
    if change_set.state == State.WITHDRAWN:
        return RequestState.DECLINED if change_set.decided_name else RequestState.WITHDRAWN
    return RequestState.OPEN if change_set.state in OPEN else RequestState.DRAFT


def requested_shares_of(change_set: ChangeSet) -> RequestedShares:
    """Return what was requested originally."""
    return RequestedShares(
        *parse_requested_shares(change_set.asked if change_set.asked is not None else change_set.operations)
    )


def offer_of(change_set: ChangeSet) -> RequestedShares:
    """Return what the request contains now: the original, or what was granted instead."""
    return RequestedShares(*parse_requested_shares(change_set.operations))


def requests_for(*, policy: Policy, entry_uid: UUID, at: datetime, actor: Actor, limit: int) -> list[ChangeSet]:
    """List requests for one entry that the actor may see, newest first."""
    change_sets = ChangeSet.objects.filter(policy=policy, asks_entry_uid=entry_uid, origin=ChangeSet.Origin.REQUEST)
    access = Decider(policy, actor, at).access
    newest = change_sets.select_related("policy").order_by("-pk")[: 4 * limit]
    return [each for each in newest if access.may_see(each)][:limit]


def _locked_request(id: int, version: int, at: datetime, actor: Actor) -> ChangeSet:
    """Lock the policy and then an undecided request that the actor may decide; return the request."""
    policy_id = ChangeSet.objects.filter(pk=id).values_list("policy_id", flat=True).first()
    if policy_id is not None:
        lock_policy(policy_id)
    change_set = get_change_set_for_write(id, actor, at, version=version, to_publish=True)
    if change_set.origin != ChangeSet.Origin.REQUEST or change_set.asks_entry_uid is None:
        raise Conflict(f"Change set {id} is not a request for shares: review it on its page.", code="not_a_request")
    if change_set.state not in OPEN:
        raise Conflict(f"Request {id} has not been sent.", code="not_proposed")
    node_of_request(load_tree(change_set.policy), change_set.asks_entry_uid)
    if not Decider(change_set.policy, actor, at).decides_shares_of(change_set.asks_entry_uid):
        raise NotAllowed("Only managers above the entry can decide about its shares.")
    return change_set


def _other_operations(
    change_set: ChangeSet, shares: float | Mapping[str, float] | None, until: date | None, at: datetime
) -> list[Operation] | None:
    """Return the operations that are granted instead; None if the request is granted unchanged."""
    if shares is None and until is _UNSET:
        return None
    assert change_set.asks_entry_uid is not None, "checked when it was locked"  # noqa: S101 - an invariant, not input
    asked, tree = offer_of(change_set), load_tree(change_set.policy)
    if isinstance(shares, Mapping):
        wanted: object = shares_for_target(tree, change_set.asks_entry_uid, shares["percent"] / 100)
    else:
        wanted = asked.shares if shares is None else _amount(shares)
    day = asked.until if until is _UNSET else until
    if (wanted, day) == (asked.shares, asked.until):
        return None
    if not isinstance(wanted, int | float):
        raise _invalid("shares", "must be a number")
    return _operations(node_of_request(tree, change_set.asks_entry_uid), wanted, day, at)


def _offer(change_set: ChangeSet, operations: list[Operation], actor: Actor, at: datetime) -> ChangeSet:
    """Replace the operations by a counter-offer on the head; the original operations are stored in `asked`."""
    policy = Policy.all_objects.get(pk=change_set.policy_id)
    tree, settings = load_revision(policy, policy.head_number)
    resolved = apply_operations(tree, operations, settings=settings).operations
    reanchor(change_set, resolved)
    change_set.asked = change_set.operations if change_set.asked is None else change_set.asked
    replace_operations(change_set, resolved, policy.head_number)
    change_set.approvals.all().delete()
    return move_on(change_set, State.PROPOSED, actor, at, "changeset.counter_offered")


def _approve(change_set: ChangeSet, actor: Actor, at: datetime) -> None:
    """Record the deciding manager's approval, unless they are the author or may not approve."""
    if actor.user is None or actor.user.pk == change_set.author_id:
        return
    try:
        require_approver(change_set, actor, at)
    except DomainError:
        return
    Approval.objects.get_or_create(
        change_set=change_set,
        version=change_set.version,
        user=actor.user,
        defaults={"user_name": actor.name, "created_at": at},
    )
    record(
        actor=actor,
        verb="changeset.approved",
        at=at,
        policy_slug=change_set.policy.slug,
        subject=f"change set {change_set.pk}",
        reason=change_set.reason,
    )


def _operations(node: Node, shares: float, until: date | None, at: datetime) -> list[Operation]:
    if until is not None and until < timezone.localdate(at):
        raise _invalid("until", "is in the past")
    operations = shares_operations(node, shares, until, where="until")
    if not operations:
        raise Invalid(
            "The entry already has these shares.",
            code="nothing_to_change",
            fields=[FieldProblem("shares", "are the current ones")],
        )
    return operations


def _amount(shares: object) -> float:
    try:
        clean = clean_shares(shares)
    except ValueError as error:
        raise _invalid("shares", str(error)) from None
    if clean is None:
        raise _invalid("shares", "must be a number")
    return clean


def _invalid(where: str, message: str) -> Invalid:
    return Invalid(f"{where} {message}.", fields=[FieldProblem(where, message)])
