"""The walk of an account for readers with the right to it, and the signed-in user's accounts for REST."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from apps.accounts.actor import Actor
from apps.core import clock
from apps.engine.algorithms.base import Kind
from apps.explain.messages import AccountMessages, Outlook, messages_of
from apps.explain.my_priority import MyPriority, get_my_priority, unranked_said
from apps.explain.walk import Walk, WalkStep, level_said, step_json, walk_to, without_reason
from apps.priorities.records import Moment
from apps.priorities.selectors.visible_snapshot import VisibleSnapshot, open_snapshot
from apps.priorities.sentences import Message, say, text_of
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import instant
from apps.priorities.snapshots import json_number


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


# --- The signed-in user -----------------------------------------------------------------------------------------------
Outlooks = Callable[[MyPriority], Outlook | None]


def get_me(*, actor: Actor, at: int | datetime | None = None, policy_slug: str | None = None) -> dict[str, Any]:
    """Who asks, and each of their accounts in a line: policy, entry, rank, factor, the sentence."""
    found = get_my_priority(actor=actor, at=at, policy_slug=policy_slug)
    return {
        **_who(actor),
        "at": _asked(at),
        "accounts": [_line(one, messages_of(one, _but(found, one))) for one in found],
    }


def explain_me(
    *,
    actor: Actor,
    at: int | datetime | None = None,
    policy_slug: str | None = None,
    account: str = "",
    namespace: str = "",
    entry: str = "",
    outlook_of: Outlooks | None = None,
) -> dict[str, Any]:
    """Priorities with every level, the scheduler's number and advice, for all accounts or the requested ones."""
    found = get_my_priority(actor=actor, at=at, policy_slug=policy_slug)
    chosen = [
        one
        for one in found
        if account in ("", one.account) and namespace in ("", one.namespace) and entry in ("", one.entry_path)
    ]
    told = []
    for one in chosen:
        outlook = outlook_of(one) if outlook_of and not one.error and at is None else None
        told.append(_explained_priority(one, messages_of(one, _but(found, one), outlook)))
    return {**_who(actor), "at": _asked(at), "accounts": told}


def _who(actor: Actor) -> dict[str, Any]:
    user, token = actor.user, actor.token
    return {
        "username": user.username if user else "",
        "name": user.get_full_name() if user else "",
        "token": None
        if token is None
        else {
            "scopes": sorted(token.scopes),
            "policy": token.policy_slug or None,
            "subtree": str(token.subtree_uid) if token.subtree_uid else None,
        },
    }


def _line(mine: MyPriority, story: AccountMessages) -> dict[str, Any]:
    deciding = None if mine.deciding is None else mine.walk[mine.deciding]
    said = (
        story.summary
        if mine.error
        else rank_said(mine.rank, mine.of, deciding, list(mine.why_unranked), mine.explained_by)
    )
    return {
        "account": mine.account,
        "group": mine.group or None,
        "namespace": mine.namespace or None,
        "policy": mine.policy_slug,
        "policy_name": mine.policy_name,
        "error": mine.error or None,
        "entry": mine.entry_path or None,
        "entry_uid": mine.entry_uid,
        "rank": mine.rank,
        "of": None if mine.error else mine.of,
        "factor": mine.factor,
        "provisional": mine.provisional,
        "explained_by": None if mine.error else mine.explained_by,
        "deciding": deciding.path if deciding else None,
        "sentence": text_of(said),
        "sentences": _said(story.summary),
        "when": _said(story.when),
        "changes": _said(story.changes),
        "stale": story.stale.json() if story.stale else None,
        "snapshot": mine.snapshot_id,
        "revision": mine.revision,
        "as_of": instant(mine.as_of) if mine.as_of else None,
        "age_s": round(max((clock.now() - mine.as_of).total_seconds(), 0.0), 3) if mine.as_of else None,
        "moment": moment_json(mine.moment),
    }


def _explained_priority(mine: MyPriority, story: AccountMessages) -> dict[str, Any]:
    steps = []
    for level in story.levels:
        steps.append({**step_json(level.step, level.said), "decides": level.decides})
    return {
        **_line(mine, story),
        "algorithm": mine.settings or None,
        "priorities": [json_number(value) for value in mine.priorities],
        "vector": list(mine.vector) or None,
        "key": mine.key or None,
        "usage_s": mine.usage,
        "steps": steps,
        "number": story.number.json() if story.number else None,
        "smallest_job": asdict(mine.smallest_job) if mine.smallest_job else None,
    }


def _said(sentences: Sequence[Message]) -> list[dict[str, Any]]:
    return [one.json() for one in sentences]


def _but(found: Sequence[MyPriority], mine: MyPriority) -> list[MyPriority]:
    return [one for one in found if one is not mine]


def _asked(at: int | datetime | None) -> str | None:
    return instant(at) if isinstance(at, datetime) else None if at is None else str(at)
