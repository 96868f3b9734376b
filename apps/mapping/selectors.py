"""The mapping as one actor may read it: rules with their present matches, and unmapped accounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.accounts.names.account_ids import AccountKey
from apps.accounts.names.entry_names import ENTRY_NAMESPACE, RESERVED, uid_of_account
from apps.mapping.changes import may_read_rule
from apps.mapping.moves import NOTHING, AffectedUsage, Remembered, is_own, load_affected_usage
from apps.mapping.permissions import MapRights, rights_in
from apps.mapping.rules.placement import decide_accounts
from apps.mapping.rules.resolver import UNMAPPED, Decided
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.rule_set import Rulebook, load_rules, rulebook_of, tier_of
from apps.mapping.states import as_asked, version_of
from apps.mapping.suggestions import Suggester, Suggestion, find_neighbours, groups_of

PAGE = 50
_MOST_GUESSED = 2_000  # accounts among which a reader of a part sees those that may belong there


@dataclass(frozen=True)
class RuleLine:
    """One stored rule in the order in which they are asked, with what it decides now. rule None: not to be read."""

    at: int
    rule: Rule | None
    tier: int
    target: int | None = None  # None: its entry is archived
    n_accounts: int = 0
    core_s: float = 0.0
    may_edit: bool = False
    is_first: bool = False  # of its tier
    is_last: bool = False


@dataclass(frozen=True)
class UnmappedLine:
    """An unmapped account."""

    account: int
    key: AccountKey
    stake: AffectedUsage
    suggestions: Sequence[Suggestion]


@dataclass(frozen=True, eq=False)
class MappingPage:
    """Amounts are of the last days, see affected_usage. `n_hidden`: unmapped accounts that the actor can't see.

    Sums are of the accounts whose names are visible. total_core_s: None unless all of them are.
    """

    rights: MapRights
    version: int
    rules: Sequence[RuleLine]
    unmapped: Sequence[UnmappedLine]
    n_unmapped: int
    n_hidden: int
    unmapped_core_s: float
    total_core_s: float | None
    n_accounts: int
    n_attached: int
    attached_core_s: float
    n_by_members: int  # accounts that rules of entries decide about
    members_core_s: float
    next_after: int | None = None
    is_whole: bool = False  # all of it is read
    may_edit: bool = False
    n_waiting: int = 0  # entries that peers report and that aren't in the tree; for readers of the whole tree
    waiting_core_s: float = 0.0


def get_mapping_page(*, policy_slug: str, after: int = 0, at: datetime, actor: Actor) -> MappingPage:
    """after: how many unmapped accounts to skip."""
    rights = rights_in(policy_slug, at=at, actor=actor)
    rights.require_anywhere()
    stored = as_asked(load_rules(rights.policy))
    book = rulebook_of(rights.policy, rights.tree, stored)
    accounts = Account.objects.exclude(namespace__startswith=RESERVED)  # reported by entry, no rule
    rows = list(accounts.order_by("id").values_list("id", *AccountKey._fields))
    ids, keys = [row[0] for row in rows], [AccountKey(*row[1:]) for row in rows]
    decided = decide_accounts(rights.tree, book.rules, book.known, keys)
    used, mine = load_affected_usage(at=at), set(ids)
    stakes = {account: stake for account, stake in used.items() if account in mine}
    waiting = _waiting(rights, {account: stake for account, stake in used.items() if account not in mine})
    rules, by_members, attached = _rules(rights, stored, book, ids, decided, stakes)
    is_whole = rights.may_name(0)
    free = _unmapped(ids, keys, decided, stakes)
    lines = _guessed(rights, free[:_MOST_GUESSED] if not is_whole else free[after : after + PAGE], keys, decided)
    if not is_whole:
        lines = [line for line in lines if any(rights.may_map(one.entry) for one in line.suggestions)]
    n_read = len(free) if is_whole else len(lines)
    shown = lines if is_whole else lines[after : after + PAGE]
    return MappingPage(
        rights=rights,
        version=version_of(rights.policy),
        rules=rules,
        unmapped=shown,
        n_unmapped=n_read,
        n_hidden=len(free) - n_read,
        unmapped_core_s=sum(stake.core_s for _id, _key, stake in free)
        if is_whole
        else sum(line.stake.core_s for line in lines),
        total_core_s=sum(stake.core_s for stake in stakes.values()) if is_whole else None,
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
    )


def _rules(
    rights: MapRights,
    stored: Sequence[Rule],
    book: Rulebook,
    ids: Sequence[int],
    decided: Sequence[Decided],
    stakes: dict[int, AffectedUsage],
) -> tuple[list[RuleLine], tuple[int, float], tuple[int, float]]:
    counts: Counter[int | None] = Counter()
    used: dict[int | None, float] = {}
    reads = Remembered(rights.may_name)
    is_whole = rights.may_name(0)
    for account, (match, number) in zip(ids, decided, strict=True):
        if match.entry != UNMAPPED and (is_whole or reads[match.entry]):
            counts[number] += 1
            used[number] = used.get(number, 0.0) + stakes.get(account, NOTHING).core_s
    n_exact = sum(tier_of(rule) == 0 for rule in stored)
    n_of_tree = len(book.rules) - len(stored)
    tiers = [tier_of(rule) for rule in stored]
    lines = []
    for at, rule in enumerate(stored):
        number = at if at < n_exact else at + n_of_tree
        edges = at == 0 or tiers[at - 1] != tiers[at], at + 1 == len(tiers) or tiers[at + 1] != tiers[at]
        if may_read_rule(rights, rule):
            target = rights.tree.index_of_uid(rule.target_uid)
            may_edit = rights.may_map(0) or is_own(rights, rule)
            lines.append(RuleLine(at, rule, tiers[at], target, counts[number], used.get(number, 0.0), may_edit, *edges))
        else:
            lines.append(RuleLine(at, None, tiers[at], is_first=edges[0], is_last=edges[1]))
    of_tree = range(n_exact, n_exact + n_of_tree)
    by_members = sum(counts[number] for number in of_tree), sum(used.get(number, 0.0) for number in of_tree)
    return lines, by_members, (counts[None], used.get(None, 0.0))


def _waiting(rights: MapRights, told: dict[int, AffectedUsage]) -> list[float]:
    """Core-seconds of entries that peers report and that aren't in the tree, for readers of the whole tree."""
    if not rights.may_name(0):
        return []
    rows = Account.objects.filter(pk__in=list(told), namespace=ENTRY_NAMESPACE).values_list("pk", "user_name")
    known = {pk: uid_of_account(AccountKey(ENTRY_NAMESPACE, name)) for pk, name in rows}
    absent = [pk for pk, uid in known.items() if uid is None or rights.tree.index_of_uid(uid) is None]
    return [told[pk].core_s for pk in absent]


def _unmapped(
    ids: Sequence[int], keys: Sequence[AccountKey], decided: Sequence[Decided], stakes: dict[int, AffectedUsage]
) -> list[tuple[int, AccountKey, AffectedUsage]]:
    """The most usage first."""
    found = [
        (account, key, stakes.get(account, NOTHING))
        for account, key, (match, _rule) in zip(ids, keys, decided, strict=True)
        if match.entry == UNMAPPED
    ]
    return sorted(found, key=lambda one: (-one[2].core_s, one[1]))


def _guessed(
    rights: MapRights,
    free: Sequence[tuple[int, AccountKey, AffectedUsage]],
    keys: Sequence[AccountKey],
    decided: Sequence[Decided],
) -> list[UnmappedLine]:
    """Only entries that the actor sees are suggested."""
    if not free:
        return []
    wanted = {place for _account, key, _stake in free for place in groups_of(key)}
    entries = (match.entry for match, _rule in decided)
    suggester = Suggester(rights.tree, find_neighbours(rights.tree, keys, entries, wanted))
    return [
        UnmappedLine(account, key, stake, [one for one in suggester.suggest(key) if rights.sees.may_see(one.entry)])
        for account, key, stake in free
    ]
