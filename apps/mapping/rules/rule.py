"""The mapping rule: which accounts it matches and to which entry it leads."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import cached_property, lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from apps.accounts.account_keys import AccountKey
from apps.accounts.entry_accounts import is_reserved
from apps.accounts.grid_names import canonical_dn, canonical_fqan, is_dn
from apps.core.errors import FieldProblem
from apps.policies.tree.names import MOST_ENTRY_SHARES

KINDS = ("exact", "glob", "group", "association", "share_tree", "each", "default")
LONGEST_SUFFIX = 256
MOST_SUFFIX_PARTS = 8  # levels of a suffix
Glob = Callable[[str], object]
_WILD = re.compile(r"[*?\[]")
_PLACEHOLDER = re.compile(r"\{(user|group|project)\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TEXTS = ("namespace", "user_pattern", "group_pattern", "fqan_pattern", "suffix")
_LIMITS = {"namespace": 128, "source": 64, "user_pattern": 256, "group_pattern": 256, "fqan_pattern": 512}
LONGEST_NAME_PART = 128


class Person(NamedTuple):
    """The owner of an account: user name and sign-in groups."""

    name: str
    groups: frozenset[str]


@dataclass(frozen=True)
class Rule:
    """A rule as in `models.MappingRule`, or converted from an entry's membership rule.

    Empty patterns match anything; a user pattern is also tried on the DN. people: matches accounts whose owner is in
    such a sign-in group. source: selects the namespace of that source, which the rule set fills in.

    An *association* is Slurm's pair of user and account: the entry is found by the account's name anywhere below the
    target, and the suffix continues from there. Where the user has an entry for the account's partition (`project`),
    it is that one. A *share tree* is Grid Engine's: see `share_tree.ShareTree`.

    reach_uid: the entry below which the rule's author maps accounts; None is the whole policy. written_at: when it was
    written, "" if unknown. `resolver.Resolver.decide` uses both.
    """

    kind: str
    target_uid: UUID
    namespace: str = ""
    user_pattern: str = ""
    group_pattern: str = ""
    fqan_pattern: str = ""
    suffix: str = ""
    member_shares: float = 1.0
    archive_after_idle_days: int | None = None
    people: str = ""
    member_kind: str = "user"
    source: str = ""
    reach_uid: UUID | None = None
    written_at: str = ""

    def to_json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in ("kind", *_TEXTS)}
        if self.source:
            fields["source"] = self.source
        fields["target_uid"] = str(self.target_uid)
        fields["member_shares"] = self.member_shares
        fields["archive_after_idle_days"] = self.archive_after_idle_days
        if self.people:
            fields["people"] = self.people
        if self.member_kind != "user":
            fields["member_kind"] = self.member_kind
        if self.reach_uid is not None:
            fields["reach_uid"] = str(self.reach_uid)
        if self.written_at:
            fields["written_at"] = self.written_at
        return fields

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Rule:
        """Parse the result of `to_json`."""
        reach = data.get("reach_uid")
        return cls(**{**data, "target_uid": UUID(data["target_uid"]), "reach_uid": UUID(reach) if reach else None})

    @property
    def stated(self) -> Rule:
        """The rule's content, without reach and time."""
        return replace(self, reach_uid=None, written_at="")

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Components of the suffix; for *each* and *association*, by default the child named like the user."""
        suffix = self.suffix or ("/{user}" if self.kind in ("each", "association") else "")
        return tuple(part for part in suffix.split("/") if part)

    @cached_property
    def spelled(self) -> Rule:
        """The rule with DNs and FQANs in the canonical spelling of account keys."""
        user, fqan = self.user_pattern, self.fqan_pattern
        return replace(
            self,
            user_pattern=canonical_dn(user) if is_dn(user) else user,
            fqan_pattern=canonical_fqan(fqan) or fqan if fqan else "",
        )

    def matches_owner(self, person: Person | None) -> bool:
        return not self.people or (
            person is not None and any(_glob_matches(self._people_glob, group) for group in person.groups)
        )

    def matches(self, key: AccountKey, person: Person | None = None) -> bool:
        return self.matches_user(key, person) and self.matches_other_names(key)

    @property
    def matches_any_user(self) -> bool:
        return not self.people and (self.kind == "default" or not self.user_pattern)

    def matches_user(self, key: AccountKey, person: Person | None) -> bool:
        """Whether user name or DN, and the owner, fit."""
        if self.matches_any_user:
            return True
        if not self.matches_owner(person):
            return False
        if self.kind == "exact":
            return not self.user_pattern or self.user_pattern in (key.user_name, key.dn)
        return self.kind == "default" or _glob_matches(self._user_glob, key.user_name, key.dn)

    def matches_other_names(self, key: AccountKey) -> bool:
        """Whether namespace, group and FQAN fit."""
        if self.namespace and self.namespace != key.namespace:
            return False
        if self.kind == "default":
            return True
        if self.kind == "exact":
            return self.group_pattern in ("", key.group_name) and self.fqan_pattern in ("", key.fqan)
        return _glob_matches(self._group_glob, key.group_name) and self._matches_fqan(key.fqan)

    def _matches_fqan(self, fqan: str) -> bool:
        """Match an FQAN or what it is below: `/atlas` also matches `/atlas/Role=production`."""
        if not self.fqan_pattern:
            return True
        is_below = fqan.startswith(self.fqan_pattern.rstrip("/") + "/")
        return bool(fqan) and (is_below or _glob_matches(self._fqan_glob, fqan))

    # Compiled once a rule: of thousands of rules, a cache of patterns would hold none until it is used again.
    @cached_property
    def _user_glob(self) -> Glob | None:
        return _glob(self.user_pattern)

    @cached_property
    def _group_glob(self) -> Glob | None:
        return _glob(self.group_pattern)

    @cached_property
    def _fqan_glob(self) -> Glob | None:
        return _glob(self.fqan_pattern)

    @cached_property
    def _people_glob(self) -> Glob | None:
        return _glob(self.people)

    def names_below(self, key: AccountKey, person: Person | None) -> list[str]:
        """Return the names from the target down to the account's entry, with placeholders filled in.

        A rule for sign-in groups leads to the owner's name, whatever their accounts are called.
        """
        user = person.name if self.people and person is not None else key.user_name or key.dn
        whole = {"{user}": user, "{group}": key.group_name, "{project}": key.project}
        return [
            whole[part] if part in whole else _PLACEHOLDER.sub(lambda placeholder: whole[placeholder[0]], part)
            for part in self.parts
        ]


def has_wildcard(pattern: str) -> bool:
    return bool(_WILD.search(pattern))


@lru_cache(maxsize=4096)
def _glob(pattern: str) -> Glob | None:
    return re.compile(translate(pattern)).match if pattern else None


def _glob_matches(glob: Glob | None, *texts: str) -> bool:
    return glob is None or any(text and glob(text) for text in texts)


def rule_problems(rule: Rule, where: str) -> list[FieldProblem]:
    """Return the errors of a rule; empty if it is valid."""
    problems = []
    if rule.kind not in KINDS:
        problems.append(FieldProblem(f"{where}.kind", f"must be one of {', '.join(KINDS)}"))
    if rule.people:
        problems.append(FieldProblem(f"{where}.people", "is allowed only in an entry's membership rules"))
    if rule.kind == "exact" and not (rule.user_pattern or rule.group_pattern or rule.fqan_pattern):
        problems.append(FieldProblem(where, "an exact rule names a user, a group or an FQAN"))
    if rule.kind == "group" and not (rule.group_pattern or rule.fqan_pattern):
        problems.append(FieldProblem(where, "a group rule names a group or an FQAN"))
    if rule.kind == "share_tree" and rule.suffix:
        problems.append(FieldProblem(f"{where}.suffix", "must be empty: the share tree decides the path"))
    leftover = re.sub(r"[{}]", "", _PLACEHOLDER.sub("", rule.suffix))
    if leftover != _PLACEHOLDER.sub("", rule.suffix):
        problems.append(
            FieldProblem(f"{where}.suffix", "may contain only the placeholders {user}, {group} and {project}")
        )
    if len(rule.suffix) > LONGEST_SUFFIX or len(rule.parts) > MOST_SUFFIX_PARTS:
        problems.append(
            FieldProblem(f"{where}.suffix", f"has at most {MOST_SUFFIX_PARTS} levels and {LONGEST_SUFFIX} characters")
        )
    if not 0 <= rule.member_shares <= MOST_ENTRY_SHARES:
        problems.append(FieldProblem(f"{where}.member_shares", "must be a number from 0 to 1e15"))
    if is_reserved(rule.namespace):
        problems.append(FieldProblem(f"{where}.namespace", "is reserved for usage of other sites"))
    if rule.source and rule.namespace:
        problems.append(FieldProblem(f"{where}.source", "and namespace exclude each other: give only one of them"))
    problems += [
        FieldProblem(f"{where}.{name}", f"has at most {longest} characters")
        for name, longest in _LIMITS.items()
        if len(getattr(rule, name)) > longest
    ]
    problems += [
        FieldProblem(f"{where}.{name}", "contains a control character")
        for name in (*_TEXTS, "source")
        if _CONTROL.search(getattr(rule, name))
    ]
    return problems
