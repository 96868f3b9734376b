"""Compare the proposed policy with the scheduler's `sshare`: factor and usage of each association, and why they differ.

The tree, mapping and settings of the draft are computed with the usage of its log, like in a recompute. Nothing is
published.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.accounts.account_ids import load_account_index
from apps.accounts.actor import Actor
from apps.engine.algorithms import compute
from apps.mapping.rules.resolver import UNMAPPED, Resolver
from apps.onboarding.first_policy_draft import proposed_settings, require_setup, rules_of, tree_of
from apps.onboarding.models import Beginning
from apps.onboarding.slurm_outputs import read_sshare
from apps.policies.files.exports import decompress_text
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.priorities.metering import (
    JobClassRow,
    RecordedUsage,
    SourceRow,
    site_names,
    unit_of_usage,
    usage_of_accounts,
    usage_of_scope,
    window_of,
)
from apps.priorities.own_times import load_ended
from apps.schedulers.own_values import OwnValue
from apps.schedulers.shadow_differences import Comparison, Ours, UsageComparison, UsagePair, compare, compare_usage
from apps.usage.arrays import load_open_records, load_usage
from apps.usage.models import JobClass, Source

F8 = npt.NDArray[np.float64]
_FADED = 10  # half-lives after which usage is weighted below a thousandth


@dataclass(frozen=True)
class SshareComparison:
    """Comparison of factors, with the proposed settings, and of usage. unit: stable name of the unit of usage."""

    factors: Comparison
    usage: UsageComparison
    algorithm: str
    unit: str
    as_of: datetime

    def to_json(self) -> dict[str, Any]:
        """JSON: largest differences first, sums of usage, and users whose usage differs."""
        usage = self.usage
        return {
            "algorithm": self.algorithm,
            **self.factors.to_json(),
            "usage": {
                "unit": self.unit,
                "ours": usage.ours,
                "theirs": usage.theirs,
                "quotient": usage.quotient,
                "differences": [asdict(row) for row in usage.rows if row.reason != "same"],
            },
        }


@dataclass(frozen=True, eq=False)
class _Used:
    """Arrays (entries,): usage in the policy's metric, and whether a job is running. first_at: start of the log."""

    own: F8
    is_running: npt.NDArray[np.bool_]
    first_at: datetime | None


def stored_sshare(beginning: Beginning) -> list[OwnValue]:
    """The sshare output that was read with the tree; empty if none was."""
    if beginning.sshare is None:
        return []
    return read_sshare(decompress_text(bytes(beginning.sshare)), beginning.facts.get("policy", ""))


def compare_with_sshare(
    beginning: Beginning, *, settings: PolicySettings | None = None, at: datetime, actor: Actor
) -> SshareComparison | None:
    """Compare with sshare, for administrators; None without sshare or log.

    settings: the proposed ones by default. Usage is evaluated at the time of the sshare output.
    """
    require_setup(actor)
    rows = stored_sshare(beginning)
    if not rows or beginning.source is None:
        return None
    as_of = min(beginning.sshare_at or at, at)
    tree, settings = tree_of(beginning), settings or proposed_settings(beginning)
    used = _used(beginning, beginning.source, tree, settings, as_of)
    result = compute(tree.engine_tree(), used.own, algorithm=settings.algorithm)
    ours = Ours(tree.engine_tree(), settings.algorithm, result.factor, result.has_factor, result.usage)
    entry_of_row = _entries(rows, tree)
    pairs = [
        UsagePair(row.group, row.user, float(used.own[i]), row.raw_usage, bool(used.is_running[i]))
        for row, i in zip(rows, entry_of_row, strict=True)
        if row.user and i >= 0
    ]
    half_life_s = settings.window.get("half_life_s") if settings.window["aging"] != "none" else None
    usage = compare_usage(
        pairs,
        has_limits=_has_limits(beginning),
        begins_late=half_life_s is None
        or used.first_at is None
        or as_of - used.first_at < _FADED * timedelta(seconds=float(half_life_s)),
    )
    unit = unit_of_usage(settings.metric)
    return SshareComparison(compare(rows, ours, entry_of_row), usage, str(settings.algorithm["name"]), unit, as_of)


def _entries(rows: list[OwnValue], tree: TreeColumns) -> list[int]:
    """Entry of each row by the names of Slurm's associations; −1 for none."""
    names = list(tree.name)
    groups = {names[i]: i for i in range(1, len(tree)) if tree.is_group[i]} | {"root": 0}
    users = {(int(tree.parent[i]), names[i]): i for i in range(1, len(tree)) if not tree.is_group[i]}
    found = []
    for row in rows:
        group = groups.get(row.group, -1)
        found.append(users.get((group, row.user), -1) if row.user else group)
    return found


def _used(beginning: Beginning, source: Source, tree: TreeColumns, settings: PolicySettings, as_of: datetime) -> _Used:
    """Usage of the source as in a recompute, with the rules of the draft."""
    sites = site_names(settings.metric)
    classes = [JobClassRow(*row) for row in JobClass.objects.values_list("id", "queue", "partition", "qos")]
    accounts = load_account_index(use_cache=False)
    usage = load_usage(sources=[source.pk], from_at=None, to_at=as_of, sites=sites)
    opened = load_open_records(sources=[source.pk], sites=sites)
    ended = load_ended(window_of(settings.window), sources=[source.pk], to_at=as_of, sites=sites)
    sources = [SourceRow(source.pk, source.slug, source.origin)]
    counted = usage_of_accounts(
        RecordedUsage(usage, opened, accounts.ids, sources, {row.id: row for row in classes}, ended),
        metric=settings.metric,
        window=window_of(settings.window),
        as_of_s=as_of.timestamp(),
    )
    scope = settings.approach["global"]
    by_account = usage_of_scope(counted, scope="global", narrowed=(), sources=sources, approach=scope)
    entry = Resolver(rules_of(beginning, tree), tree).resolve_many(accounts.keys)
    placed = entry != UNMAPPED
    own = np.bincount(entry[placed], weights=by_account[placed], minlength=len(tree)).astype(np.float64)
    is_running = np.zeros(len(tree), np.bool_)
    running = np.unique(opened.account_id[opened.is_running])
    is_running[entry[np.isin(accounts.ids, running) & placed]] = True
    first_s = int(usage.hour_epoch.min()) if len(usage.hour_epoch) else None
    first_at = None if first_s is None else datetime.fromtimestamp(first_s, as_of.tzinfo)
    return _Used(own, is_running, first_at)


def _has_limits(beginning: Beginning) -> bool:
    """Whether AccountingStorageEnforce has limits: the configuration lists that setting only if it lacks them."""
    lines = (beginning.facts.get("slurm_config") or {}).get("lines", [])
    return not any(line["name"] == "AccountingStorageEnforce" for line in lines)
