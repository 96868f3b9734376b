"""The mapping rules read backwards: which entries a name has, and under which names an entry can be asked for. Pure.

A rule leads an account to an entry. Read backwards, a rule and an entry give the account: the names of the entry and of
those above it fill the placeholders, and what the rule demands literally fills the rest. Each account that is made so
is resolved like any other, so the order of the rules holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from apps.accounts.account_ids import AccountKey
from apps.accounts.grid_names import is_dn
from apps.mapping.rules.resolver import NameIndex, Resolver, account_of_entry
from apps.mapping.rules.rule import MOST_PARTS, Rule, entry_name, has_wild, text_of

_FIELD_OF = {"{user}": "user_name", "{group}": "group_name", "{project}": "project"}
_PLACEHOLDER = re.compile(r"\{(?:user|group|project)\}")
_WILDCARD = re.compile(r"\[!?\]?[^\]]*\]|[*?]")
NOBODY = AccountKey("")
_EMPTY = NOBODY._asdict()


class _Backwards(NamedTuple):
    """What one rule demands of an account. examples: of fields that may have many values, one that the rule accepts."""

    rule: Rule
    target: int
    fixed: dict[str, str]
    examples: dict[str, str]


class NamedEntries:
    """The entries of one tree by the names that the rules of one resolver give them."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._tree = resolver.tree
        self._of_accounts: dict[tuple[int, int], list[_Backwards]] = {}

    def of_user(self, asked: AccountKey) -> list[int]:
        """Entries that an account of this user name or DN has, whatever the fields are that `asked` leaves empty.

        An empty namespace counts as one that no rule names.
        """
        user = asked.user_name or asked.dn
        if not user:
            return []
        found: dict[int, None] = {}
        for part in self._user_parts:
            for candidate in self._candidates(part, user):
                if candidate not in found and self._is_named(candidate, part, asked, user):
                    found[candidate] = None
        for backwards in self._by_exact_user.get(user, ()):
            entry = self._resolver.resolve(_filled(asked, {**backwards.examples, **backwards.fixed})).entry
            if entry > 0:
                found[entry] = None
        return list(found)

    def names_of(self, entry: int) -> Iterator[AccountKey]:
        """Accounts that the rules lead to this entry; fields that don't matter are empty.

        Where an entry has no children, a rule that asks for some leads there, too.
        """
        at, n_steps, is_end = entry, 0, not self._tree.n_children[entry]
        while at >= 0:
            for n_parts in range(n_steps, MOST_PARTS + 1 if is_end else n_steps + 1):
                for backwards in self._starting(at, n_parts):
                    key = self._key(backwards, entry, NOBODY, "", n_steps)
                    if key is None or not (key.user_name or key.dn or key.group_name):
                        continue
                    match = self._resolver.resolve(_filled(key, backwards.examples))
                    if match.entry == entry and match.joins is None:
                        yield key
            at, n_steps = int(self._tree.parent[at]), n_steps + 1

    def _is_named(self, candidate: int, part: str, asked: AccountKey, user: str) -> bool:
        """Whether a rule whose last component is `part` leads an account of this user to an entry of that name."""
        at, n_steps = candidate, 0
        while at >= 0:
            for backwards in self._starting(at, n_steps):
                if n_steps and backwards.rule.parts[-1] == part:
                    key = self._key(backwards, candidate, asked, user)
                    if key is not None and self._resolver.resolve(key).entry == candidate:
                        return True
            at, n_steps = int(self._tree.parent[at]), n_steps + 1
        return False

    @cached_property
    def namespaces(self) -> tuple[str, ...]:
        """Those that rules name."""
        named = dict.fromkeys(one.rule.namespace for one in self._rules if one.rule.namespace)
        return tuple(name for name in named if "\0" not in name)

    @cached_property
    def _rules(self) -> list[_Backwards]:
        """Rules for people aside: whose account it is can't be read from names."""
        pairs = zip(self._resolver.spelled_rules, self._resolver.targets, strict=True)
        return [_backwards(rule, target) for rule, target in pairs if target is not None and not rule.people]

    @cached_property
    def _user_parts(self) -> tuple[str, ...]:
        """Last components that have the user's name in them: with any of them an entry is named after its user."""
        return tuple(dict.fromkeys(one.rule.parts[-1] for one in self._rules if _is_after_user(one.rule)))

    @cached_property
    def _by_exact_user(self) -> dict[str, list[_Backwards]]:
        """The others that name a user."""
        found: dict[str, list[_Backwards]] = {}
        for one in self._rules:
            if "user_name" in one.fixed and not _is_after_user(one.rule):
                found.setdefault(one.fixed["user_name"], []).append(one)
        return found

    @cached_property
    def _by_start(self) -> dict[tuple[int, int], list[_Backwards]]:
        """By the entry at which a rule starts and the number of its steps down."""
        found: dict[tuple[int, int], list[_Backwards]] = {}
        for one in self._rules:
            if one.rule.kind != "association":
                found.setdefault((one.target, len(one.rule.parts)), []).append(one)
        return found

    @cached_property
    def _associations(self) -> dict[int, list[_Backwards]]:
        """Rules that start at the entry of any account, by the number of their steps down."""
        found: dict[int, list[_Backwards]] = {}
        for one in self._rules:
            if one.rule.kind == "association":
                found.setdefault(len(one.rule.parts), []).append(one)
        return found

    def _starting(self, entry: int, n_parts: int) -> Sequence[_Backwards]:
        """Rules that go `n_parts` steps down from this entry."""
        here = self._by_start.get((entry, n_parts), [])
        associations = self._associations.get(n_parts)
        if not associations:
            return here
        found = self._of_accounts.get((entry, n_parts))
        if found is None:
            found = [*here, *self._in_account(associations, entry)]
            if found:  # of accounts, which are far fewer than users
                self._of_accounts[entry, n_parts] = found
        return found

    def _in_account(self, associations: Sequence[_Backwards], entry: int) -> Iterator[_Backwards]:
        """The rules for associations as those of the account for which this entry stands."""
        for one in associations:
            account = account_of_entry(self._tree, one.target, entry)
            if account is not None and one.fixed.get("group_name", account) == account:
                yield one._replace(target=entry, fixed={**one.fixed, "group_name": account})

    @cached_property
    def _names(self) -> NameIndex:
        return NameIndex(self._tree.name)

    def _candidates(self, part: str, user: str) -> list[int]:
        wanted = part.replace("{user}", user) if part.count("{") == 1 else user
        return [at for name in dict.fromkeys((wanted, entry_name(wanted))) for at in self._names.find(name)]

    def _key(
        self, backwards: _Backwards, entry: int, asked: AccountKey, user: str, n_steps: int | None = None
    ) -> AccountKey | None:
        """The account that the rule leads to this entry and that agrees with `asked`; None when there is none.

        n_steps: of the rule's steps down so many are gone; None for all.
        """
        fields = {**backwards.fixed, **_said(asked)}
        if user:
            fields["user_name"] = user
        at = entry
        for part in reversed(backwards.rule.parts[:n_steps]):
            if at <= backwards.target or not _fill_from_name(fields, part, self._tree.name[at]):
                return None
            at = int(self._tree.parent[at])
        if at != backwards.target:
            return None
        if user:
            return AccountKey(**{**_EMPTY, **backwards.examples, **fields})
        if is_dn(fields.get("user_name", "")):
            fields["dn"] = fields.pop("user_name")
        return NOBODY._replace(**fields)


@lru_cache(maxsize=8)
def _said(asked: AccountKey) -> dict[str, str]:
    """The fields that aren't empty; remembered, because one account is asked for of one rule after the other."""
    return {name: text for name, text in zip(AccountKey._fields, asked, strict=True) if text}


def _is_after_user(rule: Rule) -> bool:
    return bool(rule.parts) and "{user}" in rule.parts[-1]


def _backwards(rule: Rule, target: int) -> _Backwards:
    fixed, examples = {}, {}
    if rule.namespace:
        fixed["namespace"] = rule.namespace
    patterns = {"user_name": rule.user_pattern, "group_name": rule.group_pattern, "fqan": rule.fqan_pattern}
    for name, pattern in patterns.items():
        if pattern and (rule.kind == "exact" or not has_wild(pattern)):
            fixed[name] = pattern
        elif pattern and name != "user_name":
            examples[name] = _WILDCARD.sub(_example, pattern)
    return _Backwards(rule, target, fixed, examples)


def _example(wildcard: re.Match[str]) -> str:
    """A text that the pattern matches; a set of characters by its first one, which is right for `[[]`, too."""
    text = wildcard[0]
    return text[1] if text.startswith("[") and not text.startswith("[!") else "x"


def _filled(asked: AccountKey, fields: dict[str, str]) -> AccountKey:
    """`asked` with the fields that it leaves empty."""
    changed = {}
    for name, text in fields.items():
        said = getattr(asked, name)
        if not said and not (name == "user_name" and asked.dn):
            changed[name] = text
    return asked._replace(**changed) if changed else asked


def _fill_from_name(fields: dict[str, str], part: str, name: str) -> bool:
    """Read a component of a suffix beside the entry's name: what it says of the account; false when it can't be."""
    field = _FIELD_OF.get(part)
    if field is not None:  # the usual case, quickly
        known = fields.get(field)
        if known:
            return name == known or name == entry_name(known)
        fields[field] = text_of(name)
        return True
    missing = [one for one in _PLACEHOLDER.findall(part) if not fields.get(_FIELD_OF[one])]
    if not missing:
        wanted = _PLACEHOLDER.sub(lambda one: fields[_FIELD_OF[one[0]]], part)
        return name == wanted or name == entry_name(wanted)
    if len(missing) > 1:
        return False
    before, after = (
        _PLACEHOLDER.sub(lambda one: fields[_FIELD_OF[one[0]]], text) for text in part.split(missing[0], 1)
    )
    text = text_of(name)
    if len(text) < len(before) + len(after) or not (text.startswith(before) and text.endswith(after)):
        return False
    fields[_FIELD_OF[missing[0]]] = text[len(before) : len(text) - len(after)]
    return True
