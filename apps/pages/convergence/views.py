"""Pages that compare usage with the policy by day: panels of an entry's children, figures and tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from math import isinf
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from apps.core import clock
from apps.core.errors import TooLarge
from apps.explain.entry_page import get_entry_page
from apps.pages.convergence import page_query
from apps.pages.convergence import presenters as drawing
from apps.pages.convergence.figures.by_name import draw_figure, read_figure
from apps.pages.convergence.figures.heat import LEAST_ENTRIES
from apps.pages.convergence.figures.labels import Links
from apps.pages.convergence.figures.panels import PAGE, newest_text
from apps.pages.convergence.page_query import PageQuery, read_page_query
from apps.series.convergence.numbers import get_convergence_data, get_convergence_until_now, list_paths
from apps.series.convergence.query import DAILY_UP_TO, available_days_text, today_of
from apps.series.convergence.records import ChildrenQuery, Convergence, sample_weekly
from apps.series.convergence.selectors import get_series_state
from apps.series.daily_series import SeriesState
from apps.web.figures import Figure
from apps.web.origins import origin_of
from apps.web.shell import lines, presentation
from apps.web.shell.figure_frames import FigureFrame, answer_figure, framed
from apps.web.shell.requests import SeeOther, actor_of, csv_response, fragment


@dataclass(frozen=True, slots=True)
class Kpi:
    label: str
    value: str
    note: str


def kpis(convergence: Convergence) -> list[Kpi]:
    """Mean deviation, time within tolerance, half-life of the deviation after the last change, redistributed share."""
    figures = convergence.figures
    mean = presentation.UNKNOWN if figures.mean_deviation is None else presentation.points(figures.mean_deviation)
    n_days = convergence.n_finished
    words = {"n": presentation.count(n_days)}
    last = ngettext("of the last day", "of the last %(n)s days", n_days) % words
    mean_note = ngettext(
        "points, share-weighted, of the last day", "points, share-weighted, of the last %(n)s days", n_days
    )
    return [
        Kpi(_("Mean deviation"), mean, mean_note % words),
        Kpi(_("Time within tolerance"), presentation.percent(figures.inside, 0), last),
        Kpi(_("Half-life of the deviation"), *_half_time(convergence)),
        Kpi(
            _("Idle share redistributed"),
            presentation.percent(figures.idle_redistributed),
            _("of the policy") if not convergence.ancestors else _("of %(name)s") % {"name": convergence.entry.name},
        ),
    ]


def _half_time(convergence: Convergence) -> tuple[str, str]:
    days, number = convergence.figures.half_time_days, convergence.figures.half_time_revision
    if days is None:
        return presentation.UNKNOWN, _("No changes in this period.")
    after = _("after revision %(n)s") % {"n": number}
    if isinf(days):
        return _("not yet"), after
    return ngettext("%(n)s day", "%(n)s days", 1 if days == 1 else 2) % {"n": f"{days:.3g}"}, after


@require_safe
def figure(
    request: HttpRequest, policy: str, figure: str, uid: UUID | None = None, name: str = "", form: str = "json"
) -> HttpResponseBase:
    return answer_figure(request, _make(request, policy, figure, uid), form)


def frame_of(request: HttpRequest, policy: str, figure: str, uid: UUID | None, name: str) -> FigureFrame:
    """A figure on its page. uid, name: of the page's entry, if any."""
    source = figure_url(policy, figure, uid, name)
    return framed(request, source, lambda: _make(request, policy, figure, uid))


def figure_url(policy: str, figure: str, uid: UUID | None, name: str) -> str:
    kwargs: dict[str, object] = {"policy": policy, "figure": figure}
    if uid is None:
        return reverse("dashboard:convergence-figure", kwargs=kwargs)
    return reverse("dashboard:entry-convergence-figure", kwargs=kwargs | {"uid": uid, "name": name})


def _make(request: HttpRequest, policy: str, name: str, uid: UUID | None, query: QueryDict | None = None) -> Figure:
    actor = actor_of(request)
    query = request.GET if query is None else query
    state = get_series_state(policy_slug=policy, actor=actor)
    requested = read_figure(name, query, state, today_of(clock.now()))
    numbers = requested.numbers
    convergence = None if numbers is None else get_convergence_data(numbers, policy_slug=policy, uid=uid, actor=actor)
    return draw_figure(requested, convergence, _links(policy))


def _links(policy: str) -> Links:
    """Links of a figure: a day opens the tree at its end, a revision its change set."""
    tree = reverse("dashboard:policy", kwargs={"policy": policy})
    diff = reverse("dashboard:diff", kwargs={"policy": policy})
    return Links(
        moment=f"{tree}?day={{at}}",
        revision=lambda number: f"{diff}?to={number}",
        entry=lambda uid, name: f"{lines.entry_url(policy, UUID(uid), name)}convergence/",
    )


_MOST_LISTED = 40


def page_url(policy: str, uid: UUID | None = None, name: str = "", **_kwargs: Any) -> str:
    if uid is None:
        return reverse("dashboard:convergence", kwargs={"policy": policy})
    return reverse("dashboard:entry-convergence", kwargs={"policy": policy, "uid": uid, "name": name})


@require_safe
def show(request: HttpRequest, policy: str, uid: UUID | None = None, name: str = "") -> HttpResponse:
    """`?days=` or `?from=&to=`, `?view=&window=`, `?of=`, `?overlay=`: the complete state, so URLs can be shared."""
    requested, convergence = _read(request, policy, uid)
    if uid is not None and name != lines.name_slug(convergence.entry.name):
        query = request.GET.urlencode()
        right = page_url(policy, uid, lines.name_slug(convergence.entry.name))
        return SeeOther(f"{right}?{query}" if query else right)
    if uid is not None:
        lines.show_tabs_of(request, uid, convergence.entry.name)
    of_itself = _own_panel(request, requested, convergence, uid)
    context = {**_context(request, requested, convergence), **of_itself, **_figures(request, convergence, uid)}
    status = 422 if requested.problem else 200
    return render(request, "pages/convergence/convergence.html", context, status=status)


@require_safe
@fragment(page_url)
def over_time(request: HttpRequest, policy: str, uid: UUID, name: str) -> HttpResponse:
    """Card of an entry's page: usage and target by day; for the root the children furthest from their target."""
    actor = actor_of(request)
    entry = get_entry_page(policy_slug=policy, uid=uid, actor=actor)
    query = QueryDict(urlencode(({"pick": str(uid)} if entry.ancestors else {}) | {"range": "30"}))
    source = f"{figure_url(policy, 'focus', uid, name)}?{query.urlencode()}"
    frame = framed(request, source, lambda: _make(request, policy, "focus", uid, query))
    return render(request, "web/_figure.html", {"frame": frame})


@require_safe
@fragment(page_url)
def panels(request: HttpRequest, policy: str, uid: UUID | None = None, name: str = "") -> HttpResponse:
    """The next twelve panels."""
    requested, convergence = _read(request, policy, uid)
    return render(request, "pages/convergence/_panels.html", _panels(request, requested, convergence))


@require_safe
@fragment(page_url)
def building(request: HttpRequest, policy: str, uid: UUID | None = None, name: str = "") -> HttpResponse:
    """Progress of building the daily series; the page reloads itself when it is complete."""
    state = _state(request, policy)
    response = render(request, "pages/convergence/_building.html", _building(request, policy, state))
    if state.run is None:
        response["HX-Refresh"] = "true"
    return response


@require_safe
def days_csv(request: HttpRequest, policy: str, uid: UUID | None = None, name: str = "") -> HttpResponseBase:
    """Every day of every member as numbers; for an entry without children its own days."""
    _asked, convergence = _read(request, policy, uid, itself="itself" in request.GET)
    what = lines.name_slug(convergence.entry.name) if uid is not None else policy
    by = "-by-hour" if convergence.is_by_hour else ""
    file_name = f"{what}-convergence-{convergence.period.from_on}-{convergence.period.to_on}{by}.csv"
    header = ("hour", *drawing.CSV_HEADER[1:]) if convergence.is_by_hour else drawing.CSV_HEADER
    return csv_response(file_name, header, drawing.csv_rows(convergence))


def _state(request: HttpRequest, policy: str) -> SeriesState:
    return get_series_state(policy_slug=policy, actor=actor_of(request))


def _read(
    request: HttpRequest, policy: str, uid: UUID | None, *, itself: bool = False
) -> tuple[PageQuery, Convergence]:
    requested = read_page_query(request, _state(request, policy), clock.now())
    try:
        convergence = _get(request, policy, uid, requested, itself=itself)
    except TooLarge as problem:
        requested = replace(requested, against_today=False, problem=problem.message, problem_at="measure")
        convergence = _get(request, policy, uid, requested, itself=itself)
    return requested, convergence


def _get(request: HttpRequest, policy: str, uid: UUID | None, requested: PageQuery, *, itself: bool) -> Convergence:
    """Convergence with the newest snapshot as its last point, like the figures."""
    query = ChildrenQuery(
        period=requested.period,
        method=requested.method,
        by_hour=requested.by_hour,
        against_today=requested.against_today,
        itself=itself,
    )
    return get_convergence_until_now(query, policy_slug=policy, uid=uid, actor=actor_of(request))


def _context(request: HttpRequest, requested: PageQuery, convergence: Convergence) -> dict[str, Any]:
    policy = convergence.policy_slug
    of_entry = bool(convergence.ancestors)
    base = (
        page_url(policy, convergence.entry.uid, lines.name_slug(convergence.entry.name))
        if of_entry
        else page_url(policy)
    )
    # Whether complete hours are missing and no run is building them.
    through_at = convergence.state.hours_through_at
    return {
        "found": convergence,
        "asked": requested,
        "title": drawing.scope_text(convergence),
        "verdict": convergence.verdict,
        "last_full": drawing.short_day(convergence.on[convergence.n_finished - 1]) if convergence.n_finished else "",
        "local_only": convergence.local_only,
        "origin": origin_of(policy_slug=policy, uid=convergence.entry.uid, at=clock.now(), actor=actor_of(request)),
        "kpis": kpis(convergence),
        "periods": page_query.periods(requested),
        "views": page_query.method_choices(requested),
        "wholes": page_query.total_choices(requested),
        "overlays": page_query.overlay_choices(requested),
        "n_overlays": len(requested.overlays),
        "today_query": requested.query(against_today=True),
        "then_query": requested.query(against_today=False),
        "hours_are_late": through_at is not None
        and convergence.state.run is None
        and clock.now() - through_at > timedelta(hours=2),
        "base": base,
        "query": requested.query(),
        "members": list(drawing.member_rows(convergence)),
        "published": convergence.published[: -_MOST_LISTED - 1 : -1],
        "n_unlisted": max(len(convergence.published) - _MOST_LISTED, 0),
        "gap_text": _gap_text(convergence),
        "available_days_text": available_days_text(convergence.state),
        "newest": newest_text(convergence),
        "crumbs": _crumbs(convergence),
        "policy": policy,
        **_panels(request, requested, convergence),
        **_building(request, policy, convergence.state),
    }


def _additional_figures(convergence: Convergence) -> list[str]:
    """Additional figures: a heat map if there are too many members for lines."""
    many = ["heat"] if len(convergence.members) >= LEAST_ENTRIES else []
    return ["stack", *many] if len(convergence.members) > 1 and not convergence.itself else []


def _figures(request: HttpRequest, convergence: Convergence, uid: UUID | None) -> dict[str, Any]:
    """Figures below the panels, and options of the form that adds an entry to compare."""
    if not convergence.on:
        return {}
    name = lines.name_slug(convergence.entry.name)
    focus = frame_of(request, convergence.policy_slug, "focus", uid, name)
    extra = focus.figure.extra
    fields = [("pick", pick) for pick in extra.get("picks", ())]
    fields += [("slots", extra["slots"])] if extra.get("slots") else []
    kept = [(key, value) for key, values in request.GET.lists() for value in values if key not in {"pick", "slots"}]
    names = list_paths(policy_slug=convergence.policy_slug, actor=actor_of(request), below=uid)
    return {
        "live": True,
        "focus": focus,
        "more_figures": [
            frame_of(request, convergence.policy_slug, figure, uid, name) for figure in _additional_figures(convergence)
        ],
        "pick_fields": [*kept, *fields],
        "pick_names": names,
    }


def _panels(request: HttpRequest, requested: PageQuery, convergence: Convergence) -> dict[str, Any]:
    """Groups of one page of panels, and the URL of the next page."""
    drawn = sample_weekly(convergence) if convergence.period.n_days > DAILY_UP_TO else convergence
    n_pages = drawing.n_pages(convergence)
    page = _page(request, n_pages)
    base = f"{convergence.policy_slug}"
    following = requested.query(page=page + 1) if page < n_pages else ""
    of_entry = bool(convergence.ancestors)
    kwargs: dict[str, Any] = {"policy": base}
    if of_entry:
        kwargs |= {"uid": convergence.entry.uid, "name": lines.name_slug(convergence.entry.name)}
    name = "dashboard:entry-convergence-panels" if of_entry else "dashboard:convergence-panels"
    return {
        "groups": [] if convergence.itself or not convergence.on else drawing.groups_of(drawn, requested, page=page),
        "panels_url": figure_url(base, "panels", convergence.entry.uid if of_entry else None, kwargs.get("name", "")),
        "page": page,
        "n_pages": n_pages,
        "next_url": f"{reverse(name, kwargs=kwargs)}?{following}" if following else "",
        "next_query": following,
        "n_left": max(len(convergence.members) - page * PAGE, 0),
        "sample_weekly": convergence.period.n_days > DAILY_UP_TO,
    }


def _page(request: HttpRequest, n_pages: int) -> int:
    requested = request.GET.get("page", "1")
    return min(max(int(requested), 1), n_pages) if requested.isdecimal() and len(requested) < 9 else 1


def _own_panel(
    request: HttpRequest, requested: PageQuery, convergence: Convergence, uid: UUID | None
) -> dict[str, Any]:
    """The entry's own panel among its siblings with a table of its days; empty for the root."""
    if uid is None or not convergence.ancestors:
        return {}
    own = convergence
    if not convergence.itself:
        _asked, own = _read(request, convergence.policy_slug, uid, itself=True)
    drawn = sample_weekly(own) if own.period.n_days > DAILY_UP_TO else own
    parent = convergence.ancestors[-1]
    up = page_url(convergence.policy_slug, parent.uid, lines.name_slug(parent.name))
    up = page_url(convergence.policy_slug) if len(convergence.ancestors) == 1 else up
    return {
        "own": drawing.own_panel_line(drawn, requested) if own.on else None,
        "own_url": figure_url(convergence.policy_slug, "own", uid, lines.name_slug(convergence.entry.name)),
        "own_verdict": own.verdict,
        "own_days": drawing.day_rows(drawn),
        "newest_form": "j M Y, H:i",
        "day_form": "j M Y, H:i" if drawn.is_by_hour else "j M Y",
        # Sentences without duplicates: what holds for the entry and its children is shown once.
        "local_only": list(
            {sentence.text: sentence for sentence in [*own.local_only, *convergence.local_only]}.values()
        ),
        "parent": parent,
        "up": f"{up}?{requested.query()}" if requested.query() else up,
    }


def _building(request: HttpRequest, policy: str, state: SeriesState) -> dict[str, Any]:
    percent = None if state.progress is None else round(state.progress * 100)
    return {
        "series": state,
        "percent": percent,
        "building_url": reverse("dashboard:convergence-building", kwargs={"policy": policy}),
        "stale_from": state.stale_from_on,
    }


def _gap_text(convergence: Convergence) -> str:
    """Sentence naming the sources with missing days and how many."""
    counted: dict[str, int] = {}
    for names in convergence.gaps.values():
        for name in names:
            counted[name] = counted.get(name, 0) + 1
    return ", ".join(
        ngettext("%(name)s on %(n)s day", "%(name)s on %(n)s days", n) % {"name": name, "n": presentation.count(n)}
        for name, n in sorted(counted.items())
    )


def _crumbs(convergence: Convergence) -> list[dict[str, str]]:
    tree = reverse("dashboard:policy", kwargs={"policy": convergence.policy_slug})
    top = {"label": convergence.policy_name, "url": tree}
    if not convergence.ancestors:
        return [top, {"label": _("Convergence")}]
    between = [
        {"label": row.name, "url": page_url(convergence.policy_slug, row.uid, lines.name_slug(row.name))}
        for row in convergence.ancestors[1:]
    ]
    first = {"label": _("Convergence"), "url": page_url(convergence.policy_slug)}
    return [top, first, *between, {"label": convergence.entry.name}]
