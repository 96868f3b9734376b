"""The document that publishes a policy: versioned, expiring and signed; and lists of any document, checked as columns.

The document is one object (times are RFC 3339 in UTC, to the second): `{"format": "fairshare-policy/1", "issuer",
"publication", "version", "previous", "issued_at", "expires_at", "issuers", "root": {"uid", "name", "kind", "children":
[…]}}`. Entries are those of a policy document (uid, name, kind, shares, scope, children), each with its uid; the root
has no shares, because the mounting site sets them. Local settings are left out: locks, membership rules, names of
sources; so are dates, which make a new version when they are reached. `previous` is the SHA-256 of the version before;
`issuers` are the authorities whose documents are mounted below, which reveals loops.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import numpy as np

from apps.core.errors import FieldProblem, Invalid, TooLarge
from apps.core.signing import BadDocument
from apps.policies.files.document import plain_number, read_document
from apps.policies.files.parsed_document import ParsedDocument
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import PARENT, has_markup
from apps.policies.tree.terms import clean_authority
from apps.usage.parsers.base import F8, I8

FORMAT = "fairshare-policy/1"
MOST_ISSUERS = 512
_HEAD = ("expires_at", "format", "issued_at", "issuer", "issuers", "previous", "publication", "root", "version")
_MOST_VERSION = 2**53
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_NAMED_PROBLEMS = 50
MOST_AMOUNT = 1e12
MOST_EXACT_NUMBER = 2**53


@dataclass(frozen=True)
class Head:
    """The header of a policy document. issuer, publication: lower-case names in the form of host names."""

    issuer: str
    publication: str
    version: int
    previous: str | None
    issued_at: datetime
    expires_at: datetime
    issuers: tuple[str, ...] = ()


@dataclass(frozen=True)
class PolicyLimits:
    """Upper limits of a mounted document; the mounted root's children are level 1."""

    entries: int = 200_000
    levels: int = 32


@dataclass(frozen=True, eq=False)
class PolicyDocument:
    """A checked document; the root of `declared.tree` is the mounted root, and all entries have uids."""

    head: Head
    declared: ParsedDocument = field(repr=False)

    @property
    def tree(self) -> TreeColumns:
        return self.declared.tree


def write_policy(head: Head, tree: TreeColumns, entry: int) -> dict[str, Any]:
    """Build the document of an entry and its subtree."""
    return {
        "format": FORMAT,
        "issuer": head.issuer,
        "publication": head.publication,
        "version": head.version,
        "previous": head.previous,
        "issued_at": instant_text(head.issued_at),
        "expires_at": instant_text(head.expires_at),
        "issuers": sorted(head.issuers),
        "root": _nested(tree, entry),
    }


def read_policy(document: Mapping[str, Any], limits: PolicyLimits) -> PolicyDocument:
    """Check that a document is valid in itself; the mounting site checks it against its own tree.

    Raises:
        BadDocument: something is missing, unknown or wrong; the message has its location.
        TooLarge: more entries or levels than the limits.
    """
    head = _read_head(document)
    try:
        declared = read_document({"root": document["root"]})
    except Invalid as error:
        raise BadDocument(error.message, fields=error.fields) from error
    if "shares" in document["root"]:
        raise bad_field("root.shares", "must be left out: the mounting site sets them")
    tree = declared.tree
    if len(tree) > limits.entries:
        raise TooLarge(f"The document has {len(tree):,} entries; this mount takes {limits.entries:,}.")
    n_levels = len(tree.level_starts) - 2
    if n_levels > limits.levels:
        raise TooLarge(f"The document has {n_levels} levels; this mount takes {limits.levels}.")
    _refuse_local_settings(tree)
    return PolicyDocument(head, declared)


def _nested(tree: TreeColumns, entry: int) -> dict[str, Any]:
    """The entries as nested JSON, built level by level without recursion."""
    made: dict[int, dict[str, Any]] = {}
    for level in tree.subtree(entry):
        for i in level:
            entry_json = made[i] = _entry_json(tree, i, is_root=i == entry)
            if i != entry:
                made[int(tree.parent[i])]["children"].append(entry_json)
    return made[entry]


def _entry_json(tree: TreeColumns, i: int, *, is_root: bool) -> dict[str, Any]:
    node = tree.node(i)
    written: dict[str, Any] = {"uid": str(node.uid), "name": node.name, "kind": node.kind}
    if not is_root:
        written["shares"] = PARENT if node.shares is None else plain_number(node.shares)
    if node.scope:
        written["scope"] = node.scope
    if node.is_group or is_root:
        written["children"] = []
    return written


def _read_head(document: Mapping[str, Any]) -> Head:
    check_format(document, FORMAT)
    if tuple(sorted(document)) != _HEAD:
        field = sorted(set(document) ^ set(_HEAD))[0]
        raise bad_field(field[:64], "is missing" if field in _HEAD else "is unknown")
    issuers = document["issuers"]
    if not isinstance(issuers, list) or len(issuers) > MOST_ISSUERS:
        raise bad_field("issuers", f"must be a list of at most {MOST_ISSUERS} names")
    previous = document["previous"]
    if previous is not None and not (isinstance(previous, str) and _DIGEST.fullmatch(previous)):
        raise bad_field("previous", "must be null or a SHA-256 in hex")
    version = document["version"]
    if type(version) is not int or not 1 <= version <= _MOST_VERSION:
        raise bad_field("version", "must be a whole number from 1")
    if (version == 1) != (previous is None):
        raise bad_field("previous", "must name the version before, and be null for version 1 alone")
    issued_at, expires_at = read_validity(document)
    return Head(
        issuer=read_authority(document["issuer"], "issuer"),
        publication=read_authority(document["publication"], "publication"),
        version=version,
        previous=previous,
        issued_at=issued_at,
        expires_at=expires_at,
        issuers=tuple(read_authority(issuer, f"issuers[{at}]") for at, issuer in enumerate(issuers)),
    )


def _refuse_local_settings(tree: TreeColumns) -> None:
    """Reject settings that are local to a site, and entries without a uid."""
    problems = []
    for rows, message in (
        (np.flatnonzero(~tree.uid.any(axis=1)).tolist(), "has no uid"),
        (np.flatnonzero(tree.locked).tolist(), "is locked, which each site does for itself"),
        (sorted(tree.members), "has membership rules, which each site has of its own"),
        (sorted(tree.dates), "has dates; a new version says what changed when they were reached"),
        (sorted(tree.mount), "is a mount, which is published as its content"),
        (sorted(tree.scope_sources), "names sources, which are each site's own"),
        ([i for i, name in enumerate(tree.name) if has_markup(name)], "has a name with < or >; leave them out"),
    ):
        problems += [FieldProblem(tree.path(i), message) for i in rows]
    if problems:
        first = problems[0]
        raise BadDocument(f"{first.where} {first.message}.", fields=problems[:_MOST_NAMED_PROBLEMS])


def read_authority(value: object, where: str) -> str:
    try:
        return clean_authority(value)
    except ValueError as error:
        raise bad_field(where, str(error)) from error


def instant_text(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_instant(text: object, where: str) -> datetime:
    """Read an instant to the second in the form 2026-11-20T12:00:00Z.

    The year 9999 is rejected, because it can't be converted to all time zones.
    """
    try:
        at = datetime.strptime(text if isinstance(text, str) else "", "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        at = None
    if at is None or at.year > 9998 or instant_text(at) != text:
        raise bad_field(where, "must be an instant in UTC, as in 2026-11-20T12:00:00Z")
    return at


def read_validity(document: Mapping[str, Any]) -> tuple[datetime, datetime]:
    """Read `issued_at` and `expires_at`."""
    issued_at, expires_at = (read_instant(document[name], name) for name in ("issued_at", "expires_at"))
    if expires_at <= issued_at:
        raise bad_field("expires_at", "must be later than issued_at")
    return issued_at, expires_at


def check_format(document: Mapping[str, Any], expected: str) -> None:
    if document.get("format") != expected:
        raise bad_field("format", f"must be {expected!r}: this is a document of another kind, or of a newer release")


def bad_field(where: str, message: str) -> BadDocument:
    return BadDocument(f"{where} {message}.", fields=[FieldProblem(where, message)])


class Rows:
    """The concatenated rows of all hours; names the location of a row."""

    def __init__(self, hours: Sequence[Mapping[str, Any]], lengths: I8) -> None:
        self.hours = hours
        self.ends = np.cumsum(lengths)
        self.starts = self.ends - lengths
        self.n = int(self.ends[-1]) if len(lengths) else 0

    def column(self, name: str) -> list[Any]:
        n_each = (self.ends - self.starts).tolist()
        parts: Iterable[list[Any]] = (
            hour[name] if name in hour else [0] * n for hour, n in zip(self.hours, n_each, strict=True)
        )
        return list(chain.from_iterable(parts))

    def has(self, name: str) -> bool:
        return any(name in hour for hour in self.hours)

    def place(self, name: str, row: int) -> str:
        at = int(np.searchsorted(self.ends, row, side="right"))
        return f"hours[{at}].{name}[{row - int(self.starts[at])}]"

    def unordered(self, values: I8) -> I8:
        """Rows whose value isn't greater than that of the row before in the same hour."""
        is_bad = np.zeros(len(values), np.bool_)
        is_bad[1:] = values[1:] <= values[:-1]
        is_bad[self.starts[self.starts < len(values)]] = False
        return np.flatnonzero(is_bad)


class RunningColumns(Rows):
    """The running jobs as rows, with their locations."""

    def __init__(self, columns: Mapping[str, Any], n: int) -> None:
        super().__init__([columns], np.array([n], np.int64))

    def place(self, name: str, row: int) -> str:
        return f"running.{name}[{row}]"


def read_indexes(rows: Rows, n_entries: int) -> I8:
    indexes = rows.column("entry")
    _refuse_kinds(rows, "entry", indexes, (int,), "must be a whole number")
    if not indexes:
        return np.zeros(0, np.int64)
    lowest, highest = min(indexes), max(indexes)
    if lowest < 0 or highest >= n_entries:
        row = next(at for at, index in enumerate(indexes) if not 0 <= index < n_entries)
        raise bad_field(rows.place("entry", row), f"is no index into entries, which has {n_entries}")
    return np.array(indexes, np.int64)


def read_numbers(rows: Rows, name: str, most: float = MOST_AMOUNT) -> F8:
    """Finite numbers from 0 to `most`; all 0 if the column is omitted."""
    if not rows.has(name):
        return np.zeros(rows.n)
    values = rows.column(name)
    _refuse_kinds(rows, name, values, (int, float), "must be a number")
    try:
        numbers = np.array(values, np.float64)
    except OverflowError:
        numbers = np.array([min(value, 2 * most) for value in values], np.float64)
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers <= most)))
    refuse_at(rows, name, wrong, f"must be from 0 to {most:,.0f}")
    return numbers


def _refuse_kinds(rows: Rows, name: str, values: list[Any], kinds: tuple[type, ...], message: str) -> None:
    if not set(map(type, values)) <= set(kinds):
        row = next(at for at, value in enumerate(values) if type(value) not in kinds)
        raise bad_field(rows.place(name, row), message)


def refuse_at(rows: Rows, name: str, wrong: I8, message: str) -> None:
    if len(wrong):
        raise bad_field(rows.place(name, int(wrong[0])), message)


def read_integer(value: object, where: str, minimum: int) -> int:
    if type(value) is not int or not minimum <= value <= MOST_EXACT_NUMBER:
        raise bad_field(where, f"must be a whole number from {minimum}")
    return value


def read_list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise bad_field(where, "must be a list")
    return value


def read_object(value: object, needs: Sequence[str], may: Sequence[str], where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise bad_field(where, "must be an object")
    check_fields(value, needs, may, f"{where}.")
    return value


def check_fields(value: Mapping[str, Any], needs: Sequence[str], may: Sequence[str], prefix: str) -> None:
    for name in sorted(set(needs) - value.keys()):
        raise bad_field(f"{prefix}{name}", "is missing")
    for name in sorted(value.keys() - set(may)):
        raise bad_field(f"{prefix}{name[:64]}", "is unknown")
