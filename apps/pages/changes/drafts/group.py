"""Page to edit the shares of one group of a draft by dragging a bar, its fragments, and its forecast as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from apps.contrib.forecast.draft_group import (
    DraftGroup,
    GroupForecast,
    MemberOutlook,
    get_draft_group,
    get_group_forecast,
)
from apps.contrib.forecast.views import when_text
from apps.core.errors import Invalid
from apps.engine.explain import Recovery
from apps.pages.changes.drafts import pages
from apps.pages.changes.drafts.forms import read_operation
from apps.pages.changes.drafts.pages import EditorState
from apps.pages.changes.drafts.presenters import DraftLine, draw_draft
from apps.policies.models import ChangeSet
from apps.policies.tree.columns import Node
from apps.priorities.selectors.draft import DraftRow, DraftView
from apps.web.edit_refusals import message_of
from apps.web.links import draft_url
from apps.web.marks.bars import Tolerance
from apps.web.shell import lines, presentation
from apps.web.shell.requests import fragment

BULLET_WIDTH = 96
_BAR_PX = 800  # about as wide as the script draws the bar
_SMALL_PX, _FEWEST_SMALL = 26, 3  # the same constants as in static/js/shares_layout.js
_DIGITS = 6  # of fractions, enough for a picture of at most a thousand pixels


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One child in the table; a script keeps its numbers up to date."""

    draft: DraftLine
    balance: presentation.Balance
    why_fixed: str  # empty if its shares may be changed


def group_lines(group: DraftGroup, tolerance: Tolerance, *, is_open: bool) -> list[GroupLine]:
    drawn = draw_draft(group.rows, tolerance=tolerance, width=BULLET_WIDTH)
    return [GroupLine(line, _balance(line.row, tolerance), _why_fixed(line.row, is_open=is_open)) for line in drawn]


def has_small(group: DraftGroup) -> bool:
    """Whether the script will enlarge small segments under the bar; the page then reserves room for them."""
    return sum(0 < (row.target or 0.0) * _BAR_PX < _SMALL_PX for row in group.rows) >= _FEWEST_SMALL


def group_json(group: DraftGroup, tolerance: Tolerance, *, is_open: bool) -> dict[str, Any]:
    """Initial data of the script. Fractions are from 0 to 1; shares null: the entry inherits its parent's shares."""
    return {
        "parent": str(group.parent.uid),
        "name": group.parent.name,
        "rest": group.rest,
        "rest_before": group.rest_before,
        "left_out": group.n_left_out,
        "is_closed": group.is_closed,
        "tolerance": {"relative": tolerance.relative, "floor": tolerance.floor},
        "rows": [_row(row, group, is_open=is_open) for row in group.rows],
    }


def outlook_json(found: GroupForecast, *, with_lines: bool) -> dict[str, Any]:
    """Forecast as JSON: fractions from 0 to 1, days from now, and the dates on target as text for the table."""
    return {
        "as_of": None if found.as_of is None else found.as_of.isoformat(),
        "rows": [_member(found, each, with_lines=with_lines) for each in found.members],
    }


def words() -> Mapping[str, str]:
    """Translated texts of the script, which fills in placeholders such as {name}."""
    return {
        "share_one": _("{n} share"),
        "share_many": _("{n} shares"),
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
        "escape": _("Esc restores it"),
        "diluted": _("{n} diluted"),
        "diluted_each": _("{n}, each by {part}"),
        "nobody": _("None."),
        "who": _("Diluted"),
        "gain": _("None. Entries that gain:"),
        "more": ngettext("%(n)s more", "%(n)s more", 2) % {"n": "{n}"},
        "saving": _("Saving…"),
        "offline": _("No connection to the server. The bar shows the draft."),
        "server": _("The server could not save it. The bar shows the draft."),
        "again": _("Try again"),
        "signed_out": _("You are signed out. Sign in in another tab, then save again."),
        "number": _("Enter a number, such as 20 or 0.5, or 12.5 %."),
        "hundred": _("Enter less than 100 %."),
        "reload": _("Reload the page and try again."),
        "picked": _("Used {part}. {when}"),
        "only_own": _("Its siblings keep their shares."),
        "gives": _("{name} gives or takes the difference."),
        "when_now": _("On target."),
        "when_day": _("On target on {day} at present demand."),
        "when_not": _("On target: {why}."),
        "when_idle": _("No demand."),
        "take": _("Take {n} points"),
        "give": _("Give {n} points"),
        "over": _("over"),
        "under": _("under"),
        "on": _("on target"),
        "idle": _("no demand"),
        "nodata": _("no data"),
        "late": _("The prediction uses earlier numbers."),
    }


def _balance(row: DraftRow, tolerance: Tolerance) -> presentation.Balance:
    return presentation.balance(row.actual, row.target, has_usage=row.has_usage, tolerance=tolerance)


def _why_fixed(row: DraftRow, *, is_open: bool) -> str:
    if not is_open:
        return _("This draft is closed and read-only.")
    if row.may_change:
        return ""
    return _("locked") if row.node.locked else _("Managed by the owning site")


def _row(row: DraftRow, group: DraftGroup, *, is_open: bool) -> dict[str, Any]:
    was_here = row.before is not None and row.before.parent_uid == group.parent.uid
    return {
        "uid": str(row.node.uid),
        "name": row.node.name,
        "shares": row.node.shares,
        "shares_before": row.before.shares if row.before is not None and was_here else None,
        "target": row.target,
        "target_before": row.target_before if was_here else None,
        "actual": row.actual,
        "has_usage": row.has_usage,
        "is_fixed": bool(_why_fixed(row, is_open=is_open)),
        "is_reserve": row.node.kind == "reserve",
    }


def _member(found: GroupForecast, each: MemberOutlook, *, with_lines: bool) -> dict[str, Any]:
    row, forecast = each.row, each.forecast
    member: dict[str, Any] = {
        "uid": str(row.node.uid),
        "target": row.target,
        "outcome": None if each.on_target is None else each.on_target.outcome,
        "in_s": None if each.on_target is None else each.on_target.in_s,
        "on_target": _when(found, row, each.on_target),
        "on_target_before": _when(found, row, each.on_target_before),
    }
    if with_lines and forecast is not None and found.as_of is not None:
        member["ahead"] = [round(point.likely, _DIGITS) for point in forecast.curve(found.as_of)]
        member["so_far"] = [
            [round((at - found.as_of) / timedelta(days=1), 3), round(part, _DIGITS)] for at, part in forecast.so_far
        ]
    return member


def _when(found: GroupForecast, row: DraftRow, recovery: Recovery | None) -> str:
    if row.actual is None or row.node.shares is None:
        return presentation.UNKNOWN
    if not row.has_usage:
        return _("no demand")
    return presentation.UNKNOWN if recovery is None else when_text(recovery, found.instant(recovery))


def page_url(change_set: int, **_kwargs: Any) -> str:
    return draft_url(change_set, "group=")


@require_safe
def shares(request: HttpRequest, change_set: int) -> HttpResponse:
    """Shares of the children of `group`, of the parent of `entry`, or of the root."""
    view, editor = pages.open_view(request, change_set), EditorState.of(request.GET)
    parent = _parent(view, editor)
    editor = _in_group(editor, parent)
    context = _context(view, editor, parent) | {
        "editor": editor,
        "picked_uid": editor.entry,
        "way": view.tree.lineage(parent)[:-1],
        "words": words(),
        "crumbs": [
            {"label": view.policy.name, "url": reverse("dashboard:policy", kwargs={"policy": view.policy.slug})},
            {"label": presentation.title_of(view.draft), "url": draft_url(change_set)},
            {"label": _("Shares of %(name)s") % {"name": parent.name}},
        ],
    }
    return render(request, "pages/changes/drafts/shares.html", context)


@require_safe
@fragment(page_url)
def group(request: HttpRequest, change_set: int) -> HttpResponse:
    """Fragment with the current state of the group, which the script fetches after a refusal."""
    return group_parts(request, pages.open_view(request, change_set), EditorState.of(request.GET))


def group_parts(request: HttpRequest, view: DraftView, editor: EditorState, *, announcement: str = "") -> HttpResponse:
    """Fragments with the draft's bar, its edits, and the numbers of the group."""
    parent = _parent(view, editor)
    context = _context(view, _in_group(editor, parent), parent) | {"announcement": announcement}
    response = render(request, "pages/changes/drafts/_group.html", context)
    response["ETag"] = f'"{view.draft.version}"'
    return response


@require_safe
@fragment(page_url)
def outlook(request: HttpRequest, change_set: int) -> HttpResponse:
    """Forecast of when each child is on target at present demand; an operation in the query is added to the draft."""
    editor = EditorState.of(request.GET)
    try:
        more = [read_operation(request.GET)] if "op" in request.GET else []
        view = pages.open_view(request, change_set, more=more)
    except Invalid as error:
        return JsonResponse({"problem": message_of(error), "code": error.code}, status=422)
    found = get_group_forecast(view, get_draft_group(view, _parent(view, editor)))
    return JsonResponse(outlook_json(found, with_lines="lines" in request.GET))


def _context(view: DraftView, editor: EditorState, parent: Node) -> dict[str, Any]:
    found = get_draft_group(view, parent)
    tolerance = lines.tolerance_of(view.outcome.settings)
    is_open = view.draft.state not in (ChangeSet.State.PUBLISHED, ChangeSet.State.WITHDRAWN)
    return {
        **pages.bar_context(view),
        **pages.panel_context(view, replace(editor, entry=None)),
        "in_group": True,
        "parent": parent,
        "group": found,
        "lines": group_lines(found, tolerance, is_open=is_open),
        "has_bar": any(row.target for row in found.rows),
        "has_small": has_small(found),
        "numbers": group_json(found, tolerance, is_open=is_open),
        "neighbours": pages.neighbours(view),
        "tolerance": tolerance,
    }


def _parent(view: DraftView, editor: EditorState) -> Node:
    if editor.group is not None:
        return view.require(editor.group)
    entry = view.require(editor.entry) if editor.entry is not None else None
    return view.tree.root if entry is None or entry.parent_uid is None else view.require(entry.parent_uid)


def _in_group(editor: EditorState, parent: Node) -> EditorState:
    """The state with this group, so that forms of the page lead back to it."""
    return replace(editor, group=parent.uid, back=f"group={parent.uid}")
