"""Job cases for signed-in users, solved by the engine; the books of SAM's queue come from a policy.

A case of SAM's queue from a policy: the books that the service keeps anyway, so that a call needs only its jobs.
Groups are the entries below one entry. Their targets are the shares; their usage, as the newest snapshot counts it, is
the benefit that they have received. A job's benefit is what the policy's metric makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import FieldProblem, Invalid, NotFound, TooLarge
from apps.engine.case_text import name_of
from apps.engine.errors import EngineError
from apps.engine.jobs import solve_job_case
from apps.engine.jobs.benefits import all_benefits
from apps.policies.selectors import get_policy
from apps.priorities.metering.usage import weighed
from apps.priorities.serving import store
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visibility.visible_entries import numbers_visible_in

MOST_JOBS = 10_000
MOST_CASES = 1_000


def explain_jobs(cases: list[Any], *, most_jobs: int | None = None) -> list[dict[str, Any]]:
    """The results in order. Nothing is stored and nothing of the site is read, so there is no actor.

    Raises:
        TooLarge: more jobs or cases than one call may ask for.
        Invalid: a case that can't be meant, with its place; the first one.
    """
    refuse_many(cases, most_jobs=most_jobs)
    return [_solve(case, index) for index, case in enumerate(cases)]


def refuse_many(cases: list[Any], *, most_jobs: int | None = None) -> None:
    """
    Raises:
        TooLarge: more jobs or cases than one call may ask for.
    """
    if len(cases) > MOST_CASES:
        raise TooLarge(f"{len(cases)} cases in one call; the limit is {MOST_CASES}: send them in parts.")
    n_jobs, limit = sum(_count(case) for case in cases), MOST_JOBS if most_jobs is None else most_jobs
    if n_jobs > limit:
        raise TooLarge(f"{n_jobs} jobs in one call; the limit is {limit}: send them in parts.")


def _count(case: Any) -> int:
    lists = (case.get("jobs"), case.get("hidden_jobs")) if isinstance(case, dict) else ()
    return sum(len(jobs) for jobs in lists if isinstance(jobs, list))


def _solve(case: Any, index: int) -> dict[str, Any]:
    try:
        return solve_job_case(case)
    except EngineError as error:
        where = error.place or "case"
        message = f"Case {name_of(case, index)}: {where}: {error.message}."
        raise Invalid(message, code=error.code, fields=[FieldProblem(where, error.message)]) from error


# --- Books of SAM's queue ---------------------------------------------------------------------------------------------
_SCOPES = (Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ)


def sam_case(
    *, policy_slug: str, path: str, actor: Actor, at: datetime, jobs: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """The case, with these jobs.

    Raises:
        NotFound: no such entry, no competing leaf below it, or usage there is hidden from the actor: accounts
            without it would decide otherwise.
    """
    scope = next((scope for scope in _SCOPES if actor.has_scope(scope)), Token.Scope.POLICIES_READ)
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot = store.newest(policy.slug)
    told = numbers_visible_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    entry = snapshot.tree.index_of_path(path)
    groups = {} if entry is None else groups_below(snapshot, entry)
    if entry is None or not groups or not told[[entry, *groups]].all():
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
    """Who competes below the entry, by the path from there: names, but for members of one with *inherit* shares."""
    tree = snapshot.tree
    contest, entry_of, seat, _all_compete = tree.engine_tree().competition
    at = int(seat[entry])
    if int(entry_of[at]) != entry:
        return {}  # its members compete one level up
    first = int(contest.first_child[at])
    group: list[int] = entry_of[first : first + int(contest.child_count[at])].tolist()
    above = snapshot.index.path(entry).rstrip("/")
    return {i: snapshot.index.path(i).removeprefix(f"{above}/") for i in group}


def _benefit(snapshot: ServedSnapshot) -> dict[str, Any]:
    """The metric's weights as a benefit function; nothing where a resource has none: then jobs give their benefit."""
    metric = snapshot.settings.metric
    names = weighed(metric)
    if not set(names) <= set(all_benefits()):
        return {}
    return {"benefit": {name: metric["weights"][name] for name in names}}
