"""What makes a change set a request from below: a lead requests more for the own group, and a manager above decides."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, NotFound
from apps.policies.access.scope import Rights, Verb, rules_all, visible_entries
from apps.policies.changesets.change_sets import settings_of
from apps.policies.changesets.decisions import Decider
from apps.policies.models import ChangeSet, Policy
from apps.policies.operations.apply import Operation, work_out
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.stored import load_tree

MOST_OPEN = 10
OPEN = (ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)
_ASKS = ("set_shares", "set_dates")


def find_asked(policy: Policy, asks: str, actor: Actor, at: datetime) -> UUID:
    """The entry that a uid or path names; what the actor may not see isn't there."""
    tree = load_tree(policy)
    sees = visible_entries(policy=policy, tree=tree, actor=actor, at=at)
    i = tree.index_of_path(asks) if asks.startswith("/") else tree.index_of_uid(_uid(asks))
    if i is None or not sees.may_see(i):
        raise NotFound("There is no such entry in this policy.")
    return tree.uuid(i)


def leads(policy: Policy, tree: TreeColumns, uid: UUID, actor: Actor, at: datetime) -> bool:
    """Whether the actor divides what lies below this entry."""
    i = tree.index_of_uid(uid)
    if i is None:
        return False
    bound = actor.token.subtree_uid if actor.token else None
    lineage = {tree.uuid(j) for j in (*tree.ancestors(i), i)}
    if bound is not None and bound not in lineage:
        return False
    return rules_all(actor) or not Rights(policy, actor, at).at(Verb.EDIT_SHARES).isdisjoint(lineage)


def require_request(change_set: ChangeSet, actor: Actor, at: datetime) -> None:
    """Before it is sent: about the shares of one entry that the actor leads, more of them, and not too many at once."""
    policy, uid = change_set.policy, change_set.asks_entry_uid
    tree = load_tree(policy)
    i = None if uid is None else tree.index_of_uid(uid)
    if uid is None or i is None:
        raise Conflict("The entry it asks for is archived: there is nothing to ask for.", code="entry_archived")
    if i == 0:
        raise _refused("The root has all resources: it can't get more.")
    if not leads(policy, tree, uid, actor, at):
        raise NotAllowed("Only managers of an entry can request a larger share for it.", code="not_your_group")
    _require_shares_of(change_set.operations, uid)
    if Decider(policy, actor, at).decides_shares_of(uid):
        raise Conflict("You decide about its shares yourself: change them instead of asking.", code="own_decision")
    after = work_out(tree, change_set.operations, settings=settings_of(policy, policy.head_number)).tree
    if not _is_more(tree, after, uid):
        raise _refused("It would not get more than it has: ask for a larger share.")
    _require_room(change_set, actor)


def _require_shares_of(operations: list[Operation], uid: UUID) -> None:
    for index, operation in enumerate(operations):
        if operation["op"] not in _ASKS or operation.get("entry") != str(uid):
            where = FieldProblem(f"operations[{index}]", "may only be set_shares or set_dates of the entry it asks for")
            raise Invalid(f"{where.where} {where.message}.", code="not_a_request", fields=[where])


def _require_room(change_set: ChangeSet, actor: Actor) -> None:
    waiting = ChangeSet.objects.filter(origin=ChangeSet.Origin.REQUEST, state__in=OPEN).exclude(pk=change_set.pk)
    same = waiting.filter(policy=change_set.policy, asks_entry_uid=change_set.asks_entry_uid)
    if same.exists():
        raise Conflict("There is an open request for this entry: withdraw it, or wait for the answer.", code="asked")
    if actor.user is not None and waiting.filter(author=actor.user).count() >= MOST_OPEN:
        text = f"You have {MOST_OPEN} open requests, the most allowed: withdraw one, or wait for an answer."
        raise Conflict(text, code="too_many_requests_open")


def _is_more(before: TreeColumns, after: TreeColumns, uid: UUID) -> bool:
    was, wanted = target_of(before, uid), target_of(after, uid)
    if was is None or wanted is None:
        return _shares(after, uid) > _shares(before, uid)
    return wanted > was * (1 + 1e-12)


def target_of(tree: TreeColumns, uid: UUID) -> float | None:
    """Among its siblings; None for the root, and where an entry inherits, so that others compete there too."""
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
    """Shares with which an entry has this target while its siblings keep theirs: s = t · others / (1 − t)."""
    i = tree.index_of_uid(uid)
    if i is None or i == 0 or target_of(tree, uid) is None:
        raise _refused("A percentage means nothing here: ask for a number of shares.")
    siblings = tree.children(int(tree.parent[i]))
    others = float(tree.shares[siblings.start : siblings.stop].sum()) - float(tree.shares[i])
    if not 0 < target < 1 or others <= 0:
        raise _refused("A percentage must be between 0 and 100, with siblings to give it.")
    return float(f"{target * others / (1 - target):.6g}")


def wished(operations: list[Operation]) -> tuple[Any, date | None]:
    """The shares (a number, "parent", a percentage as it was written) and the last day that operations ask for."""
    shares = next((each["shares"] for each in operations if each["op"] == "set_shares"), None)
    dates = next((each["dates"] for each in operations if each["op"] == "set_dates"), None)
    ends_on = dates.get("ends_on") if dates else None
    return shares, date.fromisoformat(ends_on) if ends_on else None


def node_of_request(tree: TreeColumns, uid: UUID) -> Node:
    i = tree.index_of_uid(uid)
    if i is None:
        raise Conflict("The entry it asks for is archived: there is nothing to give.", code="entry_archived")
    return tree.node(i)


def _shares(tree: TreeColumns, uid: UUID) -> float:
    i = tree.index_of_uid(uid)
    return 0.0 if i is None else float(tree.shares[i])


def _uid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        problem = FieldProblem("asks", "must be an entry's uid, or its path beginning with '/'")
        raise Invalid(f"asks {problem.message}.", fields=[problem]) from None


def _refused(message: str) -> Invalid:
    return Invalid(message, code="not_a_request", fields=[FieldProblem("shares", message)])
