"""Share orders: have an agent set shares after a review, take over shares from the scheduler, and store outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.contrib.schedulers.models import Scheduler, ShareOrder
from apps.contrib.schedulers.selectors import difference_of
from apps.contrib.schedulers.services import find_to_change, lock_to_change, log, refusals_of
from apps.contrib.schedulers.share_difference import ShareChange, ShareDifference
from apps.contrib.schedulers.share_listing import Key
from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound, Stale
from apps.policies.changesets.drafts import add_operations, find_draft, open_draft
from apps.policies.models import ChangeSet

MOST_ORDER_LINES = 5_000  # per order; further lines go into the next one


def order_shares(
    *, name: str, tag: str, put_back: Sequence[Key] | None = None, at: datetime, actor: Actor
) -> ShareOrder:
    """Order the agent to set the policy's shares in the scheduler. tag: version of the difference that the caller
    reviewed.

    put_back: associations changed in the scheduler, to be reset; None: all that the policy changed.

    Raises:
        Stale: the difference has changed since.
        Conflict: an order is open (`order_open`), or the agent doesn't set shares (`sets_no_shares`).
        Invalid: nothing to set, or a name that isn't in the difference.
    """
    unlocked = find_to_change(name, actor, at)
    with refusals_of("scheduler.shares_ordered", actor, at, unlocked.policy.slug, name), transaction.atomic():
        scheduler = lock_to_change(unlocked, actor, at)
        if scheduler.carries != Scheduler.Carries.SHARES or scheduler.mode != Scheduler.Mode.ON:
            message = _("The agent sets shares where the scheduler carries shares, in mode on.")
            raise Conflict(message, code="sets_no_shares")
        if ShareOrder.objects.filter(scheduler=scheduler, state=ShareOrder.State.OPEN).exists():
            raise Conflict(_("An order is open: wait for it, or cancel it."), code="order_open")
        difference = _reviewed(scheduler, tag)
        chosen = difference.to_send if put_back is None else _chosen(difference.by_hand, put_back)
        if not chosen:
            raise Invalid(_("There is no share to set."), code="nothing_to_set")
        order = ShareOrder.objects.create(
            scheduler=scheduler,
            cluster=difference.cluster,
            revision_number=scheduler.policy.head_number,
            lines=[_line(change) for change in chosen[:MOST_ORDER_LINES]],
            created_at=at,
            created_by=actor.name,
        )
        details = {"order": order.pk, "lines": order.lines[:100], "n_lines": len(order.lines)}
        log("scheduler.shares_ordered", scheduler, at, actor, **details)
    return order


def cancel_share_order(*, name: str, order_id: int, at: datetime, actor: Actor) -> ShareOrder:
    """Cancel an open order; shares that the agent has set stay. Safe to repeat.

    Raises:
        NotFound: there is none.
    """
    unlocked = find_to_change(name, actor, at)
    with refusals_of("scheduler.share_order_cancelled", actor, at, unlocked.policy.slug, name), transaction.atomic():
        scheduler = lock_to_change(unlocked, actor, at)
        order = ShareOrder.objects.select_for_update(no_key=True).filter(scheduler=scheduler, pk=order_id).first()
        if order is None:
            raise NotFound(_("Not found, or not visible to you."))
        if order.state == ShareOrder.State.OPEN:
            order.state, order.ended_at = ShareOrder.State.CANCELLED, at
            order.save()
            log("scheduler.share_order_cancelled", scheduler, at, actor, order=order.pk)
    return order


def take_over_shares(*, name: str, tag: str, keys: Sequence[Key], at: datetime, actor: Actor) -> ChangeSet:
    """Add shares that were changed in the scheduler to the actor's draft, which is opened if needed.

    Raises:
        Stale: the difference has changed since.
        Invalid: nothing to take over, or a name that isn't in the difference.
    """
    unlocked = find_to_change(name, actor, at)
    with transaction.atomic():
        scheduler = lock_to_change(unlocked, actor, at)
        difference = _reviewed(scheduler, tag)
        chosen = _chosen(difference.by_hand, keys)
        if not chosen:
            raise Invalid(_("There is no share to take over."), code="nothing_to_set")
        policy = scheduler.policy
        draft = find_draft(policy=policy, at=at, actor=actor)
        if draft is None:
            reason = _("Shares as they are in %(name)s") % {"name": scheduler.name}
            draft = open_draft(policy_slug=policy.slug, reason=reason, at=at, actor=actor)
        operations = [
            {
                "op": "set_shares",
                "entry": str(difference.policy_tree.uuid(change.row)),
                "shares": difference.shares_in_policy(change),
            }
            for change in chosen
        ]
        return add_operations(id=draft.pk, version=draft.version, operations=operations, at=at, actor=actor)


def _reviewed(scheduler: Scheduler, tag: str) -> ShareDifference:
    difference = difference_of(scheduler)
    if difference is None:
        raise Conflict(_("The agent has not listed shares yet."), code="no_shares")
    if difference.tag != tag:
        raise Stale(_("Another person changed this first"))
    return difference


def _chosen(changes: Sequence[ShareChange], keys: Sequence[Key]) -> list[ShareChange]:
    by_key = {change.key: change for change in changes}
    unknown = [key for key in keys if key not in by_key]
    if unknown:
        message = _("%(group)s %(user)s was not changed in the scheduler.") % unknown[0]._asdict()
        raise Invalid(message, fields=[FieldProblem("lines", message)])
    return [by_key[key] for key in dict.fromkeys(keys)]


def _line(change: ShareChange) -> dict[str, str]:
    key = change.key
    return {
        "group": key.group,
        "user": key.user,
        "before": change.before,
        "after": change.after,
        "agreed": change.agreed,
        "outcome": "",
        "detail": "",
    }
