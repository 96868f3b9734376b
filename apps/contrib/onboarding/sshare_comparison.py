"""Compare the proposed policy with the scheduler's `sshare`: factor and usage of each association, and why they differ.

The tree, mapping and settings of the draft are computed with the usage of its log, like in a recompute. Nothing is
published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from apps.accounts.account_index import load_account_index
from apps.accounts.actor import Actor
from apps.contrib.onboarding.first_policy_draft import proposed_settings, require_setup, rules_of, tree_of
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.slurm_outputs import read_sshare
from apps.contrib.onboarding.usage_differences import (
    Cause,
    Hint,
    UsageComparison,
    UsagePair,
    UsageReason,
    compare_usage,
)
from apps.contrib.schedulers.own_values import PARENT, OwnValue
from apps.contrib.schedulers.shadow_differences import Comparison, Ours, compare
from apps.engine.algorithms import compute
from apps.engine.slurm_charge import PeriodCharge
from apps.mapping.rules.resolver import UNMAPPED, Resolver
from apps.policies.files.exports import decompress_text
from apps.policies.formats.registry import has_associations
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.slurm_associations import association_name, split_association
from apps.priorities.metering import RecordedUsage, SourceRow, usage_of_accounts, usage_of_scope, window_of
from apps.priorities.own_times import load_ended
from apps.priorities.slurm_config import CHARGES_RUNNING
from apps.priorities.usage_factors import JobClassRow, site_names, unit_of_usage, weighted_resources
from apps.usage.arrays import load_open_records, load_usage
from apps.usage.bucket_deltas import RESOURCES
from apps.usage.models import JobClass, Source

F8 = npt.NDArray[np.float64]
_USUAL_QOS = "normal"
_PHASE_OFFSETS_S = range(-2, 9)  # seconds that the first period may start before or after the expected instant
_SSHARE_RUNS_WITHIN_S = (1, 2, 3)  # after the time that the configuration prints, which is cut to seconds
_UNEXPLAINED = 2.0  # in units of usage; RawUsage is cut to whole ones, so equal numbers differ by less
_AFTER_A_PERIOD_S = 1e-3  # a job that ends in the second of a calculation has ended before it
_FADED = 10  # half-lives after which usage is weighted below a thousandth


@dataclass(frozen=True)
class SshareComparison:
    """Comparison of factors, with the proposed settings, and of usage. unit: stable name of the unit of usage."""

    factors: Comparison
    usage: UsageComparison
    algorithm: str
    unit: str
    as_of: datetime


@dataclass(frozen=True, eq=False)
class _Log:
    """Usage of a source with the rules of a draft. entry: (accounts,) entry of each account."""

    recorded: RecordedUsage
    entry: npt.NDArray[np.int64]
    n_entries: int
    as_of: datetime

    def own(self, settings: PolicySettings, *, approach: str = "") -> F8:
        """Usage of each entry, as in a recompute with these settings. approach: another one than theirs."""
        counted = usage_of_accounts(
            self.recorded,
            metric=settings.metric,
            window=window_of(settings.window),
            as_of_s=self.as_of.timestamp(),
        )
        scope = approach or settings.approach["global"]
        by_account = usage_of_scope(counted, scope="global", narrowed=(), sources=self.recorded.sources, approach=scope)
        placed = self.entry != UNMAPPED
        return np.bincount(self.entry[placed], weights=by_account[placed], minlength=self.n_entries).astype(np.float64)

    def has(self, account_id: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which entries have some of these accounts."""
        is_present = np.zeros(self.n_entries, np.bool_)
        is_present[self.entry[np.isin(self.recorded.account_ids, account_id) & (self.entry != UNMAPPED)]] = True
        return is_present

    @property
    def is_running(self) -> npt.NDArray[np.bool_]:
        return self.has(self.recorded.opened.account_id[self.recorded.opened.is_running])

    def by_qos(self, settings: PolicySettings) -> dict[str, F8]:
        """Usage of each entry by QOS, of jobs with another QOS than Slurm's own."""
        names = {row.qos for row in self.recorded.classes.values()} - {"", _USUAL_QOS}
        return {qos: self._of_qos(qos).own(settings) for qos in sorted(names)}

    def _of_qos(self, qos: str) -> _Log:
        """The log with the jobs of this QOS alone."""
        named = [row.id for row in self.recorded.classes.values() if row.qos == qos]
        usage, opened, ended = self.recorded.usage, self.recorded.opened, self.recorded.ended
        chosen = replace(
            self.recorded,
            usage=usage.selected(np.isin(usage.job_class_id, named)),
            opened=opened.selected(np.isin(opened.job_class_id, named)),
            ended=None if ended is None else ended.selected(np.isin(ended.job_class_id, named)),
        )
        return replace(self, recorded=chosen)

    def until_last_period(self, settings: PolicySettings) -> _Log:
        """The log with each finished job cut at the last of Slurm's calculations in it: without `limits`, Slurm never
        charges what follows.
        """
        ended, window = self.recorded.ended, window_of(settings.window)
        if ended is None or not window.charges_by_period:
            return self
        tick = PeriodCharge(window, self.as_of.timestamp()).tick_before(np.ceil(ended.end_epoch) - 1.0)
        end = np.maximum(tick + _AFTER_A_PERIOD_S, ended.start_epoch)
        return replace(self, recorded=replace(self.recorded, ended=replace(ended, end_epoch=end)))

    def begins_late(self, settings: PolicySettings) -> bool:
        """Whether usage from before the first job of the log may still count."""
        half_life_s = settings.window.get("half_life_s") if settings.window["aging"] != "none" else None
        if half_life_s is None or self.first_at is None:
            return True
        return self.as_of - self.first_at < _FADED * timedelta(seconds=float(half_life_s))

    @property
    def has_whole_billing(self) -> npt.NDArray[np.bool_]:
        """Which entries have jobs whose billing is a whole number."""
        ended, opened = self.recorded.ended, self.recorded.opened
        rows = [(opened.account_id, opened.billing)] + ([] if ended is None else [(ended.account_id, ended.billing)])
        whole = [account[(billing == np.floor(billing))] for account, billing in rows]
        return self.has(np.concatenate(whole))

    @property
    def first_at(self) -> datetime | None:
        hours = self.recorded.usage.hour_epoch
        return datetime.fromtimestamp(int(hours.min()), self.as_of.tzinfo) if len(hours) else None


def stored_sshare(beginning: FirstPolicyDraft) -> list[OwnValue]:
    """The sshare output that was read with the tree; empty if none was."""
    if beginning.sshare is None:
        return []
    return read_sshare(decompress_text(bytes(beginning.sshare)), beginning.facts.get("policy", ""))


def compare_with_sshare(
    beginning: FirstPolicyDraft, *, settings: PolicySettings | None = None, at: datetime, actor: Actor
) -> SshareComparison | None:
    """Compare with sshare, for administrators; None without sshare or log.

    settings: the proposed ones by default. Usage is that of the second in which sshare ran.
    """
    require_setup(actor)
    rows = stored_sshare(beginning)
    if not rows or beginning.source is None:
        return None
    tree = tree_of(beginning)
    log, settings = _fitted(beginning, beginning.source, settings or proposed_settings(beginning), rows, tree, at)
    own = log.own(settings)
    result = compute(tree.engine_tree(), own, algorithm=settings.algorithm)
    ours = Ours(tree.engine_tree(), settings.algorithm, result.factor, result.has_factor, result.usage)
    entry_of_row = _entries(rows, tree)
    causes = _Causes(beginning, settings, log)
    usage = compare_usage(
        [
            UsagePair(
                *(row.group, row.user, float(own[i]), row.raw_usage),
                causes=causes.of_entry(i),
                by_unknown_qos=causes.unknown_qos(i),
                hints=causes.hints(i),
            )
            for row, i in zip(rows, entry_of_row, strict=True)
            if row.user and i >= 0
        ]
    )
    factors = compare(rows, ours, entry_of_row)
    return SshareComparison(factors, usage, str(settings.algorithm["name"]), unit_of_usage(settings.metric), log.as_of)


def with_fitted_phase(beginning: FirstPolicyDraft, settings: PolicySettings, *, at: datetime) -> PolicySettings:
    """Settings whose periods start when usage fits sshare best: the controller's first one is some seconds after its
    start. Unchanged without sshare, or where periods don't matter.
    """
    rows = stored_sshare(beginning)
    if not rows or beginning.source is None:
        return settings
    return _fitted(beginning, beginning.source, settings, rows, tree_of(beginning), at)[1]


def _fitted(
    beginning: FirstPolicyDraft,
    source: Source,
    settings: PolicySettings,
    rows: list[OwnValue],
    tree: TreeColumns,
    at: datetime,
) -> tuple[_Log, PolicySettings]:
    """The log at the end of the second in which sshare ran, and settings whose periods fit its usage.

    The configuration is printed just before, with a time in whole seconds: a job that ended in that second or the next
    ones may be over in sshare. The second that fits best is taken, the first of equal ones.
    """
    entry_of_row = _entries(rows, tree)
    printed_at = beginning.sshare_at or at
    fits: list[tuple[float, _Log, PolicySettings]] = []
    for as_of in dict.fromkeys(min(printed_at + timedelta(seconds=n), at) for n in _SSHARE_RUNS_WITHIN_S):
        log = _load_log(beginning, source, tree, as_of)
        deviation, fitted = _with_fitted_phase(settings, log, rows, entry_of_row)
        fits.append((deviation, log, fitted))
        if deviation == 0.0:
            break
    _, log, fitted = min(fits, key=lambda fit: fit[0])
    return log, fitted


def _with_fitted_phase(
    settings: PolicySettings, log: _Log, rows: Sequence[OwnValue], entry_of_row: Sequence[int]
) -> tuple[float, PolicySettings]:
    """How far usage is from sshare's with the best start of the periods, and settings with that start.

    An entry whose usage differs for another reason, such as one job that accounting reports late, counts as
    `_UNEXPLAINED` and not by its difference: it must not decide for all others. If most differ, another start would
    only hide why, and the settings stay.
    """
    window = settings.window
    if not window_of(window).charges_by_period or not window.get("phase_s"):
        return 0.0, settings
    known = [(i, row.raw_usage) for row, i in zip(rows, entry_of_row, strict=True) if row.user and i >= 0]
    entry, sshare_usage = np.array([i for i, _ in known], np.int64), np.array([usage for _, usage in known])

    def starting(offset_s: int) -> PolicySettings:
        """From 1 to a whole period, because 0 says that the start isn't known."""
        phase_s = (window["phase_s"] + offset_s - 1) % window["calc_period_s"] + 1
        return replace(settings, window={**window, "phase_s": phase_s})

    def deviation(offset_s: int) -> float:
        own = log.own(starting(offset_s), approach="active")[entry]
        return float(np.minimum(np.abs(np.floor(own) - sshare_usage), _UNEXPLAINED).sum())

    deviations = {offset_s: deviation(offset_s) for offset_s in _PHASE_OFFSETS_S}
    best_s = min(deviations, key=lambda offset_s: (deviations[offset_s], abs(offset_s)))
    if deviations[best_s] > len(known):
        return deviations[best_s], settings
    return deviations[best_s], starting(best_s)


def _entries(rows: list[OwnValue], tree: TreeColumns) -> list[int]:
    """Entry of each row by the names of Slurm's associations; −1 for none."""
    has_partitions = any(split_association(row.user).partition for row in rows)
    names = list(tree.name)
    groups = {names[i]: i for i in range(1, len(tree)) if tree.is_group[i]} | {"root": 0}
    leaves = [i for i in range(1, len(tree)) if not tree.is_group[i]]
    users = {(int(tree.parent[i]), association_name(*split_association(names[i]))): i for i in leaves}
    limited: dict[tuple[int, str], list[int]] = {}
    for (group, name), i in users.items():
        if (association := split_association(name)).partition:
            limited.setdefault((group, association.user), []).append(i)
    entries = []
    for row in rows:
        group = groups.get(row.group, -1)
        entry = users.get((group, row.user), -1) if row.user else group
        if (group, row.user) in limited and not has_partitions:
            entry = _by_shares([entry, *limited[group, row.user]], row, tree)
        entries.append(entry)
    return entries


def _by_shares(entries: Sequence[int], row: OwnValue, tree: TreeColumns) -> int:
    """The only one of a user's entries with the row's shares, in an output without partitions; −1 if it isn't known."""
    there = [i for i in entries if i >= 0]
    alike = [i for i in there if (PARENT if tree.inherit[i] else float(tree.shares[i])) == row.raw_shares]
    return there[0] if len(there) == 1 else alike[0] if len(alike) == 1 else -1


def _load_log(beginning: FirstPolicyDraft, source: Source, tree: TreeColumns, as_of: datetime) -> _Log:
    settings = proposed_settings(beginning)
    sites = site_names(settings.metric)
    classes = [JobClassRow(*row) for row in JobClass.objects.values_list("id", "queue", "partition", "qos")]
    accounts = load_account_index(use_cache=False)
    recorded = RecordedUsage(
        load_usage(
            sources=[source.pk],
            from_at=None,
            to_at=as_of,
            sites=sites,
            resources={*RESOURCES, *weighted_resources(settings.metric)},
        ),
        load_open_records(sources=[source.pk], sites=sites, parts=True),
        accounts.ids,
        [SourceRow(source.pk, source.slug, source.origin)],
        {row.id: row for row in classes},
        load_ended(window_of(settings.window), sources=[source.pk], to_at=as_of, sites=sites),
    )
    entry = Resolver(rules_of(beginning, tree), tree).resolve_many(accounts.keys)
    return _Log(recorded, entry.astype(np.int64), len(tree), as_of)


class _Causes:
    """What may make the usage of an entry differ from Slurm's, with the usage that Slurm would list by it: settings
    that were chosen otherwise than Slurm has them, and what Slurm loses. And what is not known of the site.
    """

    def __init__(self, beginning: FirstPolicyDraft, settings: PolicySettings, log: _Log) -> None:
        self._log, self._settings, slurms = log, settings, proposed_settings(beginning)
        config = beginning.facts.get("slurm_config")
        lines = (config or {}).get("lines", ())
        self._missing = {line["name"].split(" ")[0] for line in lines if line["value"] == "?"}
        self._is_unknown = config is None and has_associations(str(beginning.facts.get("format", "")))
        # The configuration lists AccountingStorageEnforce only if it lacks limits.
        self._lacks_limits = any(line["name"] == "AccountingStorageEnforce" for line in lines)
        charging = replace(settings, approach=dict(CHARGES_RUNNING))
        self._usage: list[tuple[UsageReason, F8]] = []
        if settings.approach["global"] == "historical":
            self._usage.append(("running_left_out", log.own(charging)))
        if settings.window != slurms.window:
            self._usage.append(("decay", log.own(replace(charging, window=slurms.window))))
        if self._lacks_limits:
            self._usage.append(("removed_limits", log.until_last_period(charging).own(charging)))
        self._by_qos = log.by_qos(settings) if "UsageFactor" in self._missing else {}
        self._is_running = log.is_running
        self._is_cut = log.has_whole_billing if settings.metric["weights"].get("billing") else None
        self._begins_late = log.begins_late(settings)

    def of_entry(self, i: int) -> list[Cause]:
        return [Cause(reason, float(usage[i])) for reason, usage in self._usage]

    def unknown_qos(self, i: int) -> dict[str, float]:
        """Our usage of the entry by QOS whose UsageFactor is not known."""
        return {qos: float(usage[i]) for qos, usage in self._by_qos.items() if usage[i] > 0}

    def hints(self, i: int) -> list[Hint]:
        known: list[tuple[Hint, bool]] = [
            ("config_unknown", self._is_unknown),
            ("qos_unknown", bool(self.unknown_qos(i))),
            ("weights_unknown", "TRESBillingWeights" in self._missing),
            ("billing_cut", self._is_cut is not None and bool(self._is_cut[i])),
            ("no_limits", self._lacks_limits),
            ("running", bool(self._is_running[i])),
            ("log_begins_late", self._begins_late),
        ]
        return [hint for hint, holds in known if holds]
