"""The inverse of mapping rules: entries named after a user, and names by which an entry can be looked up. Pure.

A rule maps an account to an entry. Its inverse makes accounts from an entry: names of the entry and its ancestors fill
the placeholders, and literal conditions of the rule fill the other fields. Each account made in this way is resolved by
all rules, so that their order is respected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apps.accounts.account_keys import AccountKey
from apps.accounts.grid_names import is_dn
from apps.mapping.rules.entry_names import entry_name, text_of
from apps.mapping.rules.placement import is_by_user_name
from apps.mapping.rules.resolver import Resolver
from apps.mapping.rules.rule import MOST_SUFFIX_PARTS, Rule, has_wildcard
from apps.mapping.rules.share_tree import DEFAULT_LEAF
from apps.mapping.rules.slurm_accounts import account_of_entry
from apps.policies.tree.slurm_associations import SEPARATOR, split_association

I4 = npt.NDArray[np.int32]
_FIELD_OF = {"{user}": "user_name", "{group}": "group_name", "{project}": "project"}
_PLACEHOLDER = re.compile(r"\{(?:user|group|project)\}")
_WILDCARD = re.compile(r"\[!?\]?[^\]]*\]|[*?]")
NO_ACCOUNT = AccountKey("")
_EMPTY = NO_ACCOUNT._asdict()


class _InverseRule(NamedTuple):
    """Conditions of one rule on an account. examples: for fields that match a pattern, one value that matches."""

    rule: Rule
    target: int
    fixed: dict[str, str]
    examples: dict[str, str]


class SiblingShapes(NamedTuple):
    """What rules make of leaves of one group.

    keys: accounts without their user's name, which is the leaf's, and whether look-ups of them lead to the leaf, unless
    they are of known accounts; None if that may depend on the name. mentioned: names with other keys.
    """

    keys: tuple[tuple[AccountKey, bool | None], ...]
    mentioned: frozenset[str]


class NamedEntries:
    """Entries of one tree by the names that rules give them."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._tree = resolver.tree
        self._of_accounts: dict[tuple[int, int], list[_InverseRule]] = {}

    def of_user(self, query: AccountKey) -> list[int]:
        """Entries of accounts with this user name or DN, for any value of the fields that the query leaves empty.

        An empty namespace is one that no rule names.
        """
        user = query.user_name or query.dn
        if not user:
            return []
        entries: dict[int, None] = {}
        stored = self._resolver.stored_name(user) if self._associations else user
        for candidate in self._of_partitions.get(stored, ()) if self._associations else ():
            if self._is_named(candidate, "{user}", query, stored, user):
                entries[candidate] = None
        for name in dict.fromkeys((user, stored)):
            for part in self._user_parts:
                for candidate in self._candidates(part, name):
                    if candidate not in entries and self._is_named(candidate, part, query, name, user):
                        entries[candidate] = None
        for inverse in self._by_exact_user.get(user, ()):
            entry = self._resolver.resolve(_fill_empty(query, {**inverse.examples, **inverse.fixed})).entry
            if entry > 0:
                entries[entry] = None
        if self._share_trees:
            for candidate in self._candidates("{user}", user):
                if any(self._is_node(inverse, candidate, query) for inverse in self._share_trees):
                    entries[candidate] = None
        return list(entries)

    @property
    def has_associations(self) -> bool:
        """Whether some rule maps Slurm's accounts."""
        return bool(self._associations)

    @cached_property
    def _of_partitions(self) -> Mapping[str, Sequence[int]]:
        """Entries of Slurm's associations that aren't named as their user alone: those of one partition, and those
        beside an account of the user's name.
        """
        entries: dict[str, list[int]] = {}
        for i, name in enumerate(self._tree.name):
            if SEPARATOR in name and (association := split_association(text_of(name))).user != text_of(name):
                entries.setdefault(association.user, []).append(i)
        return entries

    def partitions_of(self, user: str) -> Sequence[str]:
        """Partitions in which a user has entries of their own."""
        if not self._associations:
            return ()
        entries = self._of_partitions.get(self._resolver.stored_name(user), ())
        partitions = (split_association(text_of(self._tree.name[i])).partition for i in entries)
        return [partition for partition in partitions if partition]

    def outside_partitions(self, entries: Sequence[int]) -> Sequence[int]:
        """Entries for a query that names a partition for which the user has none."""
        if not self._associations:
            return entries
        return [i for i in entries if not split_association(text_of(self._tree.name[i])).partition]

    def without_partitions(self, entries: Sequence[int]) -> Sequence[int]:
        """Entries for a query that names no partition: of a user with several in an account, the one for all
        partitions; a group only if none of the user's is in it.
        """
        if not self._associations or len(entries) < 2:
            return entries
        tree = self._tree
        limited = {i: split_association(text_of(tree.name[i])) for i in entries}
        users = {(int(tree.parent[i]), limited[i].user) for i in entries if not limited[i].partition}
        accounts = {int(tree.parent[i]) for i in entries if limited[i].partition}
        return [
            i
            for i in entries
            if i not in accounts and not (limited[i].partition and (int(tree.parent[i]), limited[i].user) in users)
        ]

    def _is_node(self, inverse: _InverseRule, node: int, query: AccountKey) -> bool:
        """Whether a share tree maps the user in the query to this node, in its project if the query names none."""
        project = self._resolver.share_tree(inverse.target).project_of(node)
        fields = {**inverse.examples, **inverse.fixed, "project": project}
        return self._resolver.resolve(_fill_empty(query, fields)).entry == node

    def names_of(self, entry: int, is_known: Callable[[AccountKey], bool]) -> Iterator[AccountKey]:
        """Accounts that rules map to this entry; fields that make no difference are empty. Known ones are left out.

        Accounts of a rule with a longer suffix are mapped to an entry without children, too.
        """
        for inverse in self._share_trees if not self._tree.n_children[entry] else ():
            name = text_of(self._tree.name[entry])
            if name != DEFAULT_LEAF and self._is_node(inverse, entry, AccountKey("", name)):
                project = self._resolver.share_tree(inverse.target).project_of(entry)
                user = AccountKey(inverse.fixed.get("namespace", ""), name, project=project)
                if not is_known(user):
                    yield user
        at, n_steps, is_end = entry, 0, not self._tree.n_children[entry]
        while at >= 0:
            for n_parts in range(n_steps, MOST_SUFFIX_PARTS + 1 if is_end else n_steps + 1):
                for inverse in self._starting(at, n_parts):
                    key = self._key(inverse, entry, NO_ACCOUNT, "", n_steps)
                    if key is None or not (key.user_name or key.dn or key.group_name) or is_known(key):
                        continue
                    match = self._resolver.resolve(_fill_empty(key, inverse.examples))
                    if match.entry == entry and match.joins is None:
                        yield key
            at, n_steps = int(self._tree.parent[at]), n_steps + 1

    def shapes_of(self, entry: int) -> SiblingShapes | None:
        """Accounts that `names_of` considers for a leaf with a usual name, as for each of its siblings.

        None if rules take another field than the user's name from the leaf's, or may start at the leaf.
        """
        if self._share_trees or (self._associations and self._tree.takes_members[entry]):
            return None
        keys: list[tuple[AccountKey, bool | None]] = []
        mentioned: set[str] = set()
        parent = int(self._tree.parent[entry])
        at, n_steps = parent, 1
        while at >= 0:
            for n_parts in range(n_steps, MOST_SUFFIX_PARTS + 1):
                for inverse in self._starting(at, n_parts):
                    *above, last = inverse.rule.parts[:n_steps]
                    only = inverse.fixed.get("user_name", "") if last == "{user}" else "" if "{" in last else last
                    if only:
                        mentioned |= {only, entry_name(only)}
                    elif last != "{user}" or any("{user}" in part for part in above):
                        return None
                    elif (key := self._key(inverse, entry, NO_ACCOUNT, "", n_steps)) is not None:
                        is_whole = n_parts == n_steps and (key.namespace or not self.namespaces)
                        leads = self._leads_any_user(_fill_empty(key, inverse.examples), parent) if is_whole else None
                        keys.append((key._replace(user_name=""), leads))
            at, n_steps = int(self._tree.parent[at]), n_steps + 1
        return SiblingShapes(tuple(keys), frozenset(mentioned))

    def _leads_any_user(self, key: AccountKey, parent: int) -> bool | None:
        """Whether rules lead the user of this account, and any other in its place, to the parent's child of that name.

        None if that depends on the user.
        """
        if not self._ask_no_user:
            return None
        step = next((step for step in self._resolver.steps(key, None) if step.start is not None), None)
        if step is None or step.start is None:
            return False
        if step.rule.parts[-1:] != ("{user}",):
            return None
        before = step.rule.names_below(key, None)[:-1]
        at, n_steps = self._resolver.walk(step.start, before)
        if n_steps < len(before):
            return None
        return at == parent if at or not parent else None

    def _is_named(self, candidate: int, part: str, query: AccountKey, name: str, user: str) -> bool:
        """Whether a rule with the last component `part` maps an account of this user to the candidate.

        name: the user's, as the candidate has it.
        """
        keys = self._keys_of(candidate, part, query, name, user)
        return any(self._resolver.resolve(key).entry == candidate for key in keys)

    def _keys_of(self, candidate: int, part: str, query: AccountKey, name: str, user: str) -> Iterator[AccountKey]:
        """Accounts of the user for which a rule with the last component `part` may lead to the candidate."""
        at, n_steps = candidate, 0
        while at >= 0:
            for inverse in self._starting(at, n_steps):
                if n_steps and inverse.rule.parts[-1] == part:
                    key = self._key(inverse, candidate, query, name)
                    if key is not None:
                        yield key if name == user else key._replace(user_name=user)
            at, n_steps = int(self._tree.parent[at]), n_steps + 1

    @cached_property
    def namespaces(self) -> tuple[str, ...]:
        """Namespaces that rules name."""
        named = dict.fromkeys(inverse.rule.namespace for inverse in self._rules if inverse.rule.namespace)
        return tuple(name for name in named if "\0" not in name)

    @cached_property
    def _rules(self) -> list[_InverseRule]:
        """Inverted rules, without rules for people: the owner of an account can't be derived from names."""
        pairs = zip(self._resolver.spelled_rules, self._resolver.targets, strict=True)
        return [_invert(rule, target) for rule, target in pairs if target is not None and not rule.people]

    @cached_property
    def _user_parts(self) -> tuple[str, ...]:
        """Last components with {user}: entries are named after their user."""
        return tuple(dict.fromkeys(inverse.rule.parts[-1] for inverse in self._rules if _is_after_user(inverse.rule)))

    @cached_property
    def _by_exact_user(self) -> dict[str, list[_InverseRule]]:
        """Rules with a literal user name, whose entries aren't named after the user."""
        rules: dict[str, list[_InverseRule]] = {}
        for inverse in self._rules:
            if "user_name" in inverse.fixed and not _is_after_user(inverse.rule):
                rules.setdefault(inverse.fixed["user_name"], []).append(inverse)
        return rules

    @cached_property
    def has_plain_rules(self) -> bool:
        """Whether an entry is named after a user only by having the user's name unchanged."""
        return set(self._user_parts) <= {"{user}"} and not self._by_exact_user and not self._associations

    @cached_property
    def starts(self) -> I4:
        """Entries at which names of rules start."""
        return np.array(sorted({inverse.target for inverse in self._rules}), np.int32)

    @cached_property
    def _are_alike(self) -> bool:
        """Whether no rule asks anything of the user, nor maps Slurm's accounts."""
        return self.has_plain_rules and self._ask_no_user

    @cached_property
    def _ask_no_user(self) -> bool:
        """Whether no rule asks anything of the user, nor takes accounts in a part of the tree only."""
        return all(is_by_user_name(rule) and rule.reach_uid is None for rule in self._resolver.spelled_rules)

    def are_named_after_users(self, entries: I4) -> npt.NDArray[np.bool_]:
        """For each entry: whether `of_user` has it for its name, if no other entry has the name.

        False also where that isn't known without looking at each rule. The names are usual ones: see `entry_name`.
        """
        parents = self._tree.parent[entries]
        if not self._are_alike:
            return np.zeros(len(entries), np.bool_)
        may_be_named = ~self._tree.is_reserve[entries] & (parents >= 0)
        new = may_be_named & (self._takes_users[parents] < 0)
        for parent, entry in zip(parents[new].tolist(), entries[new].tolist(), strict=True):
            if self._takes_users[parent] < 0:
                self._takes_users[parent] = self._leads_users(parent, entry)
        takes_users: npt.NDArray[np.bool_] = may_be_named & (self._takes_users[parents] > 0)
        return takes_users

    @cached_property
    def _takes_users(self) -> npt.NDArray[np.int8]:
        """`_leads_users` of each group, −1 where nobody has asked yet."""
        return np.full(len(self._tree), -1, np.int8)

    def _leads_users(self, parent: int, entry: int) -> bool:
        """Whether rules lead users to the children of this entry by their names alone. entry: one of them, no reserve.

        Rules before the one that decides then lead no user anywhere: at the end of a rule is the user's name, and no
        other entry has it.
        """
        user = self._tree.name[entry]
        keys = self._keys_of(entry, "{user}", AccountKey("", user), user, user)
        return any(self._leads_by_name(key, parent, entry) for key in keys)

    def _leads_by_name(self, key: AccountKey, parent: int, entry: int) -> bool:
        """Whether the rule that decides leads to the parent for any user, and to the entry by the user's name."""
        match, number = self._resolver.decide(key)
        target = None if number is None else self._resolver.targets[number]
        if match.entry != entry or number is None or target is None:
            return False
        rule = self._resolver.spelled_rules[number]
        *before, _user = rule.names_below(key, None) or [""]
        return rule.parts[-1:] == ("{user}",) and self._resolver.walk(target, before) == (parent, len(before))

    @cached_property
    def _by_start(self) -> dict[tuple[int, int], list[_InverseRule]]:
        """Rules by their target entry and the number of components in the suffix."""
        rules: dict[tuple[int, int], list[_InverseRule]] = {}
        for inverse in self._rules:
            if inverse.rule.kind not in ("association", "share_tree"):
                rules.setdefault((inverse.target, len(inverse.rule.parts)), []).append(inverse)
        return rules

    @cached_property
    def _associations(self) -> dict[int, list[_InverseRule]]:
        """Association rules, which start at the entry of any Slurm account, by the number of components."""
        rules: dict[int, list[_InverseRule]] = {}
        for inverse in self._rules:
            if inverse.rule.kind == "association":
                rules.setdefault(len(inverse.rule.parts), []).append(inverse)
        return rules

    @cached_property
    def _share_trees(self) -> list[_InverseRule]:
        return [inverse for inverse in self._rules if inverse.rule.kind == "share_tree"]

    def _starting(self, entry: int, n_parts: int) -> Sequence[_InverseRule]:
        """Rules with `n_parts` components that start at this entry."""
        here = self._by_start.get((entry, n_parts), [])
        associations = self._associations.get(n_parts)
        if not associations:
            return here
        rules = self._of_accounts.get((entry, n_parts))
        if rules is None:
            rules = [*here, *self._in_account(associations, entry)]
            if rules:  # cached only for accounts, which are much fewer than users
                self._of_accounts[entry, n_parts] = rules
        return rules

    def _in_account(self, associations: Sequence[_InverseRule], entry: int) -> Iterator[_InverseRule]:
        """Association rules applied to the Slurm account that this entry represents."""
        for inverse in associations:
            account = account_of_entry(self._tree, inverse.target, entry)
            if account is not None and inverse.fixed.get("group_name", account) == account:
                yield inverse._replace(target=entry, fixed={**inverse.fixed, "group_name": account})

    def _candidates(self, part: str, user: str) -> list[int]:
        wanted = part.replace("{user}", user) if part.count("{") == 1 else user
        return [at for name in dict.fromkeys((wanted, entry_name(wanted))) for at in self._tree.name_index.find(name)]

    def _key(
        self, inverse: _InverseRule, entry: int, query: AccountKey, user: str, n_steps: int | None = None
    ) -> AccountKey | None:
        """The account that the rule maps to this entry and that matches the query; None if there is none.

        n_steps: number of the rule's components that are used; None for all.
        """
        fields = {**inverse.fixed, **_given_fields(query)}
        if user:
            fields["user_name"] = user
        at = entry
        for part in reversed(inverse.rule.parts[:n_steps]):
            name = self._tree.name[at]
            if at == entry and part == "{user}" and inverse.rule.kind == "association":
                name, partition = split_association(text_of(name))
                if partition and fields.setdefault("project", partition).lower() != partition:
                    return None
                name = entry_name(name)
            if at <= inverse.target or not _fill_from_name(fields, part, name):
                return None
            at = int(self._tree.parent[at])
        if at != inverse.target:
            return None
        if user:
            return AccountKey(**{**_EMPTY, **inverse.examples, **fields})
        if is_dn(fields.get("user_name", "")):
            fields["dn"] = fields.pop("user_name")
        return NO_ACCOUNT._replace(**fields)


@lru_cache(maxsize=8)
def _given_fields(query: AccountKey) -> dict[str, str]:
    """Non-empty fields; cached, because the same account is tested against many rules."""
    return {name: text for name, text in zip(AccountKey._fields, query, strict=True) if text}


def _is_after_user(rule: Rule) -> bool:
    return bool(rule.parts) and "{user}" in rule.parts[-1]


def _invert(rule: Rule, target: int) -> _InverseRule:
    fixed, examples = {}, {}
    if rule.namespace:
        fixed["namespace"] = rule.namespace
    patterns = {"user_name": rule.user_pattern, "group_name": rule.group_pattern, "fqan": rule.fqan_pattern}
    for name, pattern in patterns.items():
        if pattern and (rule.kind == "exact" or not has_wildcard(pattern)):
            fixed[name] = pattern
        elif pattern and name != "user_name":
            examples[name] = _WILDCARD.sub(_example, pattern)
    return _InverseRule(rule, target, fixed, examples)


def _example(wildcard: re.Match[str]) -> str:
    """A text that the wildcard matches: for a set its first character, which is also right for `[[]`."""
    text = wildcard[0]
    return text[1] if text.startswith("[") and not text.startswith("[!") else "x"


def _fill_empty(query: AccountKey, fields: dict[str, str]) -> AccountKey:
    """The query with its empty fields filled in."""
    changed = {}
    for name, text in fields.items():
        value = getattr(query, name)
        if not value and not (name == "user_name" and query.dn):
            changed[name] = text
    return query._replace(**changed) if changed else query


def _fill_from_name(fields: dict[str, str], part: str, name: str) -> bool:
    """Match a component of a suffix with an entry's name and add the account fields; false if it doesn't match."""
    field = _FIELD_OF.get(part)
    if field is not None:  # fast path for the usual case
        known = fields.get(field)
        if known:
            return name == known or name == entry_name(known)
        fields[field] = text_of(name)
        return True
    missing = [placeholder for placeholder in _PLACEHOLDER.findall(part) if not fields.get(_FIELD_OF[placeholder])]
    if not missing:
        wanted = _PLACEHOLDER.sub(lambda placeholder: fields[_FIELD_OF[placeholder[0]]], part)
        return name == wanted or name == entry_name(wanted)
    if len(missing) > 1:
        return False
    before, after = (
        _PLACEHOLDER.sub(lambda placeholder: fields[_FIELD_OF[placeholder[0]]], text)
        for text in part.split(missing[0], 1)
    )
    text = text_of(name)
    if len(text) < len(before) + len(after) or not (text.startswith(before) and text.endswith(after)):
        return False
    field, value = _FIELD_OF[missing[0]], text[len(before) : len(text) - len(after)]
    fields[field] = value
    return bool(value) or field != "user_name"  # every account has a user name, not every one a group
