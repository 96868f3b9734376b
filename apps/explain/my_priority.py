"""My priority: rank and levels of each account of a user, now or in the past, and who can see their numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from math import isfinite
from typing import Annotated, Any
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db import connection
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token, User
from apps.core import clock
from apps.core.errors import FieldProblem, Invalid, NotAllowed, NotFound
from apps.engine import codecs
from apps.engine.algorithms.base import Kind
from apps.engine.algorithms.inputs import prepare
from apps.engine.analysis.job_size import jobs_that_show
from apps.engine.errors import BadParameter, PackageFailed
from apps.explain.levels import DecidedBy
from apps.explain.path import WalkStep, walk_to, why_unranked, without_reason
from apps.explain.rank_position import RankPosition, standing_at
from apps.policies.access.scope import EVERYBODY
from apps.policies.models import Grant, Policy
from apps.policies.selectors import get_policy, list_policies
from apps.policies.tree.columns import Mask
from apps.policies.tree.stored import load_tree
from apps.priorities.metering import HOUR_S
from apps.priorities.moments import Moment
from apps.priorities.selectors.freshness import freshness
from apps.priorities.selectors.rows import newest_or_none, open_view
from apps.priorities.selectors.visible_snapshot import moment_of, open_past_snapshot, open_snapshot
from apps.priorities.sentences import Message, build_message
from apps.priorities.sentences.numbers import job_hours, unit_of_metric
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visible_entries import own_queries

Verb = Grant.Verb
# A row of nulls beside the number if there is no grant.
_READERS = """
SELECT admins.n, held.entry_uid, held.role, held.verbs, held.people, held.user_id
FROM (SELECT count(*) AS n FROM accounts_user WHERE is_active AND is_superuser AND id <> %(user)s) AS admins
LEFT JOIN policies_grant AS held ON held.policy_id = %(policy)s AND held.entry_uid = ANY(%(entries)s)
    AND (held.expires_at IS NULL OR held.expires_at > %(at)s)
"""


@dataclass(frozen=True, slots=True)
class PathJob:
    """The smallest job that changes one entry's vector. It is a bound: any larger job does, too."""

    any_level_h: Annotated[float | None, "Hours of the metric that change the vector; empty where no job does"]
    every_level_h: Annotated[float | None, "Hours of the metric that show on every level; empty where no job does"]
    unit: Annotated[str, "Unit of the jobs: core-hours, where the metric counts cores alone"]
    sentence: Annotated[str, "The finding in words"]


def path_job(snapshot: ServedSnapshot, entry: int) -> PathJob | None:
    """The smallest visible job, from stored numbers; None if the algorithm doesn't round or the entry has no component.

    A job at the entry adds usage to all its ancestors; other groups are unchanged.
    """
    if snapshot.algorithm.get("name") != "aequus":
        return None
    prepared, values = prepare(snapshot.tree.engine_tree()), snapshot.values
    path = codecs.lineage(prepared.contest, int(prepared.seat[entry]))
    if not len(path):
        return None
    usage, parent = values.usage[prepared.entry], prepared.contest.parent
    group = np.array([usage[parent == parent[at]].sum() for at in path])
    rows = prepared.entry[path]
    try:
        jobs = jobs_that_show(snapshot.algorithm, values.target[rows], values.actual[rows], group) / HOUR_S
    except (BadParameter, PackageFailed):  # the package of an operator fails or isn't installed
        return None
    unit = unit_of_metric(snapshot.settings.metric["weights"])
    anywhere, everywhere = (float(size) if isfinite(size) else None for size in (jobs.min(), jobs.max()))
    return PathJob(anywhere, everywhere, unit, _sentence(anywhere, unit))


def _sentence(anywhere: float | None, unit: str) -> str:
    """The size of the smallest job that changes the vector."""
    sizes = {"any": job_hours(anywhere), "unit": unit}
    if anywhere is None:
        return _("No job changes your priority now: you have no shares, or no siblings on any level.")
    if anywhere == 0:
        return _("Every job changes your priority.")
    text = _("Jobs of up to %(any)s %(unit)s don’t change your priority.")
    return text % sizes


@dataclass(frozen=True)
class MyPriority:
    """One account in one policy. error: "", or "unmapped" or "no_snapshot", for which most fields are empty."""

    account: str
    namespace: str
    policy_slug: str
    policy_name: str
    group: str = ""
    error: str = ""
    entry_uid: UUID | None = None
    entry_name: str = ""
    entry_path: str = ""
    walk: tuple[WalkStep, ...] = ()
    deciding: int | None = None
    decided_by: DecidedBy = "component"  # at the deciding level, where levels decide
    standing: RankPosition | None = None  # None: unranked
    of: int = 0  # ranked accounts
    factor: float | None = None
    usage: float = 0.0
    metric: Mapping[str, Any] = field(default_factory=dict)  # of the policy
    half_life_s: float | None = None  # in which past usage halves; None: it decays otherwise
    priorities: tuple[float, ...] = ()
    vector: tuple[int, ...] = ()
    key: str = ""
    algorithm: str = ""
    operator: str = ""
    settings: dict[str, Any] = field(default_factory=dict)  # the algorithm with all its parameters
    revision: int | None = None
    snapshot_id: int | None = None
    as_of: datetime | None = None
    provisional: bool = False
    compares: str = "vector"  # what decides the order: vector, deviations or ranks
    explained_by: Kind = "levels"  # by levels, or by one number of the whole path
    is_decided_above: bool = False  # the main reason is at a hidden level
    why_unranked: tuple[Message, ...] = ()
    problems: tuple[str, ...] = ()  # why the numbers may be out of date
    moment: Moment | None = None  # of the past
    smallest_job: PathJob | None = None  # that changes the vector; None without rounding

    @property
    def rank(self) -> int | None:
        return None if self.standing is None else self.standing.rank

    @property
    def decisive(self) -> WalkStep | None:
        """The level that is the main reason for the rank."""
        return None if self.deciding is None else self.walk[self.deciding]

    @property
    def levels_decide(self) -> bool:
        return self.explained_by == "levels"

    @property
    def name(self) -> str:
        """Namespace and account, such as c1:alice."""
        return f"{self.namespace}:{self.account}" if self.namespace else self.account


def get_my_priority(
    *, actor: Actor, at: int | datetime | None = None, policy_slug: str | None = None
) -> list[MyPriority]:
    """The actor's accounts in all policies, best rank first, then those without a rank.

    An account that is mapped in some policy isn't listed as unmapped in others. at: an instant of the past, or with a
    policy a revision; current rights apply.
    """
    if actor.user is None or not actor.has_scope(Token.Scope.SELF_READ):
        raise NotAllowed("Sign in, or use a token with self:read, to see your own priority.")
    if isinstance(at, int) and policy_slug is None:
        raise Invalid(
            _("A revision belongs to one policy: name that too, or give a time."),
            fields=[FieldProblem("at", _("is a revision, and no policy is named"))],
        )
    policies = [policy for policy in list_policies(actor=actor) if policy_slug in (None, policy.slug)]
    opened = [_open(policy, actor, at) for policy in policies]
    priorities: list[MyPriority] = []
    for query in own_queries(actor):
        answers = [answer for snapshot in opened for answer in _in_policy(snapshot, query)]
        known = [answer for answer in answers if not answer.error]
        waiting = [answer for answer in answers if answer.error == "no_snapshot"]
        priorities += known or waiting or answers[:1]
    return sorted(
        priorities, key=lambda each: (each.rank is None, -(each.factor or 0.0), each.account, each.entry_path)
    )


@dataclass(frozen=True)
class _OpenPolicy:
    """One policy with its snapshot. shows_numbers: entries with visible numbers; None if the whole path is visible."""

    policy: Policy
    snapshot: ServedSnapshot | None
    shows_numbers: Mask | None = None
    moment: Moment | None = None
    problems: tuple[str, ...] = ()


def _open(policy: Policy, actor: Actor, at: int | datetime | None) -> _OpenPolicy:
    if at is not None:
        return _open_past(policy, actor, at)
    try:
        snapshot = newest_or_none(policy.slug)
    except NotFound:
        snapshot = None
    fresh = freshness(policy_slug=policy.slug, actor=actor)
    problems = () if fresh.state == "ok" else tuple(fresh.problems)
    if snapshot is None or actor.top_uid is None:
        return _OpenPolicy(policy, snapshot, problems=problems)
    visible = open_snapshot(policy_slug=policy.slug, actor=actor, scope=Token.Scope.SELF_READ)
    return _OpenPolicy(policy, visible.snapshot, visible.shows_numbers, problems=problems)


def _open_past(policy: Policy, actor: Actor, at: int | datetime) -> _OpenPolicy:
    try:
        view = open_view(policy_slug=policy.slug, actor=actor, at=at, scope=Token.Scope.SELF_READ, is_live=True)
    except NotFound:
        if isinstance(at, int):
            raise
        return _OpenPolicy(policy, None)  # the policy didn't exist yet
    if view.snapshot is None:
        return _OpenPolicy(policy, None, moment=moment_of(view))
    visible = open_past_snapshot(view)
    return _OpenPolicy(policy, visible.snapshot, visible.shows_numbers, visible.moment)


def _in_policy(opened: _OpenPolicy, query: AccountQuery) -> Iterable[MyPriority]:
    about = partial(
        MyPriority,
        account=query.user or query.dn or query.group,
        namespace=query.namespace,
        group=query.group,
        policy_slug=opened.policy.slug,
        policy_name=opened.policy.name,
        moment=opened.moment,
        problems=opened.problems,
    )
    snapshot = opened.snapshot
    if snapshot is None:
        return [about(error="no_snapshot")]
    return [
        about(error="unmapped", factor=result["factor"])
        if result["entry"] is None
        else _of_entry(snapshot, about, result, opened.shows_numbers)
        for result in snapshot.lookup([query], mask=opened.shows_numbers)
    ]


def _of_entry(
    snapshot: ServedSnapshot, about: partial[MyPriority], result: dict[str, Any], shows_numbers: Mask | None
) -> MyPriority:
    entry = snapshot.tree.index_of_path(result["entry"])
    if entry is None:
        raise NotFound("There is no such entry in this policy.")
    walk, is_new = walk_to(snapshot, entry), bool(result.get("provisional", False))
    shown = [at for at, i in enumerate(walk.chain) if shows_numbers is None or shows_numbers[i]]
    steps = walk.steps
    if shows_numbers is not None:
        steps = [without_reason(snapshot, step, shows_numbers) for step in steps]
    return about(
        entry_uid=snapshot.tree.uuid(entry),
        entry_name=snapshot.tree.name[entry],
        entry_path=result["entry"],
        walk=tuple(steps[at] for at in shown),
        deciding=shown.index(walk.deciding) if walk.deciding in shown and not is_new else None,
        decided_by=walk.decided_by,
        standing=None if result["rank"] is None else standing_at(snapshot, result["rank"], result["of"]),
        of=result["of"],
        factor=result["factor"],
        usage=float(snapshot.values.usage[entry]),
        metric=snapshot.settings.metric,
        half_life_s=_half_life_s(snapshot.settings.window),
        priorities=tuple(float(value) for value in result["priorities"]),
        vector=tuple(result["vector"] or ()),
        key=result["key"] or "",
        algorithm=str(snapshot.algorithm["name"]),
        operator=str(snapshot.algorithm.get("operator", "")),
        settings=snapshot.algorithm,
        revision=snapshot.revision,
        snapshot_id=snapshot.snapshot_id,
        as_of=snapshot.as_of,
        provisional=is_new,
        compares=snapshot.order.decides,
        explained_by=snapshot.order.explanation.kind,
        is_decided_above=walk.deciding is not None and walk.deciding not in shown and not is_new,
        why_unranked=tuple(unranked_messages(snapshot, result, entry)),
        smallest_job=path_job(snapshot, entry) if _is_whole(steps, shown) else None,
    )


def _half_life_s(window: Mapping[str, Any]) -> float | None:
    is_halved = window["aging"] == "exponential" and not window.get("reset")
    return float(window["half_life_s"]) if is_halved else None


def _is_whole(steps: Sequence[WalkStep], shown: Sequence[int]) -> bool:
    """Whether all levels are visible: the smallest job would reveal the usage of the groups on the path."""
    return len(shown) == len(steps) and not any(step.is_suppressed for step in steps)


def unranked_messages(snapshot: ServedSnapshot, result: dict[str, Any], entry: int) -> list[Message]:
    """Why a look-up has no rank; empty if it has one."""
    if result["rank"] is not None:
        return []
    if not result.get("provisional"):
        return why_unranked(snapshot, entry)
    return [build_message("unranked.later")]


def list_viewers(priority: MyPriority, *, actor: Actor) -> list[Message]:
    """What colleagues, role holders and administrators can see of the actor's own entry."""
    if actor.user is None or priority.entry_uid is None:
        raise NotAllowed("Sign in to see what others see about you.")
    policy = get_policy(slug=priority.policy_slug, actor=actor, scope="self:read")
    names = {load_tree(policy).uuid(0): policy.name, **{step.uid: step.name for step in priority.walk}}
    with connection.cursor() as cursor:
        values: dict[str, Any] = {"user": actor.user.pk, "policy": policy.pk, "at": clock.now()}
        cursor.execute(_READERS, values | {"entries": list(names)})
        rows = cursor.fetchall()
    n_admins, held = rows[0][0], [row[1:] for row in rows if row[1] is not None]
    is_open = policy.visibility == Policy.Visibility.TREE
    by_grants = _by_grants(held, names, actor.user)
    messages = [build_message("seen.open", policy=policy.name)] if is_open else []
    if not is_open and not any(message.key.endswith("_all") for message in by_grants):
        messages = [build_message("seen.closed")]
    messages += by_grants
    if n_admins:
        messages.append(build_message("seen.administrators", n=n_admins))
    return [*messages, build_message("seen.schedulers")]


def _by_grants(held: Iterable[Sequence[Any]], names: Mapping[UUID, str], user: User) -> list[Message]:
    """A message for each role at each level, the nearest level first; the user's own roles are left out.

    held: rows of _READERS without the number. names: of the entries, from the root down.
    """
    people: Counter[tuple[UUID, str, str]] = Counter()
    groups: set[tuple[UUID, str, str, str]] = set()
    for uid, role, verbs, group, user_id in held:
        kind = _kind(set(verbs))
        if group:
            groups.add((uid, role, kind, group))
        elif user_id != user.pk:
            people[uid, role, kind] += 1
    order = list(reversed(list(names)))
    rows = [
        (uid, role, build_message(f"seen.{kind}", n=n, **_about(names[uid], role)))
        for (uid, role, kind), n in people.items()
    ]
    for uid, role, kind, who in groups:
        suffix = "all" if who == EVERYBODY else "group"
        rows.append((uid, role, build_message(f"seen.{kind}_{suffix}", people=who, **_about(names[uid], role))))
    rows.sort(key=lambda each: (order.index(each[0]), each[1], each[2].key))
    return [message for _uid, _role, message in rows]


def _about(name: str, role: str) -> dict[str, Any]:
    return {"name": name, "role": str(Grant.Role(role).label), "smallest": settings.FAIRSHARE_SMALLEST_GROUP}


def _kind(verbs: Set[str]) -> str:
    """What a grant of these verbs shows of a user's entry below it."""
    if Verb.VIEW_MEMBERS in verbs:
        return "by_name"
    if Verb.MAP_ACCOUNTS in verbs:
        return "jobs_by_name"
    return "in_sums" if verbs <= {Verb.VIEW_AGGREGATE} else "name_alone"
