"""Optional attributes of an entry, read from JSON and written to it: dates, membership rules and mounts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from apps.core.invisible import first_invisible
from apps.policies.tree.names import (
    MOST_ENTRY_SHARES,
    PARENT,
    RESERVE,
    clean_kind,
    clean_name,
    clean_shares,
    clean_text,
    new_name_problem,
)

AT_END = ("keep", "zero", "archive")
MAX_MEMBERSHIP_RULES = 20
# Value of `Members.reach` for the whole policy.
WHOLE_POLICY = "*"
LONGEST_TERM_PATTERN = 512
MOST_TERM_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class Dates:
    """First and last day on which an entry has its shares, and what a scheduled change set does on the day after.

    shares: the value set on the first day; None leaves the shares unchanged. at_end: `keep` (the entry is only listed
    as expired), `zero`, `archive`, or a number of shares.
    """

    starts_on: date | None = None
    ends_on: date | None = None
    shares: float | None = None
    at_end: str | float = "keep"

    def to_json(self) -> dict[str, Any]:
        return {
            "starts_on": self.starts_on.isoformat() if self.starts_on else None,
            "ends_on": self.ends_on.isoformat() if self.ends_on else None,
            "shares": self.shares,
            "at_end": self.at_end,
        }


@dataclass(frozen=True, slots=True)
class MembershipRule:
    """A membership rule: users who match all non-empty conditions become children of the entry; patterns allow * and ?.

    source: slug of a usage source. group, fqan: of the account. people: a sign-in group (`oidc:physics`, `ldap:cn=hpc`,
    …). archive_after_days: days without usage after which a member is archived; None means never.

    reach: the uid of the entry below which the rule's author may map accounts. `*` is the whole policy; "" is not
    recorded and means the rule's entry. written_at: the instant of publication. Both are set on publishing, are not
    part of documents, and are ignored when rules are compared.
    """

    source: str = ""
    group: str = ""
    fqan: str = ""
    people: str = ""
    shares: float = 1.0
    kind: str = "user"
    archive_after_days: int | None = None
    reach: str = field(default="", compare=False)
    written_at: str = field(default="", compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the fields for documents and API responses, without `reach` and `written_at`."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.compare}

    def stored(self) -> dict[str, Any]:
        """Return the fields for database rows, blobs and change sets, including `reach` and `written_at` if set."""
        return {**self.to_json(), **{name: value for name in _RECORDED if (value := getattr(self, name))}}


_RECORDED = ("reach", "written_at")


@dataclass(frozen=True, slots=True)
class MountedPublication:
    """The remote publication that an entry's children come from: the name of its authority and of the publication."""

    issuer: str
    publication: str

    def to_json(self) -> dict[str, str]:
        return asdict(self)


_AUTHORITY = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,126}[a-z0-9])?")


def clean_authority(value: object) -> str:
    """Return a valid name of an authority, publication or feed; raise ValueError with the reason and position."""
    if isinstance(value, str) and _AUTHORITY.fullmatch(value):
        return value
    rule = "must be 1 to 128 lower-case letters, digits, points and hyphens, as in vo-a.example"
    problem = _authority_problem(value) if isinstance(value, str) else ""
    raise ValueError(f"{problem}; it {rule}" if problem else rule)


def _authority_problem(name: str) -> str:
    """Describe the first invisible or non-ASCII character; "" if the general rule explains the error."""
    if problem := new_name_problem(name):
        unseen = first_invisible(name)
        return f"{problem}: it is character {name.index(unseen) + 1}" if unseen else problem
    for place, character in enumerate(name, 1):
        if not character.isascii():
            letter = f"{character!r}, U+{ord(character):04X}," if character.isprintable() else f"U+{ord(character):04X}"
            return f"contains {letter} as character {place}, which looks like another; type it again"
    return ""


def read_mounted(value: object) -> MountedPublication | None:
    """Parse a mount from JSON; None stays None. Raise ValueError with the reason if it is invalid."""
    if value is None:
        return None
    document = _object(value, ("issuer", "publication"))
    return MountedPublication(*(clean_authority(document.get(name)) for name in ("issuer", "publication")))


def read_dates(value: object) -> Dates | None:
    """Parse dates from JSON; None removes them. Raise ValueError with the reason if they are invalid."""
    if value is None:
        return None
    document = _object(value, ("starts_on", "ends_on", "shares", "at_end"))
    starts_on, ends_on = _day(document, "starts_on"), _day(document, "ends_on")
    if starts_on is None and ends_on is None:
        raise ValueError("starts_on or ends_on is needed, a day such as 2027-03-31")
    if starts_on and ends_on and ends_on < starts_on:
        raise ValueError("ends_on is before starts_on")
    shares = document.get("shares")
    if shares is not None and starts_on is None:
        raise ValueError("shares take effect on starts_on, which is missing")
    at_end = document.get("at_end", "keep")
    if at_end not in AT_END:
        at_end = _weight(at_end, f"at_end is {', '.join(AT_END)}, or a number of shares")
    if ends_on is None and at_end != "keep":
        raise ValueError("at_end needs ends_on")
    return Dates(starts_on, ends_on, None if shares is None else _weight(shares, "shares is a number"), at_end)


def read_members(value: object, *, stored: bool = False) -> tuple[MembershipRule, ...]:
    """Parse a list of membership rules, or one rule, from JSON. stored: also read `reach` and `written_at`.

    Raises ValueError with the number of the invalid rule.
    """
    listed = value if isinstance(value, list | tuple) else [value]
    if len(listed) > MAX_MEMBERSHIP_RULES:
        raise ValueError(f"an entry has at most {MAX_MEMBERSHIP_RULES} membership rules")
    rules = []
    for number, rule in enumerate(listed):
        try:
            rules.append(_members(rule, stored=stored))
        except ValueError as error:
            raise ValueError(f"rule {number}: {error}") from None
    return tuple(dict.fromkeys(rules))


def _members(value: object, *, stored: bool) -> MembershipRule:
    recorded = _RECORDED if stored else ()
    document = _object(value, ("source", "group", "fqan", "people", "shares", "kind", "archive_after_days", *recorded))
    names: dict[str, Callable[[object], str]] = {
        key: (lambda text: clean_text(text, LONGEST_TERM_PATTERN)) for key in ("group", "fqan", "people")
    }
    names["source"] = lambda text: clean_name(text) if text else ""
    read = {key: rule(document.get(key) or "") for key, rule in names.items()}
    if not any(read.values()):
        raise ValueError("a condition is needed: source, group, fqan or people")
    days = document.get("archive_after_days")
    if days is not None and (isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MOST_TERM_DAYS):
        raise ValueError(f"archive_after_days is a whole number from 1 to {MOST_TERM_DAYS}, or null for never")
    shares = _weight(document.get("shares", 1), "shares is a number")
    kind = clean_kind(document.get("kind", "user"))
    if kind == RESERVE:
        raise ValueError("kind can't be reserve, which has no accounts")
    return MembershipRule(
        **read,
        shares=shares,
        kind=kind,
        archive_after_days=days,
        reach=_reach(document.get("reach") or ""),
        written_at=_instant(document.get("written_at") or ""),
    )


def _reach(value: object) -> str:
    if value in ("", WHOLE_POLICY):
        return str(value)
    try:
        return str(UUID(value if isinstance(value, str) else ""))
    except ValueError:
        raise ValueError("reach is the uid of an entry, or * for the whole policy") from None


def _instant(value: object) -> str:
    try:
        read = datetime.fromisoformat(value if isinstance(value, str) else "-") if value else None
    except ValueError:
        read = None
    if value and (read is None or read.tzinfo is None):
        raise ValueError("written_at is an instant with its time zone")
    return "" if read is None else read.astimezone(UTC).isoformat()


def _object(value: object, keys: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"must be an object with {', '.join(keys)}")
    unknown = set(value) - set(keys)
    if unknown:
        raise ValueError(f"{min(map(str, unknown))[:60]!r} is unknown; known are {', '.join(keys)}")
    return value


def _day(document: Mapping[str, Any], key: str) -> date | None:
    value = document.get(key)
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError(f"{key} must be a day such as 2027-03-31") from None


def _weight(value: object, allowed: str) -> float:
    try:
        shares = None if value in (None, PARENT) else clean_shares(value)
    except ValueError:
        shares = None
    if shares is None:
        raise ValueError(f"{allowed} from 0 to {MOST_ENTRY_SHARES:g}")
    return shares
