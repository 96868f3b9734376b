"""JSON for REST: the walk of an account for permitted readers, and all accounts of the signed-in user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from apps.accounts.actor import Actor
from apps.core import clock
from apps.engine.algorithms.base import Kind
from apps.explain.messages import AccountMessages, messages_of
from apps.explain.my_priority import MyPriority, get_my_priority, unranked_messages
from apps.explain.path import Walk, WalkStep, level_messages, step_json, walk_to, without_reason
from apps.explain.rank_change import change_since_yesterday
from apps.explain.verdict import AccountFacts
from apps.priorities.entry_order import json_number
from apps.priorities.moments import Moment
from apps.priorities.selectors.visible_snapshot import VisibleSnapshot, open_snapshot
from apps.priorities.sentences import Message, build_message, text_of
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import instant

FactsOf = Callable[[MyPriority], AccountFacts]


def explain(
    *,
    policy_slug: str,
    account: str | AccountQuery,
    namespace: str = "",
    actor: Actor,
    at: int | datetime | None = None,
) -> dict[str, Any]:
    """The walk of an account, one object per level. An account that the actor may not see is reported as unmapped.

    at: a past revision or instant, read with the current rights.
    """
    visible = open_snapshot(policy_slug=policy_slug, actor=actor, at=at, scope=scope_of(actor))
    snapshot = visible.snapshot
    query = account if isinstance(account, AccountQuery) else AccountQuery(account, namespace=namespace)
    described = []
    for result in visible.lookup(query):
        entry = snapshot.tree.index_of_path(result["entry"]) if result["entry"] is not None else None
        described.append(result if entry is None else _explained(visible, result, entry))
    return {
        "policy": policy_slug,
        "snapshot": snapshot.snapshot_id,
        "revision": snapshot.revision,
        "as_of": instant(snapshot.as_of),
        "algorithm": snapshot.algorithm,
        "moment": moment_json(visible.moment),
        "results": described,
    }


def rank_messages(
    rank: int | None, of: int, deciding: WalkStep | None, why_unranked: list[Message], explained_by: Kind
) -> list[Message]:
    """The rank, and the level that is the main reason for it."""
    if rank is None:
        return why_unranked or [build_message("rank.none")]
    if deciding is None:
        return [build_message("rank.place", rank=rank, of=of)]
    return [
        build_message(
            "rank.decided" if explained_by == "levels" else "rank.factor", rank=rank, of=of, name=deciding.name
        )
    ]


def moment_json(moment: Moment | None) -> dict[str, Any] | None:
    """The revision and snapshot of a view of the past, as JSON."""
    if moment is None:
        return None
    return {
        "revision": moment.revision,
        "since": instant(moment.since),
        "until": instant(moment.until) if moment.until else None,
        "as_of": instant(moment.as_of) if moment.as_of else None,
        "snapshot_revision": moment.snapshot_revision,
        "reconstructed": moment.is_reconstructed,
        "notes": [note.json() for note in moment.notes],
    }


def scope_of(actor: Actor) -> str:
    """The widest of the actor's scopes that allows reading priorities."""
    return next((scope for scope in ("priorities:read", "policies:read") if actor.has_scope(scope)), "self:read")


def _explained(visible: VisibleSnapshot, result: dict[str, Any], entry: int) -> dict[str, Any]:
    """The result with its walk; levels that the actor may not see are left out."""
    walk: Walk = walk_to(visible.snapshot, entry)
    steps = [without_reason(visible.snapshot, step, visible.shows_numbers) for step in walk.steps]
    shown = [step for step, i in zip(steps, walk.chain, strict=True) if visible.shows_numbers[i]]
    is_shown = walk.deciding is not None and bool(visible.shows_numbers[walk.chain[walk.deciding]])
    deciding = steps[walk.deciding] if is_shown and walk.deciding is not None else None
    kind = visible.snapshot.order.explanation.kind
    unranked = unranked_messages(visible.snapshot, result, entry)
    messages = rank_messages(result["rank"], result["of"], deciding, unranked, kind)
    return {
        **result,
        "steps": [
            {**step_json(step, level_messages(step, decides=step is deciding)), "decides": step is deciding}
            for step in shown
        ],
        "explained_by": kind,
        "deciding": None if deciding is None else deciding.path,
        "sentence": text_of(messages),
        "sentences": [message.json() for message in messages],
    }


def get_me(*, actor: Actor, at: int | datetime | None, policy_slug: str | None, facts_of: FactsOf) -> dict[str, Any]:
    """The actor, and a summary of each account: policy, entry, rank, factor and sentences."""
    priorities = get_my_priority(actor=actor, at=at, policy_slug=policy_slug)
    return {
        **_actor_json(actor),
        "at": _instant_json(at),
        "accounts": [_line(priority, _messages(priorities, priority, facts_of)) for priority in priorities],
    }


def explain_me(
    *,
    actor: Actor,
    at: int | datetime | None,
    policy_slug: str | None,
    account: str,
    namespace: str,
    entry: str,
    facts_of: FactsOf,
) -> dict[str, Any]:
    """The actor's accounts with every level, the scheduler's number and advice; all, or those that match."""
    priorities = get_my_priority(actor=actor, at=at, policy_slug=policy_slug)
    chosen = [
        priority
        for priority in priorities
        if account in ("", priority.account)
        and namespace in ("", priority.namespace)
        and entry in ("", priority.entry_path)
    ]
    accounts = []
    for priority in chosen:
        change = change_since_yesterday(priority, actor=actor)
        explained = _explained_priority(priority, _messages(priorities, priority, facts_of))
        accounts.append({**explained, "since_yesterday": None if change is None else change.message.json()})
    return {**_actor_json(actor), "at": _instant_json(at), "accounts": accounts}


def _messages(priorities: Sequence[MyPriority], priority: MyPriority, facts_of: FactsOf) -> AccountMessages:
    return messages_of(priority, [other for other in priorities if other is not priority], facts_of(priority))


def _actor_json(actor: Actor) -> dict[str, Any]:
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


def _line(priority: MyPriority, texts: AccountMessages) -> dict[str, Any]:
    return {
        "account": priority.account,
        "group": priority.group or None,
        "namespace": priority.namespace or None,
        "policy": priority.policy_slug,
        "policy_name": priority.policy_name,
        "error": priority.error or None,
        "entry": priority.entry_path or None,
        "entry_uid": priority.entry_uid,
        "rank": priority.rank,
        "of": None if priority.error else priority.of,
        "factor": priority.factor,
        "provisional": priority.provisional,
        "explained_by": None if priority.error else priority.explained_by,
        "deciding": priority.decisive.path if priority.decisive else None,
        "sentence": f"{texts.verdict.heading}. {text_of(texts.summary[1:])}".strip(),
        "sentences": _messages_json(texts.summary),
        "when": _messages_json([*texts.verdict.when, *texts.verdict.queue]),
        "changes": _messages_json(texts.verdict.changes),
        "stale": texts.stale.json() if texts.stale else None,
        "snapshot": priority.snapshot_id,
        "revision": priority.revision,
        "as_of": instant(priority.as_of) if priority.as_of else None,
        "age_s": round(max((clock.now() - priority.as_of).total_seconds(), 0.0), 3) if priority.as_of else None,
        "moment": moment_json(priority.moment),
    }


def _explained_priority(priority: MyPriority, texts: AccountMessages) -> dict[str, Any]:
    steps = []
    for level in texts.levels:
        steps.append({**step_json(level.step, level.messages), "decides": level.decides})
    return {
        **_line(priority, texts),
        "algorithm": priority.settings or None,
        "priorities": [json_number(value) for value in priority.priorities],
        "vector": list(priority.vector) or None,
        "key": priority.key or None,
        "usage_s": priority.usage,
        "steps": steps,
        "number": texts.number.json() if texts.number else None,
        "smallest_job": asdict(priority.smallest_job) if priority.smallest_job else None,
    }


def _messages_json(sentences: Sequence[Message]) -> list[dict[str, Any]]:
    return [sentence.json() for sentence in sentences]


def _instant_json(at: int | datetime | None) -> str | None:
    return instant(at) if isinstance(at, datetime) else None if at is None else str(at)
