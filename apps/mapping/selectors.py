"""The mapping as one actor may read it: rules with their current matches, and unmapped accounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from apps.accounts.account_ids import ENTRY_NAMESPACE, RESERVED, AccountKey, uid_of_account
from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.mapping.changes import may_read_rule
from apps.mapping.moves import NOTHING, AffectedUsage, RightsCache, is_own, load_affected_usage
from apps.mapping.permissions import MapRights, rights_in
from apps.mapping.rules.problems import RuleProblem, problems_of
from apps.mapping.rules.resolver import UNMAPPED, Decided, decide_accounts
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import RuleSet, build_rule_set, load_rules, numbers_of, tier_of
from apps.mapping.suggestions import Suggester, Suggestion, find_neighbours, groups_of
from apps.mapping.versions import sort_by_tier, version_of
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
    accounts = Account.objects.exclude(namespace__startswith=RESERVED)  # peers report usage by entry, without rules
    rows = list(accounts.order_by("id").values_list("id", *AccountKey._fields))
    ids, keys = [row[0] for row in rows], [AccountKey(*row[1:]) for row in rows]
    decided = decide_accounts(rights.tree, rule_set.rules, rule_set.known, keys)
    used, local_ids = load_affected_usage(at=at), set(ids)
    stakes = {account: usage for account, usage in used.items() if account in local_ids}
    waiting = _waiting(rights, {account: usage for account, usage in used.items() if account not in local_ids})
    rules, by_members, attached = _rules(rights, stored, rule_set, ids, decided, stakes)
    rules = _with_problems(rights, stored, rule_set, rules, {key.namespace for key in keys})
    is_whole = rights.may_name(0)
    free = _unmapped(ids, keys, decided, stakes)
    lines = _with_suggestions(
        rights, free[:_MOST_GUESSED] if not is_whole else free[after : after + PAGE], keys, decided
    )
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
        unmapped_core_s=sum(usage.core_s for _id, _key, usage in free)
        if is_whole
        else sum(line.usage.core_s for line in lines),
        total_core_s=sum(usage.core_s for usage in stakes.values()) if is_whole else None,
        n_accounts=len(ids),
        n_attached=attached[0],
        attached_core_s=attached[1],
        n_by_members=by_members[0],
        members_core_s=by_members[1],
        next_after=after + PAGE if n_read > after + PAGE else None,
        is_whole=is_whole,
        may_edit=rights.maps_anywhere,
        n_waiting=len(waiting),
        waiting_core_s=sum(waiting),
        other_case=_in_other_case(rights, rule_set, ids, keys, decided, stakes),
    )


def _in_other_case(
    rights: MapRights,
    rule_set: RuleSet,
    ids: Sequence[int],
    keys: Sequence[AccountKey],
    decided: Sequence[Decided],
    stakes: dict[int, AffectedUsage],
) -> list[OtherCaseRow]:
    """Return accounts at groups whose entry differs by letter case, most usage first; unmapped ones have suggestions.

    Only the accounts with most usage are searched.
    """
    resolver = rule_set.on(rights.tree)
    at_groups = [
        (account, key, match.entry)
        for account, key, (match, _number) in zip(ids, keys, decided, strict=True)
        if match.entry != UNMAPPED and not resolver.has_own_entry(match.entry) and account in stakes
    ]
    at_groups.sort(key=lambda item: (-stakes[item[0]].core_s, item[1]))
    rows = []
    for account, key, entry in at_groups[:_MOST_GUESSED]:
        likely = resolver.likely_entry(key) if rights.may_name(entry) else None
        if likely is not None and rights.sees.may_see(likely):
            rows.append(OtherCaseRow(account, key, stakes[account], entry, likely))
    return rows[:PAGE]


def _rules(
    rights: MapRights,
    stored: Sequence[Rule],
    rule_set: RuleSet,
    ids: Sequence[int],
    decided: Sequence[Decided],
    stakes: dict[int, AffectedUsage],
) -> tuple[list[RuleRow], tuple[int, float], tuple[int, float]]:
    counts: Counter[int | None] = Counter()
    used: dict[int | None, float] = {}
    reads = RightsCache(rights.may_name)
    is_whole = rights.may_name(0)
    for account, (match, number) in zip(ids, decided, strict=True):
        if match.entry != UNMAPPED and (is_whole or reads[match.entry]):
            counts[number] += 1
            used[number] = used.get(number, 0.0) + stakes.get(account, NOTHING).core_s
    numbers = numbers_of(stored, rule_set.rules)
    tiers = [tier_of(rule) for rule in stored]
    lines = []
    for at, rule in enumerate(stored):
        number = numbers[at]
        edges = at == 0 or tiers[at - 1] != tiers[at], at + 1 == len(tiers) or tiers[at + 1] != tiers[at]
        if may_read_rule(rights, rule):
            target = rights.tree.index_of_uid(rule.target_uid)
            may_edit = rights.may_map(0) or is_own(rights, rule)
            lines.append(RuleRow(at, rule, tiers[at], target, counts[number], used.get(number, 0.0), may_edit, *edges))
        else:
            lines.append(RuleRow(at, None, tiers[at], is_first=edges[0], is_last=edges[1]))
    of_tree = set(range(len(rule_set.rules))) - set(numbers)
    by_members = sum(counts[number] for number in of_tree), sum(used.get(number, 0.0) for number in of_tree)
    return lines, by_members, (counts[None], used.get(None, 0.0))


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


def _waiting(rights: MapRights, usage: dict[int, AffectedUsage]) -> list[float]:
    """Return the core-seconds of peers' entries that aren't in the tree, for readers of the whole tree."""
    if not rights.may_name(0):
        return []
    rows = Account.objects.filter(pk__in=list(usage), namespace=ENTRY_NAMESPACE).values_list("pk", "user_name")
    known = {pk: uid_of_account(AccountKey(ENTRY_NAMESPACE, name)) for pk, name in rows}
    absent = [pk for pk, uid in known.items() if uid is None or rights.tree.index_of_uid(uid) is None]
    return [usage[pk].core_s for pk in absent]


def _unmapped(
    ids: Sequence[int], keys: Sequence[AccountKey], decided: Sequence[Decided], stakes: dict[int, AffectedUsage]
) -> list[tuple[int, AccountKey, AffectedUsage]]:
    """Return unmapped accounts, most usage first."""
    rows = [
        (account, key, stakes.get(account, NOTHING))
        for account, key, (match, _rule) in zip(ids, keys, decided, strict=True)
        if match.entry == UNMAPPED
    ]
    return sorted(rows, key=lambda row: (-row[2].core_s, row[1]))


def _with_suggestions(
    rights: MapRights,
    free: Sequence[tuple[int, AccountKey, AffectedUsage]],
    keys: Sequence[AccountKey],
    decided: Sequence[Decided],
) -> list[UnmappedRow]:
    """Add suggestions to unmapped accounts, only of entries that the actor sees."""
    if not free:
        return []
    wanted = {place for _account, key, _stake in free for place in groups_of(key)}
    entries = (match.entry for match, _rule in decided)
    suggester = Suggester(rights.tree, find_neighbours(rights.tree, keys, entries, wanted))
    return [
        UnmappedRow(
            account,
            key,
            usage,
            [suggestion for suggestion in suggester.suggest(key) if rights.sees.may_see(suggestion.entry)],
        )
        for account, key, usage in free
    ]
