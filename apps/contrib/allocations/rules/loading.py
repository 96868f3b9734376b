"""Load what rules read: allocations, shares, steps that were taken, limits, and usage by day."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from operator import attrgetter
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from django.db.models import IntegerField, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from apps.contrib.allocations.models import RuleStep
from apps.contrib.allocations.periods import HOUR, begins_at, day_of
from apps.contrib.allocations.rules.calendar import period_starts
from apps.contrib.allocations.rules.state import DAY, LevelReached, RuledAllocation, RuledState, UsedByDay
from apps.contrib.allocations.rules.step import LimitsEffect
from apps.contrib.allocations.services import allocations_of
from apps.policies.allocation_rules import AllocationRule
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.units import units_of
from apps.priorities.delivered_usage import load_delivered

MOST_RULED_DAYS = 3 * 366  # of usage by day before today; older usage is in fewer sums


@dataclass(frozen=True, eq=False)
class RuledPolicy:
    """A policy whose rules are computed: its tree and settings at one revision, and today in the site's zone."""

    policy: Policy
    tree: TreeColumns
    settings: PolicySettings
    at: datetime
    zone: ZoneInfo

    @property
    def today(self) -> date:
        return day_of(self.at, self.zone)


def ruled_allocations(ruled: RuledPolicy, rules: Sequence[AllocationRule]) -> list[RuledAllocation]:
    """Current allocations that some rule concerns, by first day; without those of archived entries."""
    units = {rule.unit for rule in rules}
    paths: dict[UUID, str | None] = {}
    rows = []
    for row in allocations_of(ruled.policy):
        if row.entry_uid not in paths:
            i = ruled.tree.index_of_uid(row.entry_uid)
            path = None if i is None else ruled.tree.path(i)
            is_ruled = path is not None and any(rule.concerns(path) for rule in rules)
            paths[row.entry_uid] = path if is_ruled else None
        path = paths[row.entry_uid]
        if path is None or row.unit not in units:
            continue
        rows.append(
            RuledAllocation(
                row.uid,
                row.entry_uid,
                path,
                row.starts_on,
                row.ends_on,
                row.amount,
                row.unit,
                row.by_rules,
                row.carried_from,
            )
        )
    return rows


def load_used(ruled: RuledPolicy, allocations: Iterable[RuledAllocation], *, not_before: date) -> dict[str, UsedByDay]:
    """Usage by day of the entries of allocations, by unit: from the earliest first day until this instant.

    Before `not_before` it is summed between the days that a formula asks for, so that all usage of an allocation
    counts, however long ago it began. Entries whose allocations all ended before it have none.
    """
    used = {}
    for unit in units_of(ruled.settings.units):
        runs = _runs([row for row in allocations if row.unit == unit.symbol], not_before)
        if not runs:
            continue
        first = max(min(row.starts_on for rows in runs.values() for row in rows), not_before)
        earlier = sorted({day for rows in runs.values() for row in rows for day in _days_of(row) if day < first})
        uids = sorted(runs, key=str)
        n_days = (ruled.today - first).days + 1
        if n_days <= 0:
            used[unit.symbol] = UsedByDay(first, np.zeros((1, len(uids))), {uid: at for at, uid in enumerate(uids)})
            continue
        days = [*earlier, *(first + timedelta(days=day) for day in range(n_days))]
        edges = [begins_at(day, ruled.zone) for day in days]
        indexes = [i for i in (ruled.tree.index_of_uid(uid) for uid in uids) if i is not None]
        delivered = load_delivered(
            policy=ruled.policy, tree=ruled.tree, entries=indexes, edges=[*edges, ruled.at], unit=unit
        )
        hours = delivered.below / HOUR.total_seconds()
        if len(hours) < len(days):  # the instant is the first of its day
            hours = np.concatenate([hours, np.zeros((len(days) - len(hours), hours.shape[1]))])
        column_of = {ruled.tree.uuid(i): column for i, column in delivered.column_of.items()}
        cumulative = np.concatenate([np.zeros((1, hours.shape[1])), np.cumsum(hours, axis=0)])
        used[unit.symbol] = UsedByDay(first, cumulative, column_of, tuple(day.toordinal() for day in earlier))
    return used


def _runs(allocations: Iterable[RuledAllocation], not_before: date) -> dict[UUID, list[RuledAllocation]]:
    """By entry, allocations that haven't ended before a day, and those that overlap or touch them in a chain."""
    by_entry: dict[UUID, list[RuledAllocation]] = {}
    for row in allocations:
        by_entry.setdefault(row.entry_uid, []).append(row)
    runs = {}
    for uid, rows in by_entry.items():
        run: list[RuledAllocation] = []
        since = not_before
        for row in sorted(rows, key=attrgetter("ends_on"), reverse=True):
            if row.ends_on < since - DAY * bool(run):
                break
            run.append(row)
            since = min(since, row.starts_on)
        if run:
            runs[uid] = run
    return runs


def _days_of(row: RuledAllocation) -> set[date]:
    """Days between which a formula may ask for usage of an allocation that began long ago."""
    return {row.ends_on + DAY, *period_starts(row.starts_on, row.ends_on, "month")}


def make_state(ruled: RuledPolicy, allocations: Sequence[RuledAllocation], used: dict[str, UsedByDay]) -> RuledState:
    """The state before any step, with the shares and limits of the revision."""
    tree, entries = ruled.tree, {row.entry_uid for row in allocations}
    indexes = {uid: i for uid in entries if (i := tree.index_of_uid(uid)) is not None}
    return RuledState(
        allocations={row.uid: row for row in allocations},
        used=used,
        shares={uid: float(tree.shares[i]) for uid, i in indexes.items() if not tree.inherit[i]},
        parents={uid: tree.uuid(int(tree.parent[i])) for uid, i in indexes.items() if i},
        paths={tree.uuid(j): tree.path(j) for i in indexes.values() for j in {i, int(tree.parent[i])} if j >= 0},
        limits={
            UUID(limit["entry"]): (
                limit["rule"],
                LimitsEffect(
                    UUID(limit["entry"]),
                    limit["qos"],
                    None if limit["grp_tres_mins"] is None else tuple(sorted(limit["grp_tres_mins"].items())),
                ),
            )
            for limit in ruled.settings.limits
        },
    )


def add_steps_taken(state: RuledState, ruled: RuledPolicy, names: Collection[str]) -> None:
    """Add what rules of these names have done: keys, levels, and how many entries they changed today."""
    steps = RuleStep.objects.filter(policy=ruled.policy, rule__in=names)
    for rule, key in steps.values_list("rule", "key"):
        state.done.setdefault(rule, set()).add(key)
    levels = steps.exclude(level=None).order_by("rule", "entry_uid", "-pk").distinct("rule", "entry_uid")
    for step in levels:
        shares = step.facts.get("lowered")
        state.levels[step.rule, step.entry_uid] = LevelReached(step.level or 0, tuple(shares) if shares else None)
    changed = Cast(KeyTextTransform("n_changed", "facts"), IntegerField())
    for rule, n in steps.filter(on=ruled.today).values_list("rule").annotate(n=Sum(changed)):
        state.n_changed[rule, ruled.today] = n or 0
