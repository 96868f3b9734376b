"""One group of a draft as bars show it: rows and the scripts' initial data; and the words of the editor's scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from apps.engine.target_state import targets_on
from apps.pages.changes.drafts.presenters import DECIMALS, DraftLine, draw_draft
from apps.policies.tree.columns import Node
from apps.priorities.selectors.draft import DraftRow
from apps.priorities.selectors.draft_group import DraftGroup
from apps.web.svg.bars import Tolerance
from apps.web.templatetags.marks import kind_label

_BAR_PX = 800  # about as wide as the script draws the bar
_SMALL_PX, _FEWEST_SMALL = 26, 3  # the same constants as in static/js/shares_layout.js


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One child in the table; a script keeps its numbers up to date."""

    draft: DraftLine
    why_fixed: str  # empty if its shares may be changed


def group_lines(group: DraftGroup, tolerance: Tolerance, *, is_open: bool) -> list[GroupLine]:
    drawn = draw_draft(group.rows, tolerance=tolerance)
    return [GroupLine(line, why_fixed(line.row, is_open=is_open)) for line in drawn]


def has_small(group: DraftGroup) -> bool:
    """Whether the script will enlarge small segments under the bar; the page then reserves room for them."""
    return sum(0 < (row.target or 0.0) * _BAR_PX < _SMALL_PX for row in group.rows) >= _FEWEST_SMALL


def group_json(group: DraftGroup, tolerance: Tolerance, *, is_open: bool) -> dict[str, Any]:
    """Initial data of the script. Fractions are from 0 to 1; shares null: the entry inherits its parent's shares.

    decimals: of shares in percent. on_from, on_to: the targets that its usage would be on; null: every greater one.
    relative, least: of the tolerance.
    """
    return {
        "parent": str(group.parent.uid),
        "name": group.parent.name,
        "decimals": DECIMALS,
        "rest": group.rest,
        "rest_before": group.rest_before,
        "left_out": group.n_left_out,
        "is_closed": group.is_closed,
        "rows": [_row(row, group, tolerance.at(not row.n_children), is_open=is_open) for row in group.rows],
    }


def words() -> Mapping[str, str]:
    """Translated texts of the editor's scripts, which fill in placeholders such as {name}."""
    return {
        "share_one": _("{n} share"),
        "share_many": _("{n} shares"),
        "inherit": _("inherit"),
        "was": _("was {target}, {shares}"),
        "used": _("used {part}"),
        "target_of": _("Target: {name}"),
        "bar": _("Bar"),
        "enlarged": _("Enlarged"),
        "map": _("Treemap"),
        "to": _("to"),
        "smaller": _("{n} smaller"),
        "smaller_entries": _("{n} smaller, enlarged"),
        "together": _("together {part}"),
        "elsewhere": _("others"),
        "all": _("All {n}"),
        "previous": _("Previous"),
        "next": _("Next"),
        "restored": _("Restored: {name}, {target}"),
        "more": _("Show {n} smaller entries"),
        "saving": _("Saving…"),
        "waiting": _("{n} not saved."),
        "server": _("The server does not answer. The edit is sent again."),
        "number": _("Enter a number (20 or 0.5) or a percentage."),
        "hundred": _("Enter less than 100 %."),
        "reason": _("Enter a reason to publish."),
        "take": _("Take {n} points"),
        "give": _("Give {n} points"),
        "over": _("over"),
        "under": _("under"),
        "on": _("on target"),
        "idle": _("no demand"),
        "nodata": _("no data"),
        "names": _("Siblings are sorted by name."),
        "into": _("Into"),
        "inside": _("is inside it"),
        "not_yours": _("outside your rights"),
    }


def place_text(node: Node, parent: Node) -> str:
    """VO in Nordgrid."""
    return _("%(kind)s in %(group)s") % {"kind": kind_label(node.kind), "group": parent.name}


def why_fixed(row: DraftRow, *, is_open: bool) -> str:
    """Why the shares of an entry can't be changed; empty if they can."""
    if not is_open:
        return _("This draft is closed and read-only.")
    if row.may_change:
        return ""
    return _("locked") if row.node.locked else _("Managed by the owning site")


def _row(row: DraftRow, group: DraftGroup, tolerance: Tolerance, *, is_open: bool) -> dict[str, Any]:
    on_from, on_to = (0.0, None) if row.actual is None else targets_on(row.actual, tolerance.stated)
    return {
        "uid": str(row.node.uid),
        "name": row.node.name,
        "shares": row.node.shares,
        "shares_before": row.before.shares if row.before is not None and row.stays else None,
        "target": row.target,
        "target_before": row.target_before if row.stays else None,
        "actual": row.actual,
        "has_usage": row.has_usage,
        "on_from": on_from,
        "on_to": on_to,
        "relative": tolerance.relative,
        "least": tolerance.floor,
        "is_fixed": bool(why_fixed(row, is_open=is_open)),
        "why_fixed": why_fixed(row, is_open=is_open),
        "place": place_text(row.node, group.parent),
    }
