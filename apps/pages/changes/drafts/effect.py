"""What a draft does to entries that its page shows: targets, ranks, and the day on target, as JSON for the scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.core.errors import Invalid
from apps.pages.changes.drafts import pages
from apps.pages.changes.drafts.forms import read_operation
from apps.pages.changes.drafts.pages import EditorState
from apps.pages.changes.drafts.presenters import DraftLine, draw_draft
from apps.priorities.projections import DraftProjection, Projection, draft_projections_of
from apps.priorities.rank_effect import RankEffect, rank_effect_of_draft
from apps.priorities.selectors.draft import DraftRow, DraftView
from apps.priorities.selectors.draft_group import get_draft_group
from apps.priorities.sentences import numbers
from apps.web.changes.edit_refusals import message_of
from apps.web.links.addresses import draft_url
from apps.web.shell import lines
from apps.web.shell.requests import fragment
from apps.web.texts.day_on_target import when_text
from apps.web.texts.rank_moves import Places, change_text, other_targets_text, places_of

_MOST_EFFECT_ROWS = 200
_MOST_LISTED_MOVES = 4
_MOST_RANKED = 200_000  # entries of a policy whose ranks are computed while somebody types: a second or two


def page_url(change_set: int, **_kwargs: Any) -> str:
    return draft_url(change_set)


@require_safe
@fragment(page_url)
def effect(request: HttpRequest, change_set: int) -> HttpResponse:
    """The effect on the children of `group` and on the entries of `rows`; an operation in the query is tried on top.

    Entries that aren't visible are left out. For an edit that can't be made it says why.
    """
    editor = EditorState.of(request.GET)
    try:
        more = [read_operation(request.GET)] if "op" in request.GET else []
        view = pages.open_view(request, change_set, more=more)
    except Invalid as error:
        return JsonResponse({"problem": message_of(error), "code": error.code})  # typed so far; nothing is refused
    group = [] if editor.group is None else get_draft_group(view, view.require(editor.group)).rows
    return JsonResponse(effect_json(view, group, _others(view, group, request.GET.get("rows", ""))))


def _others(view: DraftView, group: Sequence[DraftRow], wanted: str) -> list[DraftRow]:
    """Rows of the uids that aren't in the group."""
    uids = [pages.uid_of(text) for text in wanted.split(",")[:_MOST_EFFECT_ROWS] if text]
    known = {row.node.uid for row in group}
    nodes = (view.tree.get(uid) for uid in uids if uid not in known)
    return [view.row(node, position=(1, 1)) for node in nodes if node is not None and view.sees(node)]


def effect_json(view: DraftView, group: Sequence[DraftRow], others: Sequence[DraftRow]) -> dict[str, Any]:
    """The effect as the page shows it: texts, and fractions from 0 to 1. Sums and largest moves are of the group."""
    is_large = len(view.base) > _MOST_RANKED
    ranks = None if is_large else rank_effect_of_draft(view)
    rows = [*group, *others]
    projections = draft_projections_of(view, rows)
    drawn = draw_draft(rows, tolerance=lines.tolerance_of(view.outcome.settings))
    return {
        "as_of": None if view.snapshot is None else view.snapshot.as_of.isoformat(),
        "n_moved": None if ranks is None else ranks.n_moved,
        "change": change_text(ranks),
        "lead": lead_text(group, ranks),
        "most": _moved_most(drawn[: len(group)], ranks),
        "note": _note(ranks, is_large=is_large),
        "rows": [_row(line, ranks, projections.get(line.row.node.uid)) for line in drawn],
    }


def _note(ranks: RankEffect | None, *, is_large: bool) -> str:
    """What is said in place of entries whose people move; empty if there are some."""
    if is_large:
        return _("The preview shows the ranks of a policy of this size.")
    if ranks is None:
        return _("There are no ranks yet.")
    return "" if ranks.n_moved else _("No rank changes.")


def _moved_most(drawn: Sequence[DraftLine], ranks: RankEffect | None) -> list[dict[str, Any]]:
    """Entries whose people move furthest, by name."""
    moves = [(line, None if ranks is None else ranks.of_entry(line.row.node.uid)) for line in drawn]
    moved = [(line, each) for line, each in moves if each is not None and each.n_moved]
    moved.sort(key=lambda pair: -abs(pair[1].furthest))
    return [
        {"name": line.row.node.name, "target_text": line.target, "places": places_of(each)._asdict()}
        for line, each in moved[:_MOST_LISTED_MOVES]
    ]


def lead_text(rows: Sequence[DraftRow], ranks: RankEffect | None) -> str:
    """76 change rank · 26 other targets drop by 5.0 %; empty if nothing changes."""
    shifted = [row for row in rows if row.is_shifted and row.target is not None and row.target_before]
    changes = [(row.target or 0.0) / (row.target_before or 1.0) - 1 for row in shifted]
    ranked = change_text(ranks) if ranks is not None and ranks.n_moved else ""
    return " · ".join(text for text in (ranked, other_targets_text(changes)) if text)


def _row(line: DraftLine, ranks: RankEffect | None, projected: DraftProjection | None) -> dict[str, Any]:
    row = line.row
    places = Places("", "", "") if ranks is None else places_of(ranks.of_entry(row.node.uid))
    after = projected.after if projected is not None else None
    return {
        "uid": str(row.node.uid),
        "target": row.target,
        "target_text": line.target,
        "before_text": line.target_before,
        "balance": line.balance.text,
        "state": line.balance.state.value,
        "places": places._asdict(),
        "outcome": None if after is None else after.outcome,
        "on_target_at": None if after is None or after.on_target_at is None else after.on_target_at.isoformat(),
        "on_target": _when(row, after),
        "on_target_before": _when(row, projected.before if projected is not None else None),
    }


def _when(row: DraftRow, projection: Projection | None) -> str:
    if row.actual is None or row.node.shares is None:
        return numbers.UNKNOWN
    if not row.has_usage:
        return _("no demand")
    return numbers.UNKNOWN if projection is None else when_text(projection.outcome, projection.on_target_at)
