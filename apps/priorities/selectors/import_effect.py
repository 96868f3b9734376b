"""What an import changed in the priorities of a policy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rule_set
from apps.priorities.delivered_usage import load_delivered
from apps.priorities.selectors.rows import open_view
from apps.usage.models import Import

_MOST_IMPORT_ROWS = 12


@dataclass(frozen=True, slots=True)
class ImportEffectRow:
    """One top-level entry; core-seconds as recorded."""

    name: str
    before: float
    added: float

    @property
    def after(self) -> float:
        return self.before + self.added


@dataclass(frozen=True)
class ImportEffect:
    """Effect of an import. rows: the largest of `n_rows` top entries. unmapped: core-seconds of unmapped accounts."""

    policy_name: str
    rows: list[ImportEffectRow]
    n_rows: int
    unmapped: float


def get_import_effect(usage_import: Import, *, policy_slug: str, actor: Actor) -> ImportEffect | None:
    """Usage that a finished dry run would add; None without accepted records, or if the reader may not see all numbers.

    Raw core-hours, without metric and decay. A corrected record counts in full, as in the sum of the file.
    """
    result: dict[str, Any] = usage_import.run.result
    first_at, last_at = usage_import.first_start_at, usage_import.last_end_at
    view = open_view(policy_slug=policy_slug, actor=actor)
    if "core_s_of_names" not in result or first_at is None or last_at is None:
        return None
    if not view.visibility.outright.all():
        return None
    keys = [AccountKey(usage_import.source.namespace, *names) for names in result["names"]]
    tree = view.tree
    places = load_rule_set(view.policy, tree).on(tree).resolve_many(keys)
    added, unmapped = np.zeros(len(tree)), 0.0
    for place, core_s in zip(places.tolist(), result["core_s_of_names"], strict=True):
        if place == UNMAPPED:
            unmapped += core_s
        else:
            added[[*tree.ancestors(place), place][1]] += core_s
    tops = np.flatnonzero(added).tolist()
    edges = [_hour(first_at), _hour(last_at - timedelta(microseconds=1)) + timedelta(hours=1)]
    known = load_delivered(policy=view.policy, tree=tree, entries=tops, edges=edges)
    rows = [ImportEffectRow(tree.name[i], known.between(i, *edges), float(added[i])) for i in tops]
    rows.sort(key=lambda row: (-row.added, row.name))
    return ImportEffect(view.policy.name, rows[:_MOST_IMPORT_ROWS], len(rows), unmapped)


def _hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)
