"""The mapping as one actor may read it: rules with their current matches, unmapped accounts, and suggested entries."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from apps.accounts.account_ids import ENTRY_NAMESPACE, RESERVED, AccountKey, uid_of_account
from apps.accounts.actor import Actor
from apps.accounts.grid_names import common_name, group_of_fqan, is_dn
from apps.accounts.models import Account
from apps.mapping.changes import may_read_rule
from apps.mapping.moves import NOTHING, AffectedUsage, RightsCache, is_own, load_affected_usage
from apps.mapping.permissions import MapRights, rights_in
from apps.mapping.rules.problems import RuleProblem, problems_of
from apps.mapping.rules.resolver import UNMAPPED, Decided, NameIndex, decide_accounts
from apps.mapping.rules.rule import Rule, text_of
from apps.mapping.rules.rule_set import RuleSet, build_rule_set, load_rules, numbers_of, tier_of
from apps.mapping.versions import sort_by_tier, version_of
from apps.policies.tree.columns import TreeColumns
from apps.usage.models import Source

# --- Suggestions ------------------------------------------------------------------------------------------------------
MOST = 3
_FEWEST_NEIGHBOURS = 2
_SURE_ENOUGH = 0.5  # minimum fraction of the neighbours at the suggested entry

# Confidence of a suggestion by its only reason.
SURE = {
    "same_name": 0.90,
    "same_name_folded": 0.84,
    "without_realm": 0.78,
    "common_name": 0.74,
    "initial_and_surname": 0.60,
    "group_name": 0.85,
    "group_name_folded": 0.80,
    "fqan_group": 0.80,
    "fqan_vo": 0.62,
    "project_name": 0.70,
}
_IN_ITS_GROUP = 0.7  # reduction of the doubt if an ancestor has the name of the account's group
_AMONG_SEVERAL = 0.5  # factor of the confidence if several entries have the name


@dataclass(frozen=True)
class Suggestion:
    """A suggested entry, the reason, and the confidence from 0 to 1. n of n_of: neighbours mapped there."""

    entry: int
    why: str
    sure: float
    n: int = 0
    n_of: int = 0


@dataclass(frozen=True, eq=False)
class Suggester:
    """Suggests entries of one tree. neighbours: by group, the entries of its mapped accounts."""

    tree: TreeColumns
    neighbours: Mapping[tuple[str, ...], Counter[int]]

    def suggest(self, key: AccountKey) -> list[Suggestion]:
        """Return suggestions with the highest confidence first, at most one per entry."""
        best: dict[int, Suggestion] = {}
        for one in (*self._by_person(key), *self._by_group(key), *self._by_neighbours(key)):
            if one.entry not in best or one.sure > best[one.entry].sure:
                best[one.entry] = one
        order = sorted(
            best.values(), key=lambda one: (-round(one.sure, 6), -int(self.tree.level[one.entry]), one.entry)
        )
        return order[:MOST]

    def _by_person(self, key: AccountKey) -> Iterator[Suggestion]:
        groups = {normalise_name(text) for text in _groups_of(key)}
        for text, why in _persons_of(key):
            yield from self._named(text, why, groups)

    def _by_group(self, key: AccountKey) -> Iterator[Suggestion]:
        whole = group_of_fqan(key.fqan).strip("/").split("/") if key.fqan else []
        for text, why in (
            (key.group_name, "group_name"),
            (whole[-1] if whole else "", "fqan_group"),
            (whole[0] if len(whole) > 1 else "", "fqan_vo"),
            (key.project, "project_name"),
        ):
            if text:
                yield from self._named(text, why, {normalise_name(text) for text in whole[:-1]})

    def _named(self, text: str, why: str, groups: set[str]) -> Iterator[Suggestion]:
        found = self._names.find(normalise_name(text))
        found = [at for at in found if at > 0 and not self.tree.is_reserve[at]]
        steps = {entry: self._steps_up(entry, groups) for entry in found[:20]}
        nearest = min((n for n in steps.values() if n), default=0)
        for entry in found[:20]:
            is_same = text_of(self.tree.name[entry]) == text
            base = SURE[why] if is_same or f"{why}_folded" not in SURE else SURE[f"{why}_folded"]
            reason = why if is_same or f"{why}_folded" not in SURE else f"{why}_folded"
            if (
                nearest and steps[entry] == nearest
            ):  # a user of hep and hep/atlas has an entry in each: prefer the nearest
                sure = base + (1 - base) * _IN_ITS_GROUP
            else:
                sure = base if len(found) == 1 else base * _AMONG_SEVERAL
            yield Suggestion(entry, reason, sure)

    def _steps_up(self, entry: int, groups: set[str]) -> int:
        """Return the number of levels up to the nearest ancestor named like a group, 0 if there is none."""
        above = reversed(self.tree.ancestors(entry)[1:])
        return next((n for n, at in enumerate(above, 1) if normalise_name(text_of(self.tree.name[at])) in groups), 0)

    def _by_neighbours(self, key: AccountKey) -> Iterator[Suggestion]:
        for place in groups_of(key):
            there = self.neighbours.get(place)
            if not there or there.total() < _FEWEST_NEIGHBOURS:
                continue
            entry, n = there.most_common(1)[0]
            part = n / there.total()
            if entry > 0 and part >= _SURE_ENOUGH:
                yield Suggestion(entry, "neighbours", 0.5 + 0.45 * part * (1 - 1 / (n + 1)), n, there.total())

    @cached_property
    def _names(self) -> NameIndex:
        return NameIndex([normalise_name(text_of(name)) for name in self.tree.name])


def groups_of(key: AccountKey) -> list[tuple[str, ...]]:
    """Return the groups of an account: of its source, and of its FQAN in any source."""
    found: list[tuple[str, ...]] = []
    if key.group_name:
        found.append(("group", key.namespace, key.group_name))
    if key.fqan:
        found.append(("fqan", group_of_fqan(key.fqan)))
    return found


def find_neighbours(
    tree: TreeColumns, keys: Sequence[AccountKey], entries: Iterable[int], wanted: set[tuple[str, ...]]
) -> dict[tuple[str, ...], Counter[int]]:
    """Return by group the number of its accounts per entry; a member's account counts for its parent."""
    found: dict[tuple[str, ...], Counter[int]] = {}
    for key, entry in zip(keys, entries, strict=True):
        if entry == UNMAPPED:
            continue
        for place in groups_of(key):
            if place in wanted:
                is_member = not tree.n_children[entry] and not tree.is_group[entry]
                above = int(tree.parent[entry]) if is_member else entry
                found.setdefault(place, Counter())[above if above > 0 else entry] += 1
    return found


def normalise_name(text: str) -> str:
    """Remove case, diacritics and separators, so that `Åsa.Ek` and `asa-ek` become equal."""
    if text.isascii():
        return text.lower() if text.isalnum() else "".join(filter(str.isalnum, text)).lower()
    plain = unicodedata.normalize("NFKD", text.replace("ø", "o").replace("Ø", "O").replace("ł", "l").replace("Ł", "L"))
    return "".join(one for one in plain if one.isalnum()).casefold()


def _persons_of(key: AccountKey) -> Iterator[tuple[str, str]]:
    """Yield possible names of the account's user, with the reason."""
    dn = key.dn or (key.user_name if is_dn(key.user_name) else "")
    if key.user_name and key.user_name != dn:
        yield key.user_name, "same_name"
        user, at, _realm = key.user_name.partition("@")
        if at and user:
            yield user, "without_realm"
    name = common_name(dn) if dn else ""
    words = [word for word in name.replace(".", " ").split() if not word.isdigit()]
    if words:
        yield "".join(words), "common_name"
        user, at, _realm = name.partition("@")
        if at and user:
            yield user, "common_name"
    if len(words) > 1:
        yield words[0][0] + words[-1], "initial_and_surname"


def _groups_of(key: AccountKey) -> list[str]:
    whole = group_of_fqan(key.fqan).strip("/").split("/") if key.fqan else []
    return [text for text in (key.group_name, key.project, *whole) if text]


# --- Rules and unmapped accounts --------------------------------------------------------------------------------------
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
    used, mine = load_affected_usage(at=at), set(ids)
    stakes = {account: usage for account, usage in used.items() if account in mine}
    waiting = _waiting(rights, {account: usage for account, usage in used.items() if account not in mine})
    rules, by_members, attached = _rules(rights, stored, rule_set, ids, decided, stakes)
    rules = _with_problems(rights, stored, rule_set, rules, {key.namespace for key in keys})
    is_whole = rights.may_name(0)
    free = _unmapped(ids, keys, decided, stakes)
    lines = _with_suggestions(
        rights, free[:_MOST_GUESSED] if not is_whole else free[after : after + PAGE], keys, decided
    )
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
    at_groups.sort(key=lambda one: (-stakes[one[0]].core_s, one[1]))
    found = []
    for account, key, entry in at_groups[:_MOST_GUESSED]:
        likely = resolver.likely_entry(key) if rights.may_name(entry) else None
        if likely is not None and rights.sees.may_see(likely):
            found.append(OtherCaseRow(account, key, stakes[account], entry, likely))
    return found[:PAGE]


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
    found = []
    for line, number in zip(lines, numbers_of(stored, rule_set.rules), strict=True):
        problems = [] if line.rule is None else problems_of(resolver, number, known)
        readable = [one for one in problems if all(map(rights.may_name, one.entries))]
        found.append(replace(line, problems=readable))
    return found


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
    found = [
        (account, key, stakes.get(account, NOTHING))
        for account, key, (match, _rule) in zip(ids, keys, decided, strict=True)
        if match.entry == UNMAPPED
    ]
    return sorted(found, key=lambda one: (-one[2].core_s, one[1]))


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
        UnmappedRow(account, key, usage, [one for one in suggester.suggest(key) if rights.sees.may_see(one.entry)])
        for account, key, usage in free
    ]
