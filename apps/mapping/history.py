"""What was mapped when, as one actor may read it: all of it where they read the whole, else their own changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from apps.accounts.models import Account
from apps.accounts.names.account_ids import AccountKey
from apps.core.errors import NotFound
from apps.mapping.models import MappingVersion
from apps.mapping.permissions import MapRights
from apps.mapping.rules.rule import Rule
from apps.mapping.states import Placement, rules_of
from apps.mapping.versions import get_version

PAGE = 30


@dataclass(frozen=True)
class VersionLine:
    """One version: what it changed. A placement's account is None where its row is gone."""

    version: MappingVersion
    added: Sequence[Rule]
    removed: Sequence[Rule]
    is_reordered: bool
    placements: Sequence[tuple[AccountKey | None, Placement]]
    rules: Sequence[Rule]  # all of them, after it


def list_version_lines(rights: MapRights, *, before: int | None = None, limit: int = PAGE) -> list[VersionLine]:
    """The newest first."""
    rights.require_anywhere()
    rows = MappingVersion.objects.filter(policy=rights.policy)
    if before is not None:
        rows = rows.filter(number__lt=before)
    if not rights.may_name(0):
        rows = rows.filter(author=rights.actor.user)
    return [_line(rights, row) for row in rows.order_by("-number")[:limit]]


def get_version_line(rights: MapRights, number: int) -> VersionLine:
    rights.require_anywhere()
    found = get_version(rights.policy, number)
    user = rights.actor.user
    if not rights.may_name(0) and (user is None or found.author_id != user.pk):
        raise NotFound("There is no such version of the mapping.")
    return _line(rights, found)


def _line(rights: MapRights, row: MappingVersion) -> VersionLine:
    after = rules_of(rights.policy, row.number)
    before = after if row.rules is None else rules_of(rights.policy, row.number - 1)
    added, removed = Counter(after) - Counter(before), Counter(before) - Counter(after)
    placements = [Placement.from_json(one) for one in row.attached]
    accounts = Account.objects.filter(pk__in=[one.account for one in placements]).values_list("pk", *AccountKey._fields)
    names = {pk: AccountKey(*key) for pk, *key in accounts}
    return VersionLine(
        version=row, added=list(added.elements()), removed=list(removed.elements()),
        is_reordered=not added and not removed and after != before,
        placements=[(names.get(one.account), one) for one in placements], rules=after,
    )  # fmt: skip
