"""What a request asks for: which entry, which shares, and the target they would give; and how many may be open."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, FieldProblem, Invalid, NotFound
from apps.policies.access.scope import Rights, Verb, administers_within_bounds, visible_entries
from apps.policies.models import Policy
from apps.policies.operations.apply import Operation
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.stored import load_tree

MOST_OPEN_REQUESTS = 10  # of one person, for shares; and as many for hours


def require_room(same: QuerySet[Any], waiting: QuerySet[Any], actor: Actor) -> None:
    """Refuse another request: there is an open one for the same, or the actor has as many as allowed.

    same: open requests for the same. waiting: all open ones of its kind that can still be answered; each has an
    author.
    """
    if same.exists():
        raise Conflict("There is an open request for this entry: withdraw it, or wait for the answer.", code="asked")
    if actor.user is not None and waiting.filter(author=actor.user).count() >= MOST_OPEN_REQUESTS:
        text = f"You have {MOST_OPEN_REQUESTS} open requests, the most allowed: withdraw one, or wait for an answer."
        raise Conflict(text, code="too_many_requests_open")


def find_requested_entry(policy: Policy, asks: str, actor: Actor, at: datetime) -> UUID:
    """Return the uid of the entry named by uid or path; NotFound if the actor can't see it."""
    tree = load_tree(policy)
    sees = visible_entries(policy=policy, tree=tree, actor=actor, at=at)
    i = tree.index_of_path(asks) if asks.startswith("/") else tree.index_of_uid(_uid(asks))
    if i is None or not sees.may_see(i):
        raise NotFound("There is no such entry in this policy.")
    return tree.uuid(i)


def leads(policy: Policy, tree: TreeColumns, uid: UUID, actor: Actor, at: datetime) -> bool:
    """Return whether the actor may change shares below this entry."""
    i = tree.index_of_uid(uid)
    if i is None:
        return False
    lineage = {tree.uuid(j) for j in (*tree.ancestors(i), i)}
    if not actor.reaches_entry(lineage):
        return False
    return administers_within_bounds(actor) or not Rights(policy, actor, at).at(Verb.EDIT_SHARES).isdisjoint(lineage)


def target_of(tree: TreeColumns, uid: UUID) -> float | None:
    """Return the target among siblings; None for the root and in groups where an entry inherits."""
    i = tree.index_of_uid(uid)
    if i is None or i == 0:
        return None
    siblings = tree.children(int(tree.parent[i]))
    here = slice(siblings.start, siblings.stop)
    if tree.inherit[here].any():
        return None
    total = float(tree.shares[here].sum())
    return float(tree.shares[i]) / total if total else 0.0


def shares_for_target(tree: TreeColumns, uid: UUID, target: float) -> float:
    """Return shares for this target while the siblings keep theirs: s = t · others / (1 − t)."""
    i = tree.index_of_uid(uid)
    if i is None or i == 0 or target_of(tree, uid) is None:
        raise refused("A percentage is undefined here: ask for a number of shares.")
    siblings = tree.children(int(tree.parent[i]))
    others = float(tree.shares[siblings.start : siblings.stop].sum()) - float(tree.shares[i])
    if not 0 < target < 1 or others <= 0:
        raise refused("A percentage must be between 0 and 100, and needs siblings with shares.")
    return float(f"{target * others / (1 - target):.6g}")


def parse_requested_shares(operations: list[Operation]) -> tuple[Any, date | None]:
    """Return the shares (a number, "parent", or a percentage object) and the last day that operations ask for."""
    shares = next((each["shares"] for each in operations if each["op"] == "set_shares"), None)
    dates = next((each["dates"] for each in operations if each["op"] == "set_dates"), None)
    ends_on = dates.get("ends_on") if dates else None
    return shares, date.fromisoformat(ends_on) if ends_on else None


def node_of_request(tree: TreeColumns, uid: UUID) -> Node:
    i = tree.index_of_uid(uid)
    if i is None:
        raise Conflict("The entry that the request is for is archived.", code="entry_archived")
    return tree.node(i)


def _uid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        problem = FieldProblem("asks", "must be an entry's uid, or its path beginning with '/'")
        raise Invalid(f"asks {problem.message}.", fields=[problem]) from None


def refused(message: str) -> Invalid:
    return Invalid(message, code="not_a_request", fields=[FieldProblem("shares", message)])
