"""Compare a draft's tree with the usage of its log over 90 days, in the metric that its policy will have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.contrib.onboarding.first_policy_draft import require_setup, rules_of, tree_of
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.engine.algorithms.inputs import prepare
from apps.engine.target_state import State, is_on_target, slack_of, state_of
from apps.mapping.rules.resolver import UNMAPPED, Resolver
from apps.mapping.suggestions import Suggester, Suggestion, find_neighbours, groups_of
from apps.policies.formats.whole_shares import competitors
from apps.policies.settings import PolicySettings, tolerance_at, tolerances_of
from apps.policies.tree.columns import TreeColumns
from apps.priorities.usage_factors import JobClassRow, site_names, weighted_amounts, weighted_resources
from apps.usage.arrays import load_usage
from apps.usage.models import JobClass, Source

F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
DAYS = 90
_CURRENT = timedelta(days=2)  # a log that ended earlier is analysed up to its end
_MOST_LISTED_LOSSES = 50
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class TopEntry:
    """A competing top-level entry: its fraction of all usage in the period, and its target.

    time_in_band: fraction of days with usage that ended with the entry within its band; None without such days.
    """

    entry: int
    target: float
    actual: float
    used_s: float
    state: State
    time_in_band: float | None


@dataclass(frozen=True)
class Ledger:
    """Top-level entries, largest target first, and totals. Times and deviations refer to days from the first usage on.

    mean_deviation: mean over days of Σ target · |actual − target|, a fraction. time_in_band: Σ target · the entry's.
    Here, actual is the decayed usage at the end of a day.
    """

    top: Sequence[TopEntry]
    n_days: int
    time_in_band: float | None
    mean_deviation: float | None
    used_s: float


def top_entries(tree: TreeColumns) -> I8:
    """Top-level competitors: children of the root, and of entries that pass shares on to their children."""
    is_top = (competitors(tree) == 0) & ~tree.inherit
    is_top[0] = False
    return np.flatnonzero(is_top)


def top_entry_index(tree: TreeColumns, top: I8) -> I8:
    """For each entry, the index in `top` of the entry that contains it; −1 for none."""
    index = np.full(len(tree), -1, dtype=np.int64)
    index[top] = np.arange(len(top))
    for lo, hi in zip(tree.level_starts[1:-1], tree.level_starts[2:], strict=True):
        own = index[lo:hi]
        index[lo:hi] = np.where(own >= 0, own, index[tree.parent[lo:hi]])
    return index


def compare_with_usage(
    tree: TreeColumns, entry_of_account: I4, used: F8, *, half_life_days: float, tolerance: Mapping[str, Any]
) -> Ledger:
    """Compare shares with usage. used: (accounts, days) in the metric, in ascending order of days; unmapped accounts
    are ignored.
    """
    top = top_entries(tree)
    prepared = prepare(tree.engine_tree())
    target = prepared.spread(prepared.target)[top]
    index = top_entry_index(tree, top)[np.maximum(entry_of_account, 0)]
    index = np.where(entry_of_account == UNMAPPED, -1, index)
    by_day = np.zeros((len(top), used.shape[1]))
    np.add.at(by_day, index[index >= 0], used[index >= 0])
    whole = by_day.sum(axis=1)
    total = float(whole.sum())
    actual = whole / total if total else np.zeros(len(top))
    begun = np.flatnonzero(by_day.sum(axis=0))
    days = by_day[:, begun[0] :] if len(begun) else by_day[:, :0]
    is_leaf = tree.n_children[top] == 0
    slack = slack_of(target, tolerances_of(tolerance, is_leaf))
    inside, deviation = _daily_balance(days, target, slack, half_life_days=half_life_days)
    order = np.lexsort((np.arange(len(top)), -target))
    entries = [
        TopEntry(
            entry=int(top[i]),
            target=float(target[i]),
            actual=float(actual[i]),
            used_s=float(whole[i]),
            state=state_of(
                target=float(target[i]),
                actual=float(actual[i]) if total else None,
                has_usage=whole[i] > 0,
                has_demand=False,
                tolerance=tolerance_at(tolerance, bool(is_leaf[i])),
            ),
            time_in_band=float(inside[i].mean()) if inside.shape[1] else None,
        )
        for i in order.tolist()
    ]
    has_days = inside.shape[1] > 0
    return Ledger(
        top=entries,
        n_days=inside.shape[1],
        time_in_band=float((target * inside.mean(axis=1)).sum()) if has_days else None,
        mean_deviation=float(deviation.mean()) if has_days else None,
        used_s=total,
    )


def _daily_balance(days: F8, target: F8, slack: F8, *, half_life_days: float) -> tuple[npt.NDArray[np.bool_], F8]:
    """(entries, days) whether the entry is within its band at the day's end, and (days,) the share-weighted
    deviation.
    """
    kept = 0.5 ** (1 / half_life_days)
    faded = np.zeros(len(target))
    inside = np.zeros(days.shape, dtype=np.bool_)
    deviation = np.zeros(days.shape[1])
    for day in range(days.shape[1]):
        faded = faded * kept + days[:, day]
        actual = faded / faded.sum()
        inside[:, day] = is_on_target(actual, target, slack)
        deviation[day] = float((target * np.abs(actual - target)).sum())
    return inside, deviation


@dataclass(frozen=True, slots=True)
class Span:
    """90 days up to today, or to the end of an older log. used_from_on: the first day with usage."""

    first_on: date
    last_on: date
    ends_with_log: bool
    used_from_on: date | None = None

    @property
    def n_used_days(self) -> int:
        return 0 if self.used_from_on is None else (self.last_on - self.used_from_on).days + 1


@dataclass(frozen=True, slots=True)
class Unplaced:
    """An unmapped account, its usage, and suggested entries."""

    names: AccountKey
    amount_s: float
    suggestions: Sequence[Suggestion]


@dataclass(frozen=True)
class TreeVsUsage:
    """Result of the comparison.

    n_users: number of accounts with usage by top-level entry. at_groups: number and usage of accounts mapped to
    a group, because it has no entry for the user.
    """

    tree: TreeColumns
    span: Span
    ledger: Ledger
    n_users: dict[int, int]
    unplaced: Sequence[Unplaced]
    n_unplaced: int
    unplaced_s: float
    at_groups: tuple[int, float]
    placed: Sequence[tuple[AccountKey, str]]  # manually attached accounts, with the path of the entry
    half_life_days: float
    settings: PolicySettings

    @property
    def used_s(self) -> float:
        """All usage of the log in these days."""
        return self.ledger.used_s + self.unplaced_s


def compare_with_log(
    beginning: FirstPolicyDraft, *, zone: ZoneInfo, settings: PolicySettings, at: datetime, actor: Actor
) -> TreeVsUsage:
    """Compare the draft with its log, for administrators."""
    require_setup(actor)
    if beginning.source is None:
        raise ValueError("There is no log yet.")
    tree = tree_of(beginning)
    span = span_of(beginning.source, zone=zone, at=at)
    account_ids, used = load_used(beginning.source, span, zone, settings.metric)
    keys = _keys(account_ids)
    resolver = Resolver(rules_of(beginning, tree), tree)
    entry = resolver.resolve_many(keys)
    by_account = used.sum(axis=1)
    half_life_days = float(settings.window["half_life_s"]) / _DAY_S
    used_days = np.flatnonzero(used.sum(axis=0))
    if len(used_days):
        first_used = span.first_on + timedelta(days=int(used_days[0]))
        span = Span(span.first_on, span.last_on, span.ends_with_log, first_used)
    ledger = compare_with_usage(tree, entry, used, half_life_days=half_life_days, tolerance=settings.tolerance)
    lost = entry == UNMAPPED
    is_group = ~lost & tree.is_group[np.maximum(entry, 0)]
    return TreeVsUsage(
        tree=tree,
        span=span,
        ledger=ledger,
        n_users=_users_below(tree, ledger, entry),
        unplaced=_unplaced(tree, keys, entry, by_account),
        n_unplaced=int(lost.sum()),
        unplaced_s=float(by_account[lost].sum()),
        at_groups=(int(is_group.sum()), float(by_account[is_group].sum())),
        placed=_placed(tree, beginning),
        half_life_days=half_life_days,
        settings=settings,
    )


def span_of(source: Source, *, zone: ZoneInfo, at: datetime) -> Span:
    """The period: up to `at`, or to the end of a log that ended more than two days before."""
    ended_at = source.last_record_end_at
    is_old = ended_at is not None and at - ended_at > _CURRENT
    last_at = ended_at if is_old and ended_at is not None else at
    last_on = last_at.astimezone(zone).date()
    return Span(last_on - timedelta(days=DAYS - 1), last_on, is_old)


def load_used(source: Source, span: Span, zone: ZoneInfo, metric: Mapping[str, Any]) -> tuple[list[int], F8]:
    """Ascending account ids, and their usage in the metric (accounts, 90 days); days are in the site's time zone."""
    midnight_at = [datetime.combine(span.first_on + timedelta(days=day), time(), zone) for day in range(DAYS + 1)]
    rows = load_usage(
        sources=[source.pk],
        from_at=midnight_at[0].astimezone(UTC),
        to_at=midnight_at[-1].astimezone(UTC),
        sites=site_names(metric),
        resources=weighted_resources(metric),
    )
    classes = {each.id: each for each in map(JobClassRow._make, JobClass.objects.values_list(*JobClassRow._fields))}
    amount = weighted_amounts(rows, metric=metric, classes=classes)
    day = np.searchsorted([at.timestamp() for at in midnight_at], rows.hour_epoch, side="right") - 1
    is_used = amount > 0
    account_ids, row = np.unique(rows.account_id[is_used], return_inverse=True)
    used = np.zeros((len(account_ids), DAYS))
    np.add.at(used, (row, day[is_used]), amount[is_used])
    return account_ids.tolist(), used


def _keys(account_ids: Sequence[int]) -> list[AccountKey]:
    names = dict.fromkeys(account_ids, AccountKey(""))
    for start in range(0, len(account_ids), 20_000):
        rows = Account.objects.filter(pk__in=account_ids[start : start + 20_000])
        for pk, *key in rows.values_list("pk", *AccountKey._fields):
            names[pk] = AccountKey(*key)
    return list(names.values())


def _users_below(tree: TreeColumns, ledger: Ledger, entry: I4) -> dict[int, int]:
    """Number of accounts by top-level entry."""
    is_top = {row.entry for row in ledger.top}
    counted = dict.fromkeys(is_top, 0)
    for mapped in entry[entry != UNMAPPED].tolist():
        top_entry = next((i for i in (mapped, *tree.ancestors(mapped)) if i in is_top), None)
        if top_entry is not None:
            counted[top_entry] += 1
    return counted


def _unplaced(tree: TreeColumns, keys: Sequence[AccountKey], entry: I4, amount_s: F8) -> list[Unplaced]:
    lost = np.flatnonzero(entry == UNMAPPED)
    order = lost[np.argsort(-amount_s[lost], kind="stable")][:_MOST_LISTED_LOSSES].tolist()
    if not order:
        return []
    wanted = {group for i in order for group in groups_of(keys[i])}
    suggester = Suggester(tree, find_neighbours(tree, AccountKeys.of(keys), entry, wanted))
    return [Unplaced(keys[i], float(amount_s[i]), suggester.suggest(keys[i])) for i in order]


def _placed(tree: TreeColumns, beginning: FirstPolicyDraft) -> list[tuple[AccountKey, str]]:
    namespace = beginning.source.namespace if beginning.source else ""
    places = []
    for decision in beginning.decisions:
        i = tree.index_of_uid(UUID(decision["entry"]))
        key = AccountKey(
            namespace,
            decision.get("user_pattern", ""),
            decision.get("group_pattern", ""),
            fqan=decision.get("fqan_pattern", ""),
        )
        if i is not None:
            places.append((key, tree.path(i)))
    return places
