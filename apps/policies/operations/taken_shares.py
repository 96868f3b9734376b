"""Operations that change the shares of one entry, with a sibling that gives or takes the difference."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.policies.operations.apply import Operation
from apps.policies.tree.columns import TreeColumns

_DIGITS = 12  # significant ones of a difference: 60, not 60.00000000000001


def change_operations(tree: TreeColumns | None, entry_uid: UUID, shares: Any, giver: UUID | None) -> list[Operation]:
    """Return the operations on this tree.

    shares: a number, "parent", or {"percent": …}. giver: the sibling whose shares pay for it, so that the sum of both
    stays; None: all siblings keep their shares, and the tree isn't needed.

    Raises:
        Invalid: the giver is no sibling with shares, or has too few.
    """
    if giver is None:
        return [{"op": "set_shares", "entry": str(entry_uid), "shares": shares}]
    if isinstance(shares, dict):
        return [{"op": "set_shares", "entry": str(entry_uid), "shares": {**shares, "from": [str(giver)]}}]
    if not isinstance(shares, int | float):
        raise _wrong(_("A sibling can pay for a number of shares only."))
    assert tree is not None, "needed with a giver"  # noqa: S101 - an invariant, not input
    own, other = tree.index_of_uid(entry_uid), tree.index_of_uid(giver)
    if own is None or other is None or own == other or tree.parent[own] != tree.parent[other]:
        raise _wrong(_("Choose a sibling of the entry."))
    if tree.inherit[own] or tree.inherit[other]:
        raise _wrong(_("Both need a number of shares: one of them inherits."))
    both = float(tree.shares[own]) + float(tree.shares[other])
    left = float(f"{both - shares:.{_DIGITS}g}")
    if left < 0:
        text = _("%(name)s has %(n)g shares to give: enter at most %(most)g.")
        raise _wrong(text % {"name": tree.name[other], "n": tree.shares[other], "most": both})
    return [
        {"op": "set_shares", "entry": str(entry_uid), "shares": shares},
        {"op": "set_shares", "entry": str(giver), "shares": left},
    ]


def _wrong(message: str) -> Invalid:
    return Invalid(message, fields=[FieldProblem("shares", message)])
