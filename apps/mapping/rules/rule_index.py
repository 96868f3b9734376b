"""Rules by what they match, so that few are tried for an account."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from apps.accounts.account_ids import AccountKey
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

    def numbers(self, key: AccountKey, person: Person | None) -> Sequence[int]:
        """Return the indices of rules that may match the account, in the order of the rules."""
        if not self._by:
            return self._always
        numbers = {number for place in self._candidates(key, person) for number in self._by.get(place, ())}
        return sorted([*self._always, *numbers]) if numbers else self._always

    def _candidates(self, key: AccountKey, person: Person | None) -> Iterator[_Place]:
        fields = [("user", key.user_name), ("user", key.dn), ("group", key.group_name), ("fqan", key.fqan)]
        for field, text in fields:
            if text:
                yield field, "is", text
                for length in self._lengths.get((field, "begins"), ()):
                    yield field, "begins", text[:length]
                for length in self._lengths.get((field, "ends"), ()):
                    yield field, "ends", text[-length:]
        yield "namespace", "is", key.namespace
        for group in () if person is None else person.groups:
            yield "people", "is", group


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
