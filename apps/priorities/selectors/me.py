"""My priority: for each of a person's accounts the verdict, the walk and the raw numbers; and the same by REST."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from apps import clock
from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.errors import NotAllowed, NotFound
from apps.policies.columns import Mask
from apps.policies.models import Policy
from apps.policies.selectors import get_policy, list_policies
from apps.priorities import served
from apps.priorities.answers import ServedSnapshot, instant
from apps.priorities.lookup import AccountQuery
from apps.priorities.selectors.rows import newest_or_none
from apps.priorities.sentences import rank_sentence, unranked_sentence
from apps.priorities.sight import own_queries, visible_in
from apps.priorities.walk import Walk, WalkStep, step_json, walk_to, why_unranked


@dataclass(frozen=True)
class MyPriority:
    """One account in one policy; `error` is "", "unmapped" or "no_snapshot", and then most is empty."""

    account: str
    namespace: str
    policy_slug: str
    policy_name: str
    error: str = ""
    entry_uid: UUID | None = None
    entry_name: str = ""
    entry_path: str = ""
    walk: tuple[WalkStep, ...] = ()
    deciding: int | None = None
    rank: int | None = None
    of: int = 0
    factor: float | None = None
    usage_core_s: float = 0.0
    priorities: tuple[float, ...] = ()
    vector: tuple[int, ...] = ()
    key: str = ""
    algorithm: str = ""
    operator: str = ""
    revision: int | None = None
    as_of: datetime | None = None
    provisional: bool = False
    compares: str = "vector"  # or "deviations", or "ranks": what of the levels decides
    levels_decide: bool = True  # one by one from the top, and not one number made of all of them
    why_unranked: str = ""


def get_my_priority(*, actor: Actor) -> list[MyPriority]:
    """Best first, then what has no rank. An account that some policy knows isn't called unmapped by the others."""
    if actor.user is None or not actor.has_scope(Token.Scope.SELF_READ):
        raise NotAllowed("Sign in, or use a token with self:read, to see your own priority.")
    policies = list_policies(actor=actor)
    found: list[MyPriority] = []
    for query in own_queries(actor):
        answers = [answer for policy in policies for answer in _in_policy(policy, query)]
        known = [answer for answer in answers if answer.error != "unmapped"]
        found += known or answers[:1]
    return sorted(found, key=lambda one: (one.rank is None, -(one.factor or 0.0), one.account, one.entry_path))


def explain(*, policy_slug: str, account: str | AccountQuery, namespace: str = "", actor: Actor) -> dict[str, Any]:
    """The walk of an account, one object a level; what the actor may not see reads as unmapped."""
    policy = get_policy(slug=policy_slug, actor=actor, scope=_explain_scope(actor))
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


def _explained(snapshot: ServedSnapshot, result: dict[str, Any], walk: Walk, seen: Mask) -> dict[str, Any]:
    """A token that is bound to a subtree is told nothing of the levels above it."""
    visible = [step for step, i in zip(walk.steps, walk.chain, strict=True) if seen[i]]
    deciding = None if walk.deciding is None or not seen[walk.chain[walk.deciding]] else walk.steps[walk.deciding]
    return {
        **result,
        "steps": [step_json(step) for step in visible],
        "deciding": None if deciding is None else deciding.path,
        "sentence": rank_sentence(
            result["rank"],
            result["of"],
            deciding.name if deciding else None,
            why_unranked=_why_unranked(snapshot, result, walk.entry),
        ),
    }


def _why_unranked(snapshot: ServedSnapshot, result: dict[str, Any], entry: int) -> str:
    if result["rank"] is not None:
        return ""
    if not result.get("provisional"):
        return why_unranked(snapshot, entry)
    return unranked_sentence("later", name="", kind="", algorithm="", has_factor=False)


def _explain_scope(actor: Actor) -> str:
    return next((scope for scope in ("priorities:read", "policies:read") if actor.has_scope(scope)), "self:read")


def _in_policy(policy: Policy, query: AccountQuery) -> list[MyPriority]:
    about = partial(
        MyPriority,
        account=query.user or query.dn or query.group,
        namespace=query.namespace,
        policy_slug=policy.slug,
        policy_name=policy.name,
    )
    try:
        snapshot = newest_or_none(policy.slug)
    except NotFound:
        snapshot = None
    if snapshot is None:
        return [about(error="no_snapshot")]
    results = snapshot.lookup([query])
    return [
        about(error="unmapped", factor=result["factor"])
        if result["entry"] is None
        else _of_entry(snapshot, about, result)
        for result in results
    ]


def _of_entry(snapshot: ServedSnapshot, about: partial[MyPriority], result: dict[str, Any]) -> MyPriority:
    entry = snapshot.tree.index_of_path(result["entry"])
    if entry is None:
        raise NotFound("There is no such entry in this policy.")
    walk = walk_to(snapshot, entry)
    return about(
        entry_uid=snapshot.tree.uuid(entry),
        entry_name=snapshot.tree.name[entry],
        entry_path=result["entry"],
        walk=tuple(walk.steps),
        deciding=walk.deciding,
        rank=result["rank"],
        of=result["of"],
        factor=result["factor"],
        usage_core_s=float(snapshot.values.usage[entry]),
        priorities=tuple(float(value) for value in result["priorities"]),
        vector=tuple(result["vector"] or ()),
        key=result["key"] or "",
        algorithm=str(snapshot.algorithm["name"]),
        operator=str(snapshot.algorithm.get("operator", "")),
        revision=snapshot.revision,
        as_of=snapshot.as_of,
        provisional=bool(result.get("provisional", False)),
        compares=snapshot.order.decides,
        levels_decide=snapshot.order.is_isolated,
        why_unranked=_why_unranked(snapshot, result, entry),
    )
