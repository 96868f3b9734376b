"""Which rules can be for an account at all, so that one of ten thousand needn't be asked one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apps.accounts.names.account_ids import AccountKey
from apps.mapping.rules.rule import Person, Rule, has_wild

_Place = tuple[str, str, str]  # which field, what of it is certain, and its text


class RuleIndex:
    """Index of rules by the one certain property of their accounts: a field, or its prefix or suffix.

    An account is looked up by its own fields, and their prefixes and suffixes of the lengths that occur.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._always: list[int] = []
        self._by: dict[_Place, list[int]] = {}
        for number, rule in enumerate(rules):
            place = _place_of(rule)
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
        """In the order of the rules."""
        if not self._by:
            return self._always
        found = {number for place in self._asked(key, person) for number in self._by.get(place, ())}
        return sorted([*self._always, *found]) if found else self._always

    def _asked(self, key: AccountKey, person: Person | None) -> Iterator[_Place]:
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


def _place_of(rule: Rule) -> _Place | None:
    """None for a rule of which nothing is that certain."""
    if rule.kind == "default":  # matches whatever its patterns say
        return ("namespace", "is", rule.namespace) if rule.namespace else None
    patterns = (("user", rule.user_pattern), ("group", rule.group_pattern), ("people", rule.people))
    for field, pattern in patterns:
        if pattern and (rule.kind == "exact" or not has_wild(pattern)):
            return field, "is", pattern
    for field, pattern in (*patterns[:2], ("fqan", rule.fqan_pattern)):
        begins, ends = _certain(pattern)
        if begins:
            return field, "begins", begins
        if ends and field != "fqan":  # an FQAN is matched by what lies below it, too
            return field, "ends", ends
    return ("namespace", "is", rule.namespace) if rule.namespace else None


def _certain(pattern: str) -> tuple[str, str]:
    """What a text that a glob matches has to begin with, and to end with."""
    begins = next((pattern[:at] for at, one in enumerate(pattern) if one in "*?["), pattern)
    last = max((pattern.rfind(one) for one in "*?"), default=-1)
    return begins, "" if "[" in pattern else pattern[last + 1 :]
