"""What differs between a policy's shares and its scheduler's, and the orders that were made of it."""

from __future__ import annotations

from datetime import datetime

from apps.accounts.actor import Actor
from apps.policies.tree.stored import load_tree
from apps.schedulers.models import Scheduler, ShareOrder
from apps.schedulers.selectors import get_scheduler
from apps.schedulers.shares.difference import Listing, ShareDifference, compare, load_listing

MOST_ORDERS = 100


def get_share_difference(*, name: str, at: datetime, actor: Actor) -> ShareDifference | None:
    """Of now; None before the agent listed shares."""
    return difference_of(get_scheduler(name=name, at=at, actor=actor).scheduler)


def difference_of(scheduler: Scheduler) -> ShareDifference | None:
    """The caller checks the rights."""
    listing = load_listing(scheduler)
    return None if listing is None else difference_with(scheduler, listing)


def difference_with(scheduler: Scheduler, listing: Listing) -> ShareDifference:
    tree = load_tree(scheduler.policy)
    within = None
    if scheduler.subtree_uid is not None:
        i = tree.index_of_uid(scheduler.subtree_uid)
        within = tree.subtree_mask(i) if i is not None else tree.subtree_mask(0) & False
    return compare(scheduler.kind, tree, listing, within)


def list_share_orders(*, name: str, at: datetime, actor: Actor, limit: int = MOST_ORDERS) -> list[ShareOrder]:
    """Newest first."""
    scheduler = get_scheduler(name=name, at=at, actor=actor).scheduler
    return list(ShareOrder.objects.filter(scheduler=scheduler).order_by("-id")[: min(limit, MOST_ORDERS)])
