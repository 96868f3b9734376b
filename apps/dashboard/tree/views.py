"""The policy tree: shares beside what was used, one line an entry, and the whole as one picture."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.core import clock
from apps.core.errors import FieldProblem, Invalid, NotFound
from apps.dashboard.algorithm import words as algorithm_words
from apps.dashboard.figures import bars
from apps.dashboard.shell import lines, origins, time_travel
from apps.dashboard.shell.figure_frames import answer_figure, framed
from apps.dashboard.shell.lines import draw_trends
from apps.dashboard.shell.requests import SeeOther, actor_of, fragment
from apps.explain.entry_page import EntryPage, get_entry_page
from apps.figures import Figure
from apps.figures.tree.asked import TreeAsked, read_tree_asked
from apps.figures.tree.figure import tree_figure
from apps.priorities import selectors
from apps.priorities.records import IciclePage, LocalOnly
from apps.priorities.selectors import TreePage
from apps.priorities.selectors.tree import get_icicle, get_tree_rows
from apps.priorities.selectors.visible_snapshot import local_only_among

# --- Lines ------------------------------------------------------------------------------------------------------------
MAX_QUERY = 128
MOST_CURRENT = 100  # rows of one window


def page_url(policy: str, **_: Any) -> str:
    return reverse("dashboard:policy", kwargs={"policy": policy})


@require_safe
def tree(request: HttpRequest, policy: str) -> HttpResponse:
    """The whole page; `?open=`, `?of=`, `?q=` and `?entry=` carry its state, so that it can be shared."""
    if "toggle" in request.GET:
        return SeeOther(f"{page_url(policy)}?{_toggled(request.GET).urlencode()}")
    if elsewhere := time_travel.day_asked(request):
        return SeeOther(elsewhere)
    of, query, at = _of(request), _query(request), time_travel.moment_asked(request)
    page = selectors.get_tree_page(
        policy_slug=policy, actor=actor_of(request), of=of, open_uids=_open_uids(request), query=query, at=at
    )
    chosen = _uid(request.GET["entry"]) if request.GET.get("entry") else None
    context = {
        **rows_context(page, of=of),
        **panel_context(request, policy, chosen),
        "query": query,
        "links": _links(request.GET),
        "look_back": None if page.moment else time_travel.look_back(request, policy),
        "time_bar": time_travel.time_bar(request, page.moment, policy),
        "at": "" if at is None else time_travel.written(at),
        "carried": json.dumps(_carried(of, at)),
        "local_only": _local_only(page),
        "crumbs": [
            {"label": page.policy_name, "url": reverse("dashboard:overview")},
            {"label": gettext("Policy tree")},
        ],
    }
    return render(request, "dashboard/policy/tree.html", context)


@require_safe
@fragment(page_url)
def rows(request: HttpRequest, policy: str) -> HttpResponse:
    """Children of one entry, a hundred at a time."""
    of = _of(request)
    page = selectors.get_tree_page(
        policy_slug=policy,
        actor=actor_of(request),
        of=of,
        parent_uid=_uid(request.GET.get("parent", "")),
        cursor=request.GET.get("cursor") or None,
        at=time_travel.moment_asked(request),
    )
    return render(request, "dashboard/policy/_rows.html", rows_context(page, of=of))


@require_safe
@fragment(page_url)
def current(request: HttpRequest, policy: str) -> HttpResponse:
    """What the rows in the window say now: `?e=` is one of them, the head of the page comes along."""
    of = _of(request)
    wanted = tuple(_uid(text) for text in request.GET.getlist("e")[:MOST_CURRENT])
    context = rows_context(get_tree_rows(policy_slug=policy, actor=actor_of(request), uids=wanted), of=of)
    context["lines"] = [line for line in context["lines"] if line.entry.uid in set(wanted)]
    return render(request, "dashboard/policy/_current.html", context)


@require_safe
@fragment(page_url)
def search(request: HttpRequest, policy: str) -> HttpResponse:
    """The tree narrowed to what matches, with the way to it."""
    of, query, at = _of(request), _query(request), time_travel.moment_asked(request)
    page = selectors.get_tree_page(policy_slug=policy, actor=actor_of(request), of=of, query=query, at=at)
    response = render(request, "dashboard/policy/_rows.html", {**rows_context(page, of=of), "query": query})
    state = QueryDict(mutable=True)
    state.update(_carried(of, at))
    if query:
        state["q"] = query
    response["HX-Replace-Url"] = f"{page_url(policy)}?{state.urlencode()}" if state else page_url(policy)
    found = ngettext("%(n)s entry found", "%(n)s entries found", page.n_matches) % {"n": page.n_matches}
    response["HX-Trigger"] = json.dumps({"announce": found if query else ""})
    return response


@require_safe
@fragment(page_url)
def panel(request: HttpRequest, policy: str) -> HttpResponse:
    """What stands beside the tree for the chosen entry."""
    context = panel_context(request, policy, _uid(request.GET.get("entry", "")))
    return render(request, "dashboard/policy/_panel.html", context)


def rows_context(page: TreePage, *, of: str) -> dict[str, Any]:
    own_column = algorithm_words.telling_column(page.own_columns)
    moment = time_travel.suffix(page.moment.asked if page.moment else None)
    has_trend = page.moment is None and page.view is not None
    drawn = lines.draw_lines(
        page.rows,
        policy_slug=page.policy_slug,
        tolerance=lines.tolerance_of(page.settings),
        of=of,
        own_column=own_column,
        algorithm=page.algorithm,
        moment=moment,
        trends=draw_trends(page.view, page.rows, of=of) if has_trend and page.view is not None else {},
        origins=_origins(page),
    )
    return {
        "page": page,
        "own_column": own_column,
        "own_title": algorithm_words.title_of(own_column),
        "n_columns": 5 + bool(own_column) + has_trend,
        "has_trend": has_trend,
        "of": of,
        "lines": list(lines.with_more(drawn, page.more, policy_slug=page.policy_slug, moment=moment)),
        "n_lines": len(drawn) + 1,
        "focus_uid": drawn[0].entry.uid if drawn else None,
    }


def panel_context(request: HttpRequest, policy: str, uid: UUID | None) -> dict[str, Any]:
    """The chosen entry drawn large, of the past beside what it is now; without one the panel explains the tree."""
    if uid is None:
        return {"chosen": None}
    at = time_travel.moment_asked(request)
    page = get_entry_page(policy_slug=policy, uid=uid, actor=actor_of(request), at=at)
    tolerance = lines.tolerance_of(page.settings)
    parent = page.ancestors[-1] if page.ancestors else None
    return {
        "chosen": page,
        "chosen_line": _large(page, time_travel.suffix(at)),
        "now": _now(request, policy, uid) if page.moment else None,
        "chosen_parent": parent,
        "sibling_shares": lines.whole_of([page.entry, *page.siblings]),
        "own_numbers": algorithm_words.own_numbers(page.entry.columns, page.algorithm, tolerance),
        "scope_words": lines.phrase(page.scope, page.scope_sources),
        "compared_words": lines.phrase(*page.compared_by),
        "origin": None
        if page.moment
        else origins.origin_of(policy_slug=policy, uid=uid, at=clock.now(), actor=actor_of(request)),
    }


def _origins(page: TreePage) -> Mapping[UUID, lines.Origin]:
    if page.view is None:
        return {}
    return origins.origins_of(page.view.policy, page.view.tree, at=clock.now(), is_past=page.moment is not None)


def _local_only(page: TreePage) -> list[LocalOnly]:
    return [] if page.view is None else local_only_among(page.view, [row.uid for row in page.rows])


def _large(page: EntryPage, moment: str = "") -> lines.Line | None:
    drawn = lines.draw_lines(
        page.siblings or [page.entry],
        policy_slug=page.policy_slug,
        tolerance=lines.tolerance_of(page.settings),
        width=bars.PANEL_WIDTH,
        moment=moment,
    )
    return next((each for each in drawn if each.entry.uid == page.entry.uid), None)


def _now(request: HttpRequest, policy: str, uid: UUID) -> dict[str, Any] | None:
    """The same entry today, if it is still there."""
    try:
        page = get_entry_page(policy_slug=policy, uid=uid, actor=actor_of(request))
    except NotFound:
        return None
    return {"page": page, "line": _large(page), "parent": page.ancestors[-1] if page.ancestors else None}


def _carried(of: str, at: int | datetime | None) -> dict[str, str]:
    """What every address of this view takes along."""
    found = {"of": of} if of != lines.OF_PARENT else {}
    return found if at is None else {**found, time_travel.AT: time_travel.written(at)}


def _of(request: HttpRequest) -> str:
    return lines.OF_TOTAL if request.GET.get("of") == lines.OF_TOTAL else lines.OF_PARENT


def _query(request: HttpRequest) -> str:
    return request.GET.get("q", "").strip().replace("\0", "")[:MAX_QUERY]


def _open_uids(request: HttpRequest) -> tuple[UUID, ...]:
    return tuple(_uid(text) for text in request.GET.getlist("open"))


def _uid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        message = gettext("This address can’t name an entry. Open the tree again and choose it there.")
        raise Invalid(message, fields=[FieldProblem("address", text[:64])]) from None


def _toggled(asked: QueryDict) -> QueryDict:
    """The state after opening or closing one entry, for a page without scripts."""
    state = asked.copy()
    toggled = state.pop("toggle")
    opened = dict.fromkeys(state.getlist("open"))
    for uid in map(str, toggled):
        if uid in opened:
            del opened[uid]
        else:
            opened[uid] = None
    state.setlist("open", list(opened))
    return state


def _links(asked: QueryDict) -> dict[str, str]:
    """Addresses of the same view, of the parent and of the whole."""
    found = {}
    for of in (lines.OF_PARENT, lines.OF_TOTAL):
        state = asked.copy()
        state["of"] = of
        found[of] = f"?{state.urlencode()}"
    return found


# --- Icicle -----------------------------------------------------------------------------------------------------------
@require_safe
def icicle(request: HttpRequest, policy: str) -> HttpResponse:
    """`?entry=` is chosen, `?kind=icicle|treemap`, `?size=target|actual`, `?color=balance|share`, `?at=` a revision or
    an instant. What can't be drawn is said in the picture's place."""
    if elsewhere := time_travel.day_asked(request):
        return SeeOther(elsewhere)
    problem = None
    try:
        page, asked = _read(request, policy, request.GET)
    except Invalid as refused:
        problem = refused
        page, asked = _read(request, policy, QueryDict())

    def make() -> Figure:
        if problem:
            raise problem
        return tree_figure(page, asked, request.GET, _entry_of(request, policy))

    source = reverse("dashboard:tree-figure", kwargs={"policy": policy})
    context: dict[str, Any] = {
        "page": page,
        "frame": framed(request, source, make),
        "policy": policy,
        "live": page.moment is None,
        "time_bar": time_travel.time_bar(request, page.moment, policy),
        "crumbs": [
            {"label": page.policy_name, "url": reverse("dashboard:policy", kwargs={"policy": policy})},
            {"label": _("Icicle")},
        ],
        **panel_context(request, policy, asked.entry),
    }
    return render(request, "dashboard/convergence/icicle.html", context, status=422 if problem else 200)


@require_safe
def figure(request: HttpRequest, policy: str, form: str = "json") -> HttpResponseBase:
    """The picture as JSON, its entries as CSV, for the page's own query."""
    page, asked = _read(request, policy, request.GET)
    return answer_figure(request, tree_figure(page, asked, request.GET, _entry_of(request, policy)), form)


def _read(request: HttpRequest, policy: str, query: QueryDict) -> tuple[IciclePage, TreeAsked]:
    """Raises Invalid for a query that can't be drawn, NotFound for an entry that the actor may not see."""
    asked = read_tree_asked(query)
    page = get_icicle(
        policy_slug=policy,
        actor=actor_of(request),
        chosen_uid=asked.entry,
        sizes=asked.size,
        levels=asked.levels,
        smallest=asked.smallest,
        at=time_travel.moment_asked(request),
    )
    return page, asked


def _entry_of(request: HttpRequest, policy: str) -> Callable[[UUID, str], str]:
    """The page of an entry, as of the same moment."""
    suffix = time_travel.suffix(time_travel.moment_asked(request))
    return lambda uid, name: f"{lines.entry_url(policy, uid, name, suffix)}#children"
