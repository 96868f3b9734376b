"""The walk of an account for readers with the right to it: numbers, keys and sentences, level by level."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.accounts.actor import Actor
from apps.engine.algorithms.explanation import Kind
from apps.explain.my_priority import unranked_said
from apps.explain.walk import Walk, WalkStep, level_said, step_json, walk_to, without_reason
from apps.priorities.records.moment import Moment
from apps.priorities.selectors.visible.snapshot import VisibleSnapshot, open_snapshot
from apps.priorities.sentences import Message, say, text_of
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.lookup_index import instant


def explain(
    *,
    policy_slug: str,
    account: str | AccountQuery,
    namespace: str = "",
    actor: Actor,
    at: int | datetime | None = None,
) -> dict[str, Any]:
    """The walk of an account, one object a level; what the actor may not see is answered as unmapped.

    at: a past revision or instant, read with the current rights.
    """
    look = open_snapshot(policy_slug=policy_slug, actor=actor, at=at, scope=scope_of(actor))
    snapshot = look.snapshot
    query = account if isinstance(account, AccountQuery) else AccountQuery(account, namespace=namespace)
    described = []
    for result in snapshot.lookup([query], mask=look.told):
        entry = snapshot.tree.index_of_path(result["entry"]) if result["entry"] is not None else None
        described.append(result if entry is None else _explained(look, result, entry))
    return {
        "policy": policy_slug,
        "snapshot": snapshot.snapshot_id,
        "revision": snapshot.revision,
        "as_of": instant(snapshot.as_of),
        "algorithm": snapshot.algorithm,
        "moment": moment_json(look.moment),
        "results": described,
    }


def rank_said(
    rank: int | None, of: int, deciding: WalkStep | None, why_unranked: list[Message], explained_by: Kind
) -> list[Message]:
    """The place, and the level that is the main reason for it."""
    if rank is None:
        return why_unranked or [say("rank.none")]
    if deciding is None:
        return [say("rank.place", rank=rank, of=of)]
    return [say("rank.decided" if explained_by == "levels" else "rank.factor", rank=rank, of=of, name=deciding.name)]


def moment_json(moment: Moment | None) -> dict[str, Any] | None:
    """Which state of affairs a look back shows."""
    if moment is None:
        return None
    return {
        "revision": moment.revision,
        "since": instant(moment.since),
        "until": instant(moment.until) if moment.until else None,
        "as_of": instant(moment.as_of) if moment.as_of else None,
        "snapshot_revision": moment.snapshot_revision,
        "reconstructed": moment.is_reconstructed,
        "notes": [one.json() for one in moment.notes],
    }


def scope_of(actor: Actor) -> str:
    """Which of its scopes a token reads with."""
    return next((scope for scope in ("priorities:read", "policies:read") if actor.has_scope(scope)), "self:read")


def _explained(look: VisibleSnapshot, result: dict[str, Any], entry: int) -> dict[str, Any]:
    """A token that is bound to a subtree sees nothing of the levels above it."""
    walk: Walk = walk_to(look.snapshot, entry)
    steps = [without_reason(look.snapshot, step, look.told) for step in walk.steps]
    shown = [step for step, i in zip(steps, walk.chain, strict=True) if look.told[i]]
    is_told = walk.deciding is not None and bool(look.told[walk.chain[walk.deciding]])
    deciding = steps[walk.deciding] if is_told and walk.deciding is not None else None
    kind = look.snapshot.order.explanation.kind
    said = rank_said(result["rank"], result["of"], deciding, unranked_said(look.snapshot, result, entry), kind)
    return {
        **result,
        "steps": [
            {**step_json(step, level_said(step, decides=step is deciding)), "decides": step is deciding}
            for step in shown
        ],
        "explained_by": kind,
        "deciding": None if deciding is None else deciding.path,
        "sentence": text_of(said),
        "sentences": [one.json() for one in said],
    }
