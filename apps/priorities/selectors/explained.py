"""The walk of an account or an entry for whoever may see it: numbers, keys and sentences, level by level."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps import clock
from apps.accounts.actor import Actor
from apps.policies.columns import Mask
from apps.policies.selectors import get_policy
from apps.priorities import served
from apps.priorities.answers import ServedSnapshot, instant
from apps.priorities.lookup import AccountQuery
from apps.priorities.selectors.me import unranked_said
from apps.priorities.sentences import Said, say, text_of
from apps.priorities.sight import visible_in
from apps.priorities.walk import Walk, WalkStep, level_said, step_json, walk_to


def explain(
    *, policy_slug: str, account: str | AccountQuery, namespace: str = "", actor: Actor,
    at: int | datetime | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The walk of an account, one object a level; what the actor may not see reads as unmapped."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=_scope(actor))
    snapshot = served.newest(policy_slug)
    query = account if isinstance(account, AccountQuery) else AccountQuery(account, namespace=namespace)
    seen = visible_in(policy=policy, snapshot=snapshot, at=clock.now(), actor=actor)
    results = snapshot.lookup([query], mask=seen)
    described = []
    for result in results:
        entry = snapshot.tree.index_of_path(result["entry"]) if result["entry"] is not None else None
        described.append(result if entry is None else _explained(snapshot, result, walk_to(snapshot, entry), seen))
    return {
        "policy": policy_slug,
        "snapshot": snapshot.snapshot_id,
        "revision": snapshot.revision,
        "as_of": instant(snapshot.as_of),
        "results": described,
    }


def rank_said(rank: int | None, of: int, deciding: WalkStep | None, why_unranked: list[Said]) -> list[Said]:
    """The place, and the level that decides it."""
    if rank is None:
        return why_unranked or [say("rank.none")]
    if deciding is None:
        return [say("rank.place", rank=rank, of=of)]
    return [say("rank.decided", rank=rank, of=of, name=deciding.name)]


def _explained(snapshot: ServedSnapshot, result: dict[str, Any], walk: Walk, seen: Mask) -> dict[str, Any]:
    """A token that is bound to a subtree is told nothing of the levels above it."""
    visible = [step for step, i in zip(walk.steps, walk.chain, strict=True) if seen[i]]
    deciding = None if walk.deciding is None or not seen[walk.chain[walk.deciding]] else walk.steps[walk.deciding]
    said = rank_said(result["rank"], result["of"], deciding, unranked_said(snapshot, result, walk.entry))
    return {
        **result,
        "steps": [step_json(step, level_said(step, decides=step is deciding)) for step in visible],
        "deciding": None if deciding is None else deciding.path,
        "sentence": text_of(said),
        "sentences": [one.json() for one in said],
    }


def _scope(actor: Actor) -> str:
    return next((scope for scope in ("priorities:read", "policies:read") if actor.has_scope(scope)), "self:read")
