"""State of the tree page in its query string, and context of its templates: rows, controls, selected entry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import NotFound
from apps.explain.entry_page import EntryPage, get_entry_page
from apps.pages.tree.state import LEVELS, TreeState
from apps.policies.changesets import drafts
from apps.priorities.moments import LocalOnly
from apps.priorities.selectors import TreePage
from apps.priorities.selectors.tree_listing import parts_of_children
from apps.priorities.selectors.visible_snapshot import local_only_among
from apps.web.changes.change_titles import titles_of
from apps.web.listings.listing import Column
from apps.web.listings.tree_listing import TREE
from apps.web.shell import lines, time_travel
from apps.web.shell.lines import draw_trends
from apps.web.shell.requests import actor_of
from apps.web.svg import bars
from apps.web.svg.bars import Tolerance
from apps.web.texts import algorithm_text
from apps.web.texts.origins import origin_of, origins_of

NAME = Column("entry", str, title=gettext_lazy("Entry"), sort="name")


@dataclass(frozen=True, slots=True)
class Heading:
    """Heading of a column. sort_url: empty if it can't be sorted. order: value of aria-sort."""

    column: Column
    title: str
    hint: str = ""
    sort_url: str = ""
    order: str = ""
    is_shown: bool = True


def headings_of(page: TreePage, state: TreeState, own: str) -> list[Heading]:
    """Of columns available on this page in table order, without the entry's name. own: see `own_column_of`."""
    has_trend = page.moment is None and page.view is not None
    headings = []
    for column in TREE.on("table"):
        if column.name == "own" and own:
            headings.append(_heading(column, state, title=algorithm_text.title_of(own), hint=own))
        elif column.name != "own" and (has_trend or column.name != "trend"):
            headings.append(_heading(column, state))
    return headings


def own_column_of(page: TreePage) -> str:
    """The most informative number specific to the algorithm; "" if it has none."""
    return algorithm_text.main_column(page.own_columns)


def _heading(column: Column, state: TreeState, title: str = "", hint: str = "") -> Heading:
    name, title, is_shown = column.sort, title or column.title, column.name in state.columns
    if not name:
        return Heading(column, title, hint, is_shown=is_shown)
    order = {name: "ascending", f"-{name}": "descending"}.get(state.sort, "")
    return Heading(column, title, hint, state.address(sort=state.sorted_by(name)), order, is_shown)


def controls_context(page: TreePage, state: TreeState) -> dict[str, Any]:
    """Links and fields above the rows; each URL is this state with one change."""
    plain, is_whole = {"open": (), "shut": ()}, not (state.open or state.shut)
    levels = [
        {"n": n, "url": state.address(level=n, query="", **plain), "is_current": is_whole and page.level == n}
        for n in LEVELS
    ]
    return {
        "levels": levels,
        "algorithm_label": algorithm_text.label_of(page.settings.algorithm),
        "links": {of: state.address(of=of) for of in (lines.OF_PARENT, lines.OF_TOTAL)},
        "off_url": state.address(off_target=not state.off_target, level=None, **plain),
        "export_url": reverse("pages:policy-csv", kwargs={"policy": page.policy_slug}) + state.address(),
        "kept_by_toggles": [pair for pair in _with_level(page, state) if pair[0] != "q"],
        "kept_by_columns": [pair for pair in state.pairs() if pair[0] != "col"],
        "carried": json.dumps(_search_params(state)),
    }


def selection_context(page: TreePage, actor: Actor) -> dict[str, Any]:
    """Actions for selected rows and the drafts they can go into; empty for past revisions and without permission."""
    at = clock.now()
    if page.view is None or page.moment is not None or not drafts.may_edit(page.view.policy, actor, at):
        return {"may_select": False}
    own_drafts = [
        each for each in drafts.list_drafts(policy=page.view.policy, at=at, actor=actor) if each.state == "draft"
    ]
    titles = titles_of(own_drafts, actor=actor, at=at, sees=page.view.visibility)
    actions = [
        ("scale", _("Multiply shares")),
        ("end", _("End on a day")),
        ("move", _("Move")),
        ("archive", _("Archive")),
        ("lock", _("Lock")),
        ("unlock", _("Unlock")),
    ]
    return {
        "may_select": True,
        "actions": actions,
        "my_drafts": [(each.pk, titles[each.pk].text) for each in own_drafts],
    }


def _with_level(page: TreePage, state: TreeState) -> list[tuple[str, str]]:
    """State with the level that a fresh page is opened to: without it, opening an entry would close the others."""
    pairs = state.pairs()
    return pairs if state.level is not None or not page.level else [("level", str(page.level)), *pairs]


def _search_params(state: TreeState) -> dict[str, Any]:
    """Parts of the state that a search by name keeps."""
    params: dict[str, Any] = {}
    for name, value in state.pairs():
        if name in ("q", "open", "shut"):
            continue
        params[name] = [*params.get(name, []), value] if name == "col" else value
    return params


def rows_context(page: TreePage, state: TreeState) -> dict[str, Any]:
    own_column = own_column_of(page)
    moment = time_travel.moment_query(page.moment.asked if page.moment else None)
    tolerance = lines.tolerance_of(page.settings)
    headings = headings_of(page, state, own_column)
    shown = [heading.column for heading in headings if heading.is_shown]
    shows_trends = any(column.name == "trend" for column in shown)
    trends = draw_trends(page.view, page.rows, of=state.of) if page.view is not None and shows_trends else {}
    drawn = lines.draw_lines(
        page.rows,
        lines.LineContext(
            policy_slug=page.policy_slug,
            tolerance=tolerance,
            of=state.of,
            own_column=own_column,
            algorithm=page.algorithm,
            moment=moment,
            trends=trends,
            origins=_origins(page),
            scales=_scales(page, state.of, tolerance),
        ),
    )
    return {
        "page": page,
        "own_column": own_column,
        "headings": headings,
        "name_heading": _heading(NAME, state),
        "shown": shown,
        "n_columns": 1 + len(shown),
        "of": state.of,
        "lines": list(lines.with_more(drawn, page.more, policy_slug=page.policy_slug, moment=moment)),
        "n_lines": (page.n_rows or len(drawn)) + 1,
        "focus_uid": drawn[0].entry.uid if drawn else None,
        "next_url": _next_url(page, state),
        "query": state.query,
        "is_filtered": state.arranged.is_filtered,
        "may_select": page.moment is None,
    }


def _next_url(page: TreePage, state: TreeState) -> str:
    """URL of the next page of rows, or ""."""
    if not page.n_left:
        return ""
    return f"{state.address()}&after={page.rows[-1].uid}".replace("?&", "?")


def _scales(page: TreePage, of: str, tolerance: Tolerance) -> Mapping[UUID | None, float] | None:
    """Scale of the bars by parent, over all siblings, so that it doesn't depend on which rows are shown."""
    view = page.view
    if view is None:
        return None
    parents = {row.parent_uid: view.tree.index_of_uid(row.parent_uid) for row in page.rows if row.parent_uid}
    known = {uid: i for uid, i in parents.items() if i is not None}
    parts = parts_of_children(view, known.values(), of_total=of == lines.OF_TOTAL)
    scales: dict[UUID | None, float] = {}
    for uid, i in known.items():
        actual, target = parts[i]
        room = target + (tolerance.relative * target).clip(min=tolerance.floor)
        scales[uid] = bars.scale_for(float(max(actual.max(initial=0), room.max(initial=0))))
    return scales


def _origins(page: TreePage) -> Mapping[UUID, lines.Origin]:
    if page.view is None:
        return {}
    return origins_of(page.view.policy, page.view.tree, at=clock.now(), is_past=page.moment is not None)


def local_only_of(page: TreePage) -> list[LocalOnly]:
    return [] if page.view is None else local_only_among(page.view, [row.uid for row in page.rows])


def panel_context(request: HttpRequest, policy: str, uid: UUID | None) -> dict[str, Any]:
    """Context of the panel for the selected entry, for a past revision also its present state.

    Without an entry the panel explains the tree.
    """
    if uid is None:
        return {"chosen": None}
    at = time_travel.read_moment_param(request)
    page = get_entry_page(policy_slug=policy, uid=uid, actor=actor_of(request), at=at)
    parent = page.ancestors[-1] if page.ancestors else None
    return {
        "chosen": page,
        "chosen_line": _large(page, time_travel.moment_query(at)),
        "now": _present_entry(request, policy, uid) if page.moment else None,
        "chosen_parent": parent,
        "sibling_shares": lines.whole_of([page.entry, *page.siblings]),
        "own_numbers": algorithm_text.own_numbers(page.entry.columns, page.algorithm, page.entry.state),
        "scope_text": lines.phrase(page.scope, page.scope_sources),
        "compared_text": lines.phrase(*page.compared_by),
        "origin": None
        if page.moment
        else origin_of(policy_slug=policy, uid=uid, at=clock.now(), actor=actor_of(request)),
    }


def _large(page: EntryPage, moment: str = "") -> lines.Line | None:
    drawn = lines.draw_lines(
        page.siblings or [page.entry],
        lines.LineContext(
            policy_slug=page.policy_slug,
            tolerance=lines.tolerance_of(page.settings),
            width=bars.PANEL_WIDTH,
            moment=moment,
        ),
    )
    return next((each for each in drawn if each.entry.uid == page.entry.uid), None)


def _present_entry(request: HttpRequest, policy: str, uid: UUID) -> dict[str, Any] | None:
    """The present version of the entry, None if it no longer exists."""
    try:
        page = get_entry_page(policy_slug=policy, uid=uid, actor=actor_of(request))
    except NotFound:
        return None
    return {"page": page, "line": _large(page), "parent": page.ancestors[-1] if page.ancestors else None}
