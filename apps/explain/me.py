"""The signed-in user's identity, accounts and priorities with sentences, for REST and the terminal client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from apps.accounts.actor import Actor
from apps.core import clock
from apps.explain.account_walk import moment_json, rank_said
from apps.explain.advice import Outlook
from apps.explain.messages import AccountMessages, messages_of
from apps.explain.my_priority import MyPriority, get_my_priority
from apps.explain.walk import step_json
from apps.priorities.sentences import Message, text_of
from apps.priorities.serving.lookup_index import instant
from apps.priorities.snapshots.ordering import json_number

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
        told.append(_explained(one, messages_of(one, _but(found, one), outlook)))
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
        "advice": _said(story.advice),
        "stale": story.stale.json() if story.stale else None,
        "snapshot": mine.snapshot_id,
        "revision": mine.revision,
        "as_of": instant(mine.as_of) if mine.as_of else None,
        "age_s": round(max((clock.now() - mine.as_of).total_seconds(), 0.0), 3) if mine.as_of else None,
        "moment": moment_json(mine.moment),
    }


def _explained(mine: MyPriority, story: AccountMessages) -> dict[str, Any]:
    steps = []
    for level in story.levels:
        steps.append({**step_json(level.step, level.said), "decides": level.decides})
    return {
        **_line(mine, story),
        "algorithm": mine.settings or None,
        "priorities": [json_number(value) for value in mine.priorities],
        "vector": list(mine.vector) or None,
        "key": mine.key or None,
        "usage_s": mine.usage_core_s,
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
