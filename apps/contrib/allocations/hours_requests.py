"""Requests for allocations: a lead requests hours for the own group; a manager above grants, changes or declines.

As requests for shares do, a request gives no rights: a grant is an allocation, made with the rights of who decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef

from apps.accounts.actor import Actor
from apps.accounts.audit_log import log_refusals, record
from apps.contrib.allocations.models import AllocationRequest
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.services import (
    AllocationTerms,
    allocation_permission,
    create_allocation,
)
from apps.contrib.allocations.terms import (
    VisibilityOf,
    amount_of,
    deciding,
    invalid,
    reason_of,
    refuse_days,
    text_of,
)
from apps.contrib.allocations.units import find_unit, policy_units
from apps.core.errors import Conflict, NotAllowed, NotFound
from apps.policies.access.scope import WRITE, require_scope, visible_entries
from apps.policies.models import Entry, Policy
from apps.policies.operations.allocation_edits import MOST_ALLOCATED_AMOUNT
from apps.policies.publishing.revisions import lock_policy
from apps.policies.requests.requested_shares import leads, require_room
from apps.policies.selectors import get_policy, list_policies
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree

MOST_LISTED_REQUESTS = 100
# Ids of policies with open requests.
OPEN_POLICY_IDS = "SELECT DISTINCT policy_id FROM packs_allocationrequest WHERE state = 'open'"
State = AllocationRequest.State


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request with the entry that it is for, as one reader may see it. may_decide: whether the reader may answer."""

    request: AllocationRequest
    name: str
    path: str
    may_decide: bool
    is_own: bool

    @property
    def days(self) -> Period:
        return Period(self.request.starts_on, self.request.ends_on)


def request_hours(
    *,
    policy_slug: str,
    entry_uid: UUID,
    terms: AllocationTerms,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> AllocationRequest:
    """Request an allocation for an entry that the actor leads.

    Raises:
        Conflict: `own_decision` if the actor may allocate it; `asked` if there is an open request for the entry in this
            unit; `too_many_requests_open`.
        NotAllowed: the actor doesn't lead the entry.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    event = {"policy_slug": policy.slug, "entry_uid": entry_uid}
    with log_refusals("allocation.requested", actor, at, **event), transaction.atomic():
        require_scope(actor, WRITE)
        policy = lock_policy(policy.pk)
        tree = load_tree(policy)
        i = visibility(policy=policy, tree=tree, actor=actor, at=at).require(tree.index_of_uid(entry_uid))
        _refuse_request(policy, tree, i, at, actor)
        made = AllocationRequest(policy=policy, entry_uid=entry_uid, created_at=at)
        made.author, made.author_name = actor.user, actor.name
        made.starts_on, made.ends_on = terms.starts_on, terms.ends_on
        refuse_days(made.starts_on, made.ends_on)
        made.amount = amount_of(terms.amount, "amount", MOST_ALLOCATED_AMOUNT)
        if made.amount <= 0:
            raise invalid("amount", "must be above 0")
        made.unit = find_unit(policy_units(policy), terms.unit).symbol
        made.reason = reason_of(terms.reason)
        _require_room(made, actor)
        made.save()
        _log("allocation.requested", made, tree.path(i), made.reason, at, actor)
    return made


def grant_hours(
    *,
    policy_slug: str,
    request_uid: UUID,
    amount: float | None = None,
    starts_on: date | None = None,
    ends_on: date | None = None,
    text: str = "",
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> AllocationRequest:
    """Make the requested allocation, or one of another amount or days, by a manager above the entry."""
    with transaction.atomic():
        asked, path = _to_decide(policy_slug, request_uid, at, actor, visibility)
        wanted = asked.amount if amount is None else amount
        answer = text_of(text, "text")
        made = create_allocation(
            policy_slug=policy_slug,
            entry_uid=asked.entry_uid,
            terms=AllocationTerms(
                starts_on=starts_on or asked.starts_on,
                ends_on=ends_on or asked.ends_on,
                amount=wanted,
                unit=asked.unit,
                reason=answer or asked.reason,
            ),
            at=at,
            actor=actor,
            visibility=visibility,
        )
        asked.granted_amount, asked.allocation_uid = made.amount, made.uid
        return _decide(asked, State.GRANTED, "allocation.request_granted", path, answer, at, actor)


def decline_hours(
    *,
    policy_slug: str,
    request_uid: UUID,
    text: str,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> AllocationRequest:
    """Decline a request with a comment."""
    with transaction.atomic():
        asked, path = _to_decide(policy_slug, request_uid, at, actor, visibility)
        return _decide(asked, State.DECLINED, "allocation.request_declined", path, reason_of(text), at, actor)


def withdraw_hours_request(
    *, policy_slug: str, request_uid: UUID, at: datetime, actor: Actor, visibility: VisibilityOf = visible_entries
) -> AllocationRequest:
    """Withdraw one's own open request."""
    with transaction.atomic():
        asked, path = _open(policy_slug, request_uid, at, actor, visibility)
        if actor.user is None or asked.author_id != actor.user.pk:
            raise NotAllowed("Only its author can withdraw a request.")
        return _decide(asked, State.WITHDRAWN, "allocation.request_withdrawn", path, "", at, actor)


def require_decider(
    *, policy_slug: str, request_uid: UUID, at: datetime, actor: Actor, visibility: VisibilityOf = visible_entries
) -> None:
    """Refuse who may not decide about an open request, before anything of the decision is read."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    require_scope(actor, WRITE)
    _require_open(policy, request_uid, at, actor, visibility)


def list_requests_for(
    *, policy: Policy, tree: TreeColumns, entry_uid: UUID, at: datetime, actor: Actor, limit: int = 3
) -> list[SeenRequest]:
    """Requests for one visible entry, newest first: for those who lead it or decide about it."""
    i = tree.index_of_uid(entry_uid)
    if i is None:
        return []
    may_decide = _permission(policy, tree, at, actor)(i)
    if not may_decide and not leads(policy, tree, entry_uid, actor, at):
        return []
    rows = AllocationRequest.objects.filter(policy=policy, entry_uid=entry_uid).select_related("policy")
    return [_seen(row, tree, i, actor, may_decide=may_decide) for row in rows.order_by("-created_at", "-pk")[:limit]]


def list_requests(
    *, policy_slug: str, at: datetime, actor: Actor, visibility: VisibilityOf = visible_entries
) -> list[SeenRequest]:
    """Requests in a policy that the actor sent, or may decide about, newest first; of entries that the actor sees."""
    policy = get_policy(slug=policy_slug, actor=actor)
    rows = AllocationRequest.objects.filter(policy=policy).order_by("-created_at", "-pk")
    return _shown(policy, rows[: 10 * MOST_LISTED_REQUESTS], at, actor, visibility)[:MOST_LISTED_REQUESTS]


def get_request(
    *, policy_slug: str, request_uid: UUID, at: datetime, actor: Actor, visibility: VisibilityOf = visible_entries
) -> SeenRequest:
    """One of `list_requests`."""
    policy = get_policy(slug=policy_slug, actor=actor)
    rows = AllocationRequest.objects.filter(policy=policy, uid=request_uid)
    shown = _shown(policy, rows, at, actor, visibility)
    if not shown:
        raise NotFound("There is no such request in this policy.")
    return shown[0]


def _shown(
    policy: Policy, rows: Iterable[AllocationRequest], at: datetime, actor: Actor, visibility: VisibilityOf
) -> list[SeenRequest]:
    tree = load_tree(policy)
    sees, may = visibility(policy=policy, tree=tree, actor=actor, at=at), _permission(policy, tree, at, actor)
    placed = [(row, i) for row in rows if (i := tree.index_of_uid(row.entry_uid)) is not None and sees.may_see(i)]
    seen = [_seen(row, tree, i, actor, may_decide=may(i)) for row, i in placed]
    return [each for each, (_row, i) in zip(seen, placed, strict=True) if each.is_own or may(i)]


def list_open_requests(
    *, at: datetime, actor: Actor, ids: Iterable[int] | None = None
) -> tuple[list[SeenRequest], list[SeenRequest]]:
    """Open requests that wait for the actor's decision, and all that the actor has sent, newest first.

    ids: of OPEN_POLICY_IDS, if the caller has read them.
    """
    rows = AllocationRequest.objects.select_related("policy").order_by("-created_at", "-pk")
    waiting, sent = [], []
    open_rows = rows.filter(state=State.OPEN) if ids is None else rows.filter(state=State.OPEN, policy_id__in=list(ids))
    of_policy: dict[int, list[AllocationRequest]] = {}
    for row in open_rows[: 10 * MOST_LISTED_REQUESTS]:
        of_policy.setdefault(row.policy_id, []).append(row)
    policies = {policy.pk: policy for policy in list_policies(actor=actor)}
    for policy_id, own in of_policy.items():
        if policy_id in policies:
            waiting += _decidable(policies[policy_id], own, at, actor)
    if actor.user is not None and ids is None:
        for row in rows.filter(author=actor.user, policy__in=policies)[:MOST_LISTED_REQUESTS]:
            tree = load_tree(policies[row.policy_id])
            i = tree.index_of_uid(row.entry_uid)
            if i is not None:
                sent.append(_seen(row, tree, i, actor, may_decide=False))
    return waiting[:MOST_LISTED_REQUESTS], sent


def count_open_requests(*, at: datetime, actor: Actor, ids: Iterable[int]) -> int:
    """Number of requests that wait for the actor. ids: of OPEN_POLICY_IDS."""
    ids = list(ids)
    return len(list_open_requests(at=at, actor=actor, ids=ids)[0]) if ids else 0


def _decidable(policy: Policy, rows: Sequence[AllocationRequest], at: datetime, actor: Actor) -> list[SeenRequest]:
    tree = load_tree(policy)
    may, sees = _permission(policy, tree, at, actor), visible_entries(policy=policy, tree=tree, actor=actor, at=at)
    seen = []
    for row in rows:
        i = tree.index_of_uid(row.entry_uid)
        if i is not None and sees.may_see(i) and may(i):
            seen.append(_seen(row, tree, i, actor, may_decide=True))
    return seen


def _permission(policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> Callable[[int], bool]:
    return allocation_permission(policy=policy, tree=tree, at=at, actor=actor)


def _seen(row: AllocationRequest, tree: TreeColumns, i: int, actor: Actor, *, may_decide: bool) -> SeenRequest:
    is_own = actor.user is not None and row.author_id == actor.user.pk
    return SeenRequest(row, tree.name[i], tree.path(i), may_decide and row.state == State.OPEN, is_own)


def _refuse_request(policy: Policy, tree: TreeColumns, i: int, at: datetime, actor: Actor) -> None:
    if i == 0:
        raise invalid("entry", "is the root, which has the capacity, recorded by site")
    if tree.is_reserve[i]:
        raise invalid("entry", "is a reserve, which has no allocation")
    if not leads(policy, tree, tree.uuid(i), actor, at):
        raise NotAllowed("Only managers of an entry can request hours for it.", code="not_your_group")
    if deciding(policy=policy, tree=tree, at=at, actor=actor)(i):
        raise Conflict("You can allocate to it yourself: no request is needed.", code="own_decision")


def _require_room(made: AllocationRequest, actor: Actor) -> None:
    waiting = AllocationRequest.objects.filter(state=State.OPEN)
    same = waiting.filter(policy=made.policy, entry_uid=made.entry_uid, unit=made.unit)
    # Nobody can answer or withdraw one for an entry that was archived meanwhile.
    entries = Entry.objects.filter(policy=OuterRef("policy"), uid=OuterRef("entry_uid"), until=None)
    require_room(same, waiting.filter(Exists(entries)), actor)


def _open(
    policy_slug: str, request_uid: UUID, at: datetime, actor: Actor, visibility: VisibilityOf
) -> tuple[AllocationRequest, str]:
    """Lock the policy and an open request of a visible entry; return it with the entry's path."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    require_scope(actor, WRITE)
    return _require_open(lock_policy(policy.pk), request_uid, at, actor, visibility)


def _require_open(
    policy: Policy, request_uid: UUID, at: datetime, actor: Actor, visibility: VisibilityOf
) -> tuple[AllocationRequest, str]:
    tree = load_tree(policy)
    asked = AllocationRequest.objects.select_related("policy").filter(policy=policy, uid=request_uid).first()
    i = None if asked is None else tree.index_of_uid(asked.entry_uid)
    sees = visibility(policy=policy, tree=tree, actor=actor, at=at)
    if asked is None or i is None or not sees.may_see(i):
        raise NotFound("There is no such request in this policy.")
    is_own = actor.user is not None and asked.author_id == actor.user.pk
    if not is_own and not _permission(policy, tree, at, actor)(i):
        raise NotAllowed(f"Only managers above {tree.path(i)} can decide about its allocations.")
    if asked.state != State.OPEN:
        raise Conflict(f"This request is {asked.state}: load it again.", code="decided")
    return asked, tree.path(i)


def _to_decide(
    policy_slug: str, request_uid: UUID, at: datetime, actor: Actor, visibility: VisibilityOf
) -> tuple[AllocationRequest, str]:
    asked, path = _open(policy_slug, request_uid, at, actor, visibility)
    tree = load_tree(asked.policy)
    if not _permission(asked.policy, tree, at, actor)(tree.index_of_uid(asked.entry_uid) or 0):
        raise NotAllowed(f"Only managers above {path} can decide about its allocations.")
    return asked, path


def _decide(
    asked: AllocationRequest, state: str, verb: str, path: str, answer: str, at: datetime, actor: Actor
) -> AllocationRequest:
    asked.state, asked.decided_at, asked.answer = state, at, answer
    asked.decided_by, asked.decided_name = actor.user, actor.name
    asked.save()
    _log(verb, asked, path, answer, at, actor)
    return asked


def _log(verb: str, asked: AllocationRequest, path: str, reason: str, at: datetime, actor: Actor) -> None:
    record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=asked.policy.slug,
        entry_uid=asked.entry_uid,
        subject=path,
        reason=reason,
        details={
            "request": str(asked.uid),
            "amount": asked.amount if asked.granted_amount is None else asked.granted_amount,
            "unit": asked.unit,
            "starts_on": str(asked.starts_on),
            "ends_on": str(asked.ends_on),
        },
    )
