"""The mapping as one actor may read it: rules with their current matches, and unmapped accounts."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import numpy.typing as npt

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.entry_accounts import ENTRY_NAMESPACE, uid_of_account
from apps.accounts.models import Account
from apps.mapping.changes import may_read_rule
from apps.mapping.models import Attachment, MappingRule
from apps.mapping.moves import NOTHING, AffectedUsage, RightsCache, is_own, load_affected_usage, load_recent_accounts
from apps.mapping.permissions import MapRights, rights_in
from apps.mapping.rules.placement import Placement, place_accounts
from apps.mapping.rules.problems import RuleProblem, problems_of
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import RuleSet, build_rule_set, load_rules, numbers_of, tier_of
from apps.mapping.suggestions import Suggester, Suggestion, find_neighbours, groups_of
from apps.mapping.versions import sort_by_tier, version_of
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.usage.models import Source

PAGE = 50
_MOST_GUESSED = 2_000  # unmapped accounts with most usage that are searched for an actor with rights in a part


@dataclass(frozen=True)
class RuleRow:
    """A stored rule, in the order of evaluation, with its current matches. rule: None if the actor may not read it."""

    at: int
    rule: Rule | None
    tier: int
    target: int | None = None  # None: its entry is archived
    n_accounts: int = 0
    core_s: float = 0.0
    may_edit: bool = False
    is_first: bool = False  # of its tier
    is_last: bool = False
    problems: Sequence[RuleProblem] = ()


@dataclass(frozen=True)
class UnmappedRow:
    """An unmapped account."""

    account: int
    key: AccountKey
    usage: AffectedUsage
    suggestions: Sequence[Suggestion]


@dataclass(frozen=True)
class OtherCaseRow:
    """An account that counts at a group, although the group has an entry of its name in another letter case."""

    account: int
    key: AccountKey
    usage: AffectedUsage
    counts_at: int
    likely: int


@dataclass(frozen=True, eq=False)
class MappingPage:
    """The mapping page. Amounts are of the last DAYS days. n_hidden: unmapped accounts that the actor can't see.

    Sums cover accounts whose names the actor may read. total_core_s: None unless these are all accounts.
    """

    rights: MapRights
    version: int
    rules: Sequence[RuleRow]
    unmapped: Sequence[UnmappedRow]
    n_unmapped: int
    n_hidden: int
    unmapped_core_s: float
    total_core_s: float | None
    n_accounts: int
    n_attached: int
    attached_core_s: float
    n_by_members: int  # accounts mapped by membership rules
    members_core_s: float
    next_after: int | None = None
    is_whole: bool = False  # the actor may read all names
    may_edit: bool = False
    # Entries that peers report and that aren't in the tree; only for readers of the whole tree.
    n_waiting: int = 0
    waiting_core_s: float = 0.0
    other_case: Sequence[OtherCaseRow] = ()


def get_mapping_page(*, policy_slug: str, after: int = 0, at: datetime, actor: Actor) -> MappingPage:
    """Load the mapping page. after: number of unmapped accounts to skip."""
    rights = rights_in(policy_slug, at=at, actor=actor)
    rights.require_anywhere()
    stored = sort_by_tier(load_rules(rights.policy))
    rule_set = build_rule_set(rights.policy, rights.tree, stored)
    accounts, of_peers = _load_accounts(rights, rule_set, at=at)
    waiting = _waiting(rights, of_peers)
    rules, by_members, attached = _rules(rights, stored, rule_set, accounts)
    rules = _with_problems(rights, stored, rule_set, rules, set(accounts.keys.column("namespace").coded[0]))
    is_whole = rights.may_name(0)
    free = np.flatnonzero(accounts.placement.entry == UNMAPPED)
    first, n = (after, PAGE) if is_whole else (0, _MOST_GUESSED)
    lines = _with_suggestions(rights, accounts, accounts.most_used(free, first + n)[first:], at=at)
    if not is_whole:
        lines = [line for line in lines if any(rights.may_map(suggestion.entry) for suggestion in line.suggestions)]
    n_read = len(free) if is_whole else len(lines)
    shown = lines if is_whole else lines[after : after + PAGE]
    return MappingPage(
        rights=rights,
        version=version_of(rights.policy),
        rules=rules,
        unmapped=shown,
        n_unmapped=n_read,
        n_hidden=len(free) - n_read,
        unmapped_core_s=sum(sorted(accounts.core_s[free].tolist(), reverse=True))
        if is_whole
        else sum(line.usage.core_s for line in lines),
        total_core_s=sum(accounts.core_s.tolist()) if is_whole else None,
        n_accounts=len(accounts.ids),
        n_attached=attached[0],
        attached_core_s=attached[1],
        n_by_members=by_members[0],
        members_core_s=by_members[1],
        next_after=after + PAGE if n_read > after + PAGE else None,
        is_whole=is_whole,
        may_edit=rights.maps_anywhere,
        n_waiting=len(waiting),
        waiting_core_s=sum(waiting),
        other_case=_in_other_case(rights, rule_set, accounts, at=at),
    )


def maps_accounts(policy: Policy, tree: TreeColumns) -> bool:
    """Whether anything says where accounts count: a rule, an attached account, or an entry's membership rule."""
    kept = (MappingRule.objects, Attachment.objects)
    return bool(tree.members) or any(rows.filter(policy=policy).exists() for rows in kept)


@dataclass(frozen=True, eq=False)
class _Accounts:
    """Accounts with their placement and recent usage, by ascending id. core_s: 0 for those without any."""

    ids: npt.NDArray[np.int64]
    keys: AccountKeys
    placement: Placement
    core_s: npt.NDArray[np.float64]

    def most_used(self, places: npt.NDArray[np.int64], n: int) -> list[int]:
        """The first `n` of these places, most usage first, then by name."""
        core_s = self.core_s[places]
        is_used = core_s > 0
        if np.count_nonzero(is_used) > n > 0:
            is_used = core_s >= np.partition(core_s, -n)[-n]
        used = sorted(places[is_used].tolist(), key=lambda at: (-self.core_s[at], self.keys[at]))
        n_left = n - len(used)
        others = heapq.nsmallest(n_left, places[core_s <= 0].tolist(), key=self.keys.__getitem__) if n_left > 0 else []
        return [*used, *others][:n]


def _load_accounts(rights: MapRights, rule_set: RuleSet, *, at: datetime) -> tuple[_Accounts, dict[int, float]]:
    """Load all accounts under which jobs run, and the recent core-seconds of those by which peers report."""
    everyone, core_s = load_recent_accounts(at=at)
    placement = place_accounts(rights.tree, rule_set.rules, rule_set.known, everyone.keys)
    here, running = everyone.running
    of_peers = load_affected_usage(np.delete(everyone.ids, here).tolist(), at=at)
    accounts = _Accounts(running.ids, running.keys, placement.take(here), core_s[here])
    return accounts, {account: usage.core_s for account, usage in of_peers.items()}


def _in_other_case(rights: MapRights, rule_set: RuleSet, accounts: _Accounts, *, at: datetime) -> list[OtherCaseRow]:
    """Return accounts at groups whose entry differs by letter case, most usage first; unmapped ones have suggestions.

    Only the accounts with most usage are searched.
    """
    resolver, entries = rule_set.on(rights.tree), accounts.placement.entry
    places = np.flatnonzero((entries != UNMAPPED) & (accounts.core_s > 0))
    at_groups = places[~resolver.own_entries[entries[places]]]
    rows = []
    for place in accounts.most_used(at_groups, _MOST_GUESSED):
        key, entry = accounts.keys[place], int(entries[place])
        likely = resolver.likely_entry(key) if rights.may_name(entry) else None
        if likely is not None and rights.sees.may_see(likely):
            rows.append((int(accounts.ids[place]), key, entry, likely))
    rows = rows[:PAGE]
    used = load_affected_usage([row[0] for row in rows], at=at)
    return [OtherCaseRow(account, key, used.get(account, NOTHING), *places) for account, key, *places in rows]


def _rules(
    rights: MapRights, stored: Sequence[Rule], rule_set: RuleSet, accounts: _Accounts
) -> tuple[list[RuleRow], tuple[int, float], tuple[int, float]]:
    reads, entries = RightsCache(rights.may_name), accounts.placement.entry
    shown = entries != UNMAPPED
    if not rights.may_name(0):
        readable = [entry for entry in np.unique(entries[shown]).tolist() if reads[entry]]
        shown &= np.isin(entries, readable)
    decided = accounts.placement.rule[shown] + 1  # 0 for attachments
    n_rules = len(rule_set.rules)
    counts = np.bincount(decided, minlength=n_rules + 1)[1:].tolist()
    used = np.bincount(decided, weights=accounts.core_s[shown], minlength=n_rules + 1)[1:].tolist()
    is_attached = shown & (accounts.placement.rule < 0)
    attached = int(is_attached.sum()), float(sum(accounts.core_s[is_attached].tolist()))
    numbers = numbers_of(stored, rule_set.rules)
    tiers = [tier_of(rule) for rule in stored]
    lines = []
    for at, rule in enumerate(stored):
        number = numbers[at]
        edges = at == 0 or tiers[at - 1] != tiers[at], at + 1 == len(tiers) or tiers[at + 1] != tiers[at]
        if may_read_rule(rights, rule):
            target = rights.tree.index_of_uid(rule.target_uid)
            may_edit = rights.may_map(0) or is_own(rights, rule)
            lines.append(RuleRow(at, rule, tiers[at], target, counts[number], used[number], may_edit, *edges))
        else:
            lines.append(RuleRow(at, None, tiers[at], is_first=edges[0], is_last=edges[1]))
    of_tree = sorted(set(range(n_rules)) - set(numbers))
    by_members = sum(counts[number] for number in of_tree), sum(used[number] for number in of_tree)
    return lines, by_members, attached


def _with_problems(
    rights: MapRights, stored: Sequence[Rule], rule_set: RuleSet, lines: Sequence[RuleRow], namespaces: set[str]
) -> list[RuleRow]:
    """Add the problems of each readable rule; problems that name entries only if the actor may read all of them."""
    resolver = rule_set.on(rights.tree)
    known = namespaces | set(Source.objects.values_list("namespace", flat=True))
    rows = []
    for line, number in zip(lines, numbers_of(stored, rule_set.rules), strict=True):
        problems = [] if line.rule is None else problems_of(resolver, number, known)
        readable = [problem for problem in problems if all(map(rights.may_name, problem.entries))]
        rows.append(replace(line, problems=readable))
    return rows


def _waiting(rights: MapRights, core_s: dict[int, float]) -> list[float]:
    """Return the core-seconds of peers' entries that aren't in the tree, for readers of the whole tree."""
    if not rights.may_name(0):
        return []
    rows = Account.objects.filter(pk__in=list(core_s), namespace=ENTRY_NAMESPACE).values_list("pk", "user_name")
    known = {pk: uid_of_account(AccountKey(ENTRY_NAMESPACE, name)) for pk, name in rows}
    absent = [pk for pk, uid in known.items() if uid is None or rights.tree.index_of_uid(uid) is None]
    return [core_s[pk] for pk in absent]


def _with_suggestions(
    rights: MapRights, accounts: _Accounts, free: Sequence[int], *, at: datetime
) -> list[UnmappedRow]:
    """Add suggestions to unmapped accounts, only of entries that the actor sees."""
    keys = [accounts.keys[place] for place in free]
    used = load_affected_usage(accounts.ids[free].tolist(), at=at)
    wanted = {place for key in keys for place in groups_of(key)}
    suggester = Suggester(rights.tree, find_neighbours(rights.tree, accounts.keys, accounts.placement.entry, wanted))
    return [
        UnmappedRow(
            int(accounts.ids[place]),
            key,
            used.get(int(accounts.ids[place]), NOTHING),
            [suggestion for suggestion in suggester.suggest(key) if rights.sees.may_see(suggestion.entry)],
        )
        for place, key in zip(free, keys, strict=True)
    ]
