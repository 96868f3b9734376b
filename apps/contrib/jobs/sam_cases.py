"""A case of SAM's queue, made from a policy so that a request needs only its jobs.

Groups are the entries below one entry: their targets are the shares, and their usage in the newest snapshot is the
benefit received. The benefit of a job is its amount in the policy's metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.contrib.jobs.algorithms.benefits import BENEFITS
from apps.core.errors import NotFound
from apps.policies.selectors import get_policy
from apps.priorities.serving import store
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.usage_factors import weighted_resources
from apps.priorities.visible_entries import numbers_visible_in

_SCOPES = (Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ)


def sam_case(
    *, policy_slug: str, path: str, actor: Actor, at: datetime, jobs: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """A case of SAM's queue with the groups below an entry, and these jobs.

    Raises:
        NotFound: no such entry, nothing competes below it, or the actor may not see all usage there. A case with
            part of the groups would give other decisions.
    """
    scope = next((scope for scope in _SCOPES if actor.has_scope(scope)), Token.Scope.POLICIES_READ)
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot = store.newest(policy.slug)
    shown = numbers_visible_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    entry = snapshot.tree.index_of_path(path)
    groups = {} if entry is None else groups_below(snapshot, entry)
    if entry is None or not groups or not shown[[entry, *groups]].all():
        raise NotFound(_("No such entry with children whose usage is fully visible to you."))
    values = snapshot.values
    return {
        "id": f"{policy.slug}{snapshot.index.path(entry)}@{snapshot.snapshot_id}",
        "algorithm": {"name": "sam", **_benefit(snapshot)},
        "shares": {name: float(values.target[i]) for i, name in groups.items()},
        "benefit": {name: float(values.usage[i]) for i, name in groups.items()},
        "jobs": list(jobs),
    }


def groups_below(snapshot: ServedSnapshot, entry: int) -> dict[int, str]:
    """Entries that compete below an entry, with their paths relative to it; {} if it has *inherit* shares itself."""
    tree = snapshot.tree
    contest, entry_of, seat, _all_compete = tree.engine_tree().competition
    at = int(seat[entry])
    if int(entry_of[at]) != entry:
        return {}  # its children compete one level up
    first = int(contest.first_child[at])
    group: list[int] = entry_of[first : first + int(contest.child_count[at])].tolist()
    above = snapshot.index.path(entry).rstrip("/")
    return {i: snapshot.index.path(i).removeprefix(f"{above}/") for i in group}


def _benefit(snapshot: ServedSnapshot) -> dict[str, Any]:
    """The metric's weights as a benefit function; {} if a resource has no benefit: then jobs must state theirs."""
    metric = snapshot.settings.metric
    names = weighted_resources(metric)
    if not set(names) <= set(BENEFITS):
        return {}
    return {"benefit": {name: metric["weights"][name] for name in names}}
