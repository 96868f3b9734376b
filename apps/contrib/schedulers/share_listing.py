"""Shares of a scheduler as it lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from apps.contrib.schedulers.models import Scheduler, ShareListing
from apps.core.blobs import pack, unpack
from apps.core.errors import FieldProblem, Malformed
from apps.policies.tree.names import LONGEST_TYPED_PATH
from apps.policies.tree.slurm_associations import association_name

MOST_SHARE_ROWS = 200_000
_FIELDS = ("group", "user", "partition", "parent", "shares")


class Key(NamedTuple):
    """Identifies an association. group: an account, or the path of a node. user: "" for the group itself; with the
    partition of an association of one, as its entry is named.
    """

    group: str
    user: str


@dataclass(frozen=True, slots=True)
class ListedShare:
    """shares: a whole number or "parent". agreed: the last shares equal on both sides; "" if there were none."""

    group: str
    user: str
    partition: str
    parent: str
    shares: str
    agreed: str = ""

    @property
    def key(self) -> Key:
        return Key(self.group, association_name(self.user, self.partition))


@dataclass(frozen=True)
class ListedShares:
    cluster: str
    taken_at: datetime
    rows: list[ListedShare]
    digest: str

    @property
    def by_key(self) -> dict[Key, ListedShare]:
        return {row.key: row for row in self.rows}


def read_listing(report: Any) -> tuple[str, list[ListedShare]]:
    """Validate an agent's report; returns the cluster and its rows.

    Raises:
        Malformed: the first invalid field.
    """
    if not isinstance(report, dict) or set(report) != {"cluster", "rows"} or type(report["cluster"]) is not str:
        raise _wrong("shares", "must be an object with: cluster, rows")
    rows = report["rows"]
    if not isinstance(rows, list) or len(rows) > MOST_SHARE_ROWS or len(report["cluster"]) > 256:
        raise _wrong("shares.rows", f"must be a list of at most {MOST_SHARE_ROWS:,} rows")
    return report["cluster"], [_read(row, f"shares.rows[{i}]") for i, row in enumerate(rows)]


def _read(row: Any, where: str) -> ListedShare:
    if not isinstance(row, dict) or set(row) != set(_FIELDS):
        raise _wrong(where, f"must be an object with: {', '.join(_FIELDS)}")
    for name in _FIELDS:
        if type(row[name]) is not str or len(row[name]) > LONGEST_TYPED_PATH or "\0" in row[name]:
            raise _wrong(f"{where}.{name}", f"must be text of at most {LONGEST_TYPED_PATH:,} characters")
    shares = row["shares"]
    if shares != "parent" and not (shares.isascii() and shares.isdigit() and len(shares) <= 10):
        raise _wrong(f"{where}.shares", 'must be a whole number as text, or "parent"')
    return ListedShare(**row)


def _wrong(where: str, message: str) -> Malformed:
    return Malformed(f"{where} {message}.", fields=[FieldProblem(where, message)])


def with_agreed(
    rows: list[ListedShare], before: Mapping[Key, ListedShare], wanted: Mapping[Key, str], were_set: Mapping[Key, str]
) -> list[ListedShare]:
    """Update the agreed shares of listed rows: those equal on both sides, else those set by an order, else those
    before.

    For an association that is new in the listing they are its present shares, so that any difference is to be sent.
    """
    agreed_rows = []
    for row in rows:
        known = before.get(row.key)
        agreed = row.shares if known is None or not known.agreed else known.agreed
        agreed = were_set.get(row.key, agreed)
        if wanted.get(row.key) == row.shares:
            agreed = row.shares
        agreed_rows.append(replace(row, agreed=agreed))
    return agreed_rows


def store_listing(scheduler: Scheduler, cluster: str, rows: list[ListedShare], taken_at: datetime) -> None:
    """Replace the stored listing, in the caller's transaction."""
    columns = {name: [getattr(row, name) for row in rows] for name in (*_FIELDS, "agreed")}
    data, digest = pack(columns)
    kept = {"cluster": cluster, "taken_at": taken_at, "n_rows": len(rows), "data": data, "digest": digest}
    ShareListing.objects.update_or_create(scheduler=scheduler, defaults=kept)


def load_listing(scheduler: Scheduler) -> ListedShares | None:
    """The latest listing; None if there is none."""
    stored = ShareListing.objects.filter(scheduler=scheduler).first()
    if stored is None:
        return None
    columns, _meta = unpack(stored.data, stored.digest)
    rows = [ListedShare(*row) for row in zip(*(columns[name] for name in (*_FIELDS, "agreed")), strict=True)]
    return ListedShares(stored.cluster, stored.taken_at, rows, stored.digest)
