"""Rules by what they match, so that few are tried for an account."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from apps.accounts.account_keys import AccountKey
from apps.mapping.rules.rule import Person, Rule, has_wildcard

_ANY = re.compile(r"[*?]")
_ANY_OR_SET = re.compile(r"[*?\[]")
# (field, kind of match: is, begins or ends, text)
_Place = tuple[str, str, str]


class RuleIndex:
    """Index of rules by one property that all their accounts have: the value, prefix or suffix of a field.

    An account is looked up by its own fields, and their prefixes and suffixes of the lengths in use.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._always: list[int] = []
        self._by: dict[_Place, list[int]] = {}
        for number, rule in enumerate(rules):
            place = _index_key(rule)
            if place is None:
                self._always.append(number)
            else:
                self._by.setdefault(place, []).append(number)
        self._lengths: dict[tuple[str, str], list[int]] = {}
        for field, how, text in self._by:
            if how != "is":
                self._lengths.setdefault((field, how), []).append(len(text))
        self._lengths = {field: sorted(set(lengths)) for field, lengths in self._lengths.items()}
        self.is_by_user = any(field in ("user", "people") for field, _how, _text in self._by)

    def numbers(self, key: AccountKey, person: Person | None) -> Sequence[int]:
        """Return the indices of rules that may match the account, in the order of the rules."""
        of_user = self.of_user(key, person)
        return sorted({*self.of_other_names(key), *of_user}) if of_user else self.of_other_names(key)

    def of_other_names(self, key: AccountKey) -> Sequence[int]:
        """Return those that are not indexed by user and owner, in the order of the rules."""
        if not self._by:
            return self._always
        places = (*self._places("group", key.group_name), *self._places("fqan", key.fqan))
        numbers = self._at((*places, ("namespace", "is", key.namespace)))
        return sorted([*self._always, *numbers]) if numbers else self._always

    def of_user(self, key: AccountKey, person: Person | None) -> set[int]:
        """Return those that are indexed by user and owner."""
        if not self.is_by_user:
            return set()
        places = (*self._places("user", key.user_name), *self._places("user", key.dn))
        groups = () if person is None else person.groups
        return self._at((*places, *(("people", "is", group) for group in groups)))

    def of_user_name(self, user: str) -> set[int]:
        """Return those that are indexed by this user name."""
        return self._at(self._places("user", user)) if self.is_by_user else set()

    def _at(self, places: Iterable[_Place]) -> set[int]:
        return {number for place in places for number in self._by.get(place, ())}

    def _places(self, field: str, text: str) -> Iterator[_Place]:
        if text:
            yield field, "is", text
            for length in self._lengths.get((field, "begins"), ()):
                yield field, "begins", text[:length]
            for length in self._lengths.get((field, "ends"), ()):
                yield field, "ends", text[-length:]


def _index_key(rule: Rule) -> _Place | None:
    """Return the rule's index key, or None if no property is certain."""
    if rule.kind == "default":  # ignores its patterns
        return ("namespace", "is", rule.namespace) if rule.namespace else None
    patterns = (("user", rule.user_pattern), ("group", rule.group_pattern))
    for field, pattern in patterns:
        if pattern and (rule.kind == "exact" or not has_wildcard(pattern)):
            return field, "is", pattern
    if rule.people and not has_wildcard(rule.people):  # a pattern in rules of every kind
        return "people", "is", rule.people
    for field, pattern in (*patterns, ("fqan", rule.fqan_pattern)):
        begins, ends = _fixed_affixes(pattern)
        if begins:
            return field, "begins", begins
        if ends and field != "fqan":  # an FQAN pattern also matches longer FQANs
            return field, "ends", ends
    return ("namespace", "is", rule.namespace) if rule.namespace else None


def _fixed_affixes(pattern: str) -> tuple[str, str]:
    """Return the prefix and suffix that every text matching a glob has."""
    begins, ends = _ANY_OR_SET.split(pattern, maxsplit=1)[0], _ANY.split(pattern)[-1]
    return begins, "" if "[" in pattern else ends
