"""Pages that compare usage with the policy by day: the entries of a level, one entry over time, figures and tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from apps.core import clock
from apps.core.errors import Invalid, TooLarge
from apps.pages.convergence import presenters
from apps.pages.convergence.figures import over_time as over_time_figures
from apps.pages.convergence.figures.by_name import OF_GROUP, check_name
from apps.pages.convergence.figures.course import GroupNumbers, axis_of
from apps.pages.convergence.figures.fair_layout import ROOMS, SMALL_ROOMS
from apps.pages.convergence.figures.fair_line import (
    N_FAIR_DAYS,
    FairLine,
    MemberLinks,
    fair_line_figure,
    fair_line_of,
    tolerance_text,
)
from apps.pages.convergence.figures.fair_line import NAME as FAIR_LINE
from apps.pages.convergence.figures.fair_picture import draw_fair
from apps.pages.convergence.figures.heat import LEAST_ENTRIES, heat_figure
from apps.pages.convergence.figures.sections import Section, sections_of
from apps.pages.convergence.figures.tiles import page_of
from apps.pages.convergence.levels import level_of, list_levels, own_level
from apps.pages.convergence.page_query import PageQuery, read_page_query, usual_page_query
from apps.pages.convergence.range_bar import period_text, range_bar
from apps.priorities.projections import projections_of
from apps.priorities.selectors.rows import open_view
from apps.priorities.sentences import numbers as number_texts
from apps.series.convergence.numbers import Group, get_group
from apps.series.convergence.periods import available_days_text, default_period, today_of
from apps.series.convergence.query import DAILY_UP_TO, WINDOWED, Member
from apps.series.convergence.records import Convergence
from apps.series.convergence.selectors import get_series_state
from apps.series.daily_series import SeriesState
from apps.web.figures import Figure
from apps.web.figures.figure import with_changes
from apps.web.shell import lines, presentation
from apps.web.shell.figure_frames import FigureFrame, answer_figure, framed
from apps.web.shell.requests import SeeOther, actor_of, csv_response, fragment
from apps.web.texts.origins import origin_of

_MOST_LISTED_REVISIONS = 40
_LEAST_PLAYED_DAYS = 8  # with fewer the fair line plays hours
NUMBERS = "numbers"  # what is opened on demand


def page_url(policy: str, uid: UUID | None = None, name: str = "", **_kwargs: Any) -> str:
    if uid is None:
        return reverse("pages:convergence", kwargs={"policy": policy})
    return reverse("pages:entry-convergence", kwargs={"policy": policy, "uid": uid, "name": name})


def figure_url(policy: str, figure: str, uid: UUID | None = None, name: str = "") -> str:
    kwargs: dict[str, object] = {"policy": policy, "figure": figure}
    if uid is None:
        return reverse("pages:convergence-figure", kwargs=kwargs)
    return reverse("pages:entry-convergence-figure", kwargs=kwargs | {"uid": uid, "name": name})


@dataclass(eq=False)
class Reading:
    """What a request shows: its state and the numbers for it. uid: of the entry over time; None for a level's children.

    problem: why the default state is shown instead; problem_at: the parameter that it is about.
    """

    request: HttpRequest
    policy: str
    uid: UUID | None
    query: QueryDict
    asked: PageQuery
    problem: str = ""
    problem_at: str = ""

    @cached_property
    def level(self) -> UUID | None:
        """The entry whose children are shown, by default those beside the selected entry; None for the root."""
        if self.asked.level is not None:
            return self.asked.level
        view = open_view(policy_slug=self.policy, actor=actor_of(self.request))
        return level_of(view, self.asked.entry) if self.asked.entry is not None else own_level(view)

    @cached_property
    def group(self) -> Group:
        return get_group(
            self.asked.children(itself=self.uid is not None),
            policy_slug=self.policy,
            uid=self.uid if self.uid is not None else self.level,
            actor=actor_of(self.request),
            before=self.asked.before if self.asked.is_compared else None,
        )

    @cached_property
    def numbers(self) -> GroupNumbers:
        convergence, earlier = self.group.convergence, self.group.before
        is_projected = self.asked.children().is_projected and convergence.latest_at is not None
        uids = [member.uid for member in convergence.members if member.is_here]
        return GroupNumbers(
            query=self.asked,
            convergence=convergence,
            before={}
            if earlier is None
            else {
                member.uid: dict(zip(earlier.on, earlier.actual[row].tolist(), strict=True))
                for row, member in enumerate(earlier.members)
            },
            projections=projections_of(self.group.view, uids) if is_projected else {},
        )

    @cached_property
    def fair_reading(self) -> Reading:
        """The level of the page over the days that the fair line plays; by the hour while there are few of them."""
        state = _state(self.request, self.policy)
        period = default_period(state, today_of(clock.now()), N_FAIR_DAYS)
        n_built = (state.through_on - state.first_on).days + 1 if state.through_on and state.first_on else 0
        is_by_hour = self.asked.by_hour or (n_built < _LEAST_PLAYED_DAYS and state.hours_through_at is not None)
        asked = replace(
            self.asked,
            range_="",
            period=period,
            until=None,
            zoom=None,
            is_compared=False,
            by_hour=is_by_hour and self.asked.method.view != WINDOWED,
            against_today=self.asked.against_today and not is_by_hour,
            level=self.level,
        )
        return Reading(self.request, self.policy, self.uid, self.query, asked)

    @cached_property
    def fair_line(self) -> FairLine | None:
        """As the page shows it first: from its own numbers, unless they end in the past."""
        end = self.convergence.latest_at is not None or self.convergence.is_by_hour
        return fair_line_of(self.numbers if end else self.fair_reading.numbers)

    @property
    def convergence(self) -> Convergence:
        return self.group.convergence

    @cached_property
    def sections(self) -> list[Section]:
        axis = None if self.uid is not None else axis_of(self.numbers)
        return [] if axis is None else sections_of(self.numbers, axis)

    @cached_property
    def selected(self) -> UUID | None:
        """The entry whose picture is large; None if there is none."""
        try:
            row = over_time_figures.selected_row(self.numbers)
        except Invalid:
            return None
        return None if row is None else self.convergence.members[row].uid

    @property
    def base(self) -> str:
        if self.uid is None:
            return page_url(self.policy)
        return page_url(self.policy, self.uid, lines.name_slug(self.convergence.entry.name))

    def without_compare_with_today(self, problem: TooLarge) -> Reading:
        asked = replace(self.asked, against_today=False)
        return Reading(self.request, self.policy, self.uid, self.query, asked, problem.message, "measure")


def _read(request: HttpRequest, policy: str, uid: UUID | None, query: QueryDict | None = None) -> Reading:
    """Raises Invalid for a state that can't be shown."""
    query = request.GET if query is None else query
    return Reading(request, policy, uid, query, read_page_query(query, _state(request, policy), today_of(clock.now())))


def _read_for_page(request: HttpRequest, policy: str, uid: UUID | None = None) -> Reading:
    """As `_read`, but with the default state and a problem instead of an error."""
    try:
        reading = _read(request, policy, uid)
    except Invalid as problem:
        usual = usual_page_query(request.GET, _state(request, policy), today_of(clock.now()))
        where = problem.fields[0].where if problem.fields else ""
        reading = Reading(request, policy, uid, request.GET, usual, problem.message, where)
    try:
        reading.group  # noqa: B018 - loads it
    except TooLarge as problem:
        return reading.without_compare_with_today(problem)
    return reading


def _of_children(reading: Reading, uid: UUID) -> Reading:
    """Show the children of an entry in the state of the page."""
    return Reading(reading.request, reading.policy, None, reading.query, replace(reading.asked, level=uid))


def _state(request: HttpRequest, policy: str) -> SeriesState:
    return get_series_state(policy_slug=policy, actor=actor_of(request))


# --- Pages


@require_safe
def show(request: HttpRequest, policy: str) -> HttpResponse:
    """The entries of a level: `?level=&entry=&range=` or `&from=&to=`, `&zoom=&compare=1&unit=`, `&view=&of=`."""
    reading = _read_for_page(request, policy)
    figure = _figure_frame(reading)
    groups = [
        presenters.tile_group(
            section,
            reading.query,
            reading.base,
            selected=reading.selected,
            may_change=partial(_may_change, reading),
            page=page_of(reading.query) if section.key == reading.query.get("section") else 1,
            is_drawn=section.key != "rest" or _is_rest_open(reading),
        )
        for section in reading.sections
    ]
    context = {
        **_context(reading),
        "heading": presenters.heading(reading.numbers),
        "levels": list_levels(reading.group.view, reading.level),
        "frame": figure,
        "fair": _fair_frame(reading),
        "groups": groups,
        "is_rest_open": _is_rest_open(reading),
        "heat": _heat_frame(reading),
        "numbers_query": with_changes(reading.query, more=NUMBERS),
        "numbers": _numbers_of_period(reading)
        if reading.query.get("more", "") == NUMBERS and reading.convergence.on
        else None,
    }
    return _answer(reading, "pages/convergence/convergence.html", context, figure)


@require_safe
def show_entry(request: HttpRequest, policy: str, uid: UUID, name: str) -> HttpResponse:
    """One entry over time, with the same state. The root has no target: its children are shown."""
    reading = _read_for_page(request, policy, uid)
    query = request.GET.urlencode()
    if not reading.convergence.ancestors:
        return HttpResponsePermanentRedirect(f"{page_url(policy)}?{query}" if query else page_url(policy))
    if name != lines.name_slug(reading.convergence.entry.name):
        return SeeOther(f"{reading.base}?{query}" if query else reading.base)
    lines.show_tabs_of(request, uid, reading.convergence.entry.name)
    figure = _figure_frame(reading)
    return _answer(reading, "pages/convergence/entry.html", {**_context(reading), "frame": figure}, figure)


def _answer(reading: Reading, template: str, context: dict[str, Any], figure: FigureFrame | None) -> HttpResponse:
    is_refused = bool(reading.problem) or (figure is not None and figure.is_refused)
    return render(reading.request, template, context, status=422 if is_refused else 200)


def _is_rest_open(reading: Reading) -> bool:
    """Whether entries on target are shown, too: if asked for, or without others."""
    return reading.query.get("section") == "rest" or all(section.key == "rest" for section in reading.sections)


def _context(reading: Reading) -> dict[str, Any]:
    convergence, asked = reading.convergence, reading.asked
    through_at = convergence.state.hours_through_at
    return {
        "shown": convergence,
        "asked": asked,
        "problem": reading.problem,
        "problem_at": reading.problem_at,
        "bar": range_bar(reading.numbers, reading.query, reading.base, problem_at=reading.problem_at),
        "base": reading.base,
        "page_query": reading.query.urlencode(),
        "live": bool(convergence.on),
        "local_only": convergence.local_only,
        "origin": origin_of(
            policy_slug=reading.policy, uid=convergence.entry.uid, at=clock.now(), actor=actor_of(reading.request)
        ),
        # Whether complete hours are missing and no run is building them.
        "hours_are_late": through_at is not None
        and convergence.state.run is None
        and clock.now() - through_at > timedelta(hours=2),
        "today_query": with_changes(reading.query, measure="today"),
        "then_query": with_changes(reading.query, measure=None),
        "sample_weekly": convergence.period.n_days > DAILY_UP_TO,
        "newest": presenters.newest_text(convergence),
        "available_days_text": available_days_text(convergence.state),
        "gap_text": _gap_text(convergence),
        "csv_url": f"{reading.base}days.csv?{_csv_query(reading)}",
        "crumbs": _crumbs(reading),
        "policy": reading.policy,
        **_building(reading.policy, convergence.state),
    }


def _csv_query(reading: Reading) -> str:
    return with_changes(reading.query, itself=None if reading.uid is None else "1")


def _crumbs(reading: Reading) -> list[dict[str, str]]:
    convergence = reading.convergence
    tree = reverse("pages:policy", kwargs={"policy": reading.policy})
    crumbs = [{"label": convergence.policy_name, "url": tree}]
    if reading.uid is None:
        return [*crumbs, {"label": _("Convergence")}]
    entry = convergence.entry
    return [
        *crumbs,
        {"label": entry.name, "url": lines.entry_url(reading.policy, entry.uid, entry.name)},
        {"label": _("Over time")},
    ]


# --- Figures


@require_safe
def figure(
    request: HttpRequest, policy: str, figure: str, uid: UUID | None = None, name: str = "", form: str = "json"
) -> HttpResponseBase:
    check_name(figure)
    return answer_figure(request, _draw(_read(request, policy, uid), figure), form)


def _draw(reading: Reading, name: str) -> Figure:
    if name == over_time_figures.NAME:
        return _draw_over_time(reading)
    if name == FAIR_LINE:
        rooms = SMALL_ROOMS if reading.query.get("small") == "1" else ROOMS
        return fair_line_figure(fair_line_of(reading.fair_reading.numbers), partial(_links_of, reading), rooms=rooms)
    return OF_GROUP[name](reading.numbers, reading.query)


def _draw_over_time(reading: Reading) -> Figure:
    numbers, entry, view = reading.numbers, reading.asked.entry, reading.group.view
    if entry is not None and all(entry != member.uid for member in numbers.convergence.members):
        i = view.tree.index_of_uid(entry)
        if i is None or not view.visibility.may_see(i):
            raise over_time_figures.no_such_entry()
    row = over_time_figures.selected_row(numbers)
    if row is None or not numbers.convergence.on:
        return over_time_figures.over_time_figure(numbers, "", extra={})
    facts = _facts(reading, row)
    extra = {
        "facts": render_to_string("pages/convergence/_facts.html", {"facts": facts}),
        "period": period_text(numbers),
    }
    title = _("Over time") if reading.uid is not None else ""
    return over_time_figures.over_time_figure(numbers, facts.sentence, title=title, extra=extra)


def _fair_frame(reading: Reading, *, is_small: bool = False) -> dict[str, Any] | None:
    """The fair line as the page shows it before its numbers of other days come; None without days."""
    line = reading.fair_line if reading.convergence.on else None
    if line is None:
        return None
    rooms, links_of = SMALL_ROOMS if is_small else ROOMS, partial(_links_of, reading)
    svg = draw_fair(line, links_of, rooms[0]) if line.rows else ""
    source = figure_url(reading.policy, FAIR_LINE)
    if is_small:
        source = f"{source}?{with_changes(reading.query, small='1')}"
    return {
        "frame": FigureFrame(fair_line_figure(line, links_of, rooms=rooms, svg=svg), source, reading.query.urlencode()),
        "tolerance": tolerance_text(line),
        "above": None if is_small else _level_above(reading),
        "is_small": is_small,
        "url": f"{reading.base}?{reading.query.urlencode()}",
    }


def _level_above(reading: Reading) -> dict[str, str] | None:
    """Name and address of the level above the shown one; None for the root."""
    above = reading.convergence.ancestors
    if not above:
        return None
    query = with_changes(reading.query, level=str(above[-1].uid), entry=None, section=None)
    return {"name": above[-1].name, "query": query}


def _links_of(reading: Reading, member: Member) -> MemberLinks:
    policy, page = reading.policy, page_url(reading.policy)
    return MemberLinks(
        select=f"{page}?{with_changes(reading.query, entry=str(member.uid), section=None, page=None, small=None)}",
        entry=presenters.member_url(policy, member),
        shares=presenters.shares_url_of(policy, member, partial(_may_change, reading)),
        group=presenters.with_level(page, member) if member.n_children and member.is_here else "",
    )


def _facts(reading: Reading, row: int) -> presenters.Facts:
    may_change = partial(_may_change, reading)
    return presenters.facts_of(reading.numbers, row, may_change=may_change, convergence_url=page_url(reading.policy))


def _may_change(reading: Reading, member: Member) -> bool:
    """Whether the reader may set the shares of an entry, which may be gone."""
    view = reading.group.view
    i = view.tree.index_of_uid(member.uid)
    return i is not None and view.row(i).may_change


def _figure_frame(reading: Reading) -> FigureFrame | None:
    if not reading.convergence.on:
        return None
    uid = reading.uid
    name = "" if uid is None else lines.name_slug(reading.convergence.entry.name)
    source = figure_url(reading.policy, over_time_figures.NAME, uid, name)
    return framed(reading.request, source, lambda: _draw_over_time(reading))


# --- Fragments


@require_safe
@fragment(page_url)
def tiles(request: HttpRequest, policy: str) -> HttpResponse:
    """The tiles of a page of a section, `?section=&page=`."""
    reading = _read(request, policy, None)
    section = next((each for each in reading.sections if each.key == reading.query.get("section")), None)
    if section is None:
        return HttpResponse("")
    group = presenters.tile_group(
        section,
        reading.query,
        reading.base,
        selected=reading.selected,
        may_change=partial(_may_change, reading),
        page=page_of(reading.query),
    )
    return render(request, "pages/convergence/_tiles.html", {"group": group, "policy": policy})


@require_safe
@fragment(page_url)
def latest(request: HttpRequest, policy: str) -> HttpResponse:
    """A card with the fair line of the children of `?level=`."""
    query = QueryDict(mutable=True)
    query["level"] = request.GET.get("level", "")
    reading = _read(request, policy, None, query)
    context = {
        "fair": _fair_frame(reading, is_small=True),
        "url": f"{reading.base}?{query.urlencode()}",
        "policy": policy,
        **_building(policy, reading.convergence.state),
    }
    return render(request, "pages/convergence/_latest.html", context)


@require_safe
@fragment(page_url)
def more(request: HttpRequest, policy: str) -> HttpResponse:
    """What is opened on demand: `?more=numbers`."""
    reading = _read(request, policy, None)
    if request.GET.get("more", "") != NUMBERS or not reading.convergence.on:
        return HttpResponse("")
    return render(request, "pages/convergence/_more.html", {"part": _numbers_of_period(reading)})


def _heat_frame(reading: Reading) -> FigureFrame | None:
    """None where there is one entry, which is the picture above."""
    if not reading.convergence.on or len(reading.convergence.members) < LEAST_ENTRIES:
        return None
    return framed(reading.request, figure_url(reading.policy, "heat"), lambda: heat_figure(reading.convergence))


def _numbers_of_period(reading: Reading) -> dict[str, Any]:
    convergence = reading.convergence
    return {
        "shown": convergence,
        "kpis": [] if convergence.is_by_hour else presenters.kpis(convergence),
        "verdict": convergence.verdict,
        "last_full": presentation.short_day(convergence.on[convergence.n_finished - 1])
        if convergence.n_finished and not convergence.is_by_hour
        else "",
        "members": list(presenters.member_rows(convergence)),
        "published": convergence.published[: -_MOST_LISTED_REVISIONS - 1 : -1],
        "n_unlisted": max(len(convergence.published) - _MOST_LISTED_REVISIONS, 0),
        "policy": reading.policy,
    }


@require_safe
@fragment(page_url)
def over_time(request: HttpRequest, policy: str, uid: UUID, name: str) -> HttpResponse:
    """Card of an entry's page: the entry over time, or its child that `entry` names.

    The root has no share: it shows that of the child farthest off target.
    """
    query = QueryDict("range=30", mutable=True)
    child = request.GET.get("entry", "")
    reading = _read(request, policy, uid, query)
    if child or not reading.convergence.ancestors:
        query["level"] = str(uid)
        if child:
            query["entry"] = child
        reading = _read(request, policy, None, query)
    frame = _figure_frame(reading)
    if frame is not None:
        frame = replace(frame, source=f"{frame.source}?{query.urlencode()}")
    page = f"{reading.base}?{query.urlencode()}" if reading.uid is None else reading.base
    context = {"frame": frame, "page": page, **_building(policy, reading.convergence.state)}
    return render(request, "pages/convergence/_over_time.html", context)


@require_safe
@fragment(page_url)
def building(request: HttpRequest, policy: str) -> HttpResponse:
    """Progress of building the daily series; the page reloads itself when it is complete."""
    state = _state(request, policy)
    response = render(request, "pages/convergence/_building.html", _building(policy, state))
    if state.run is None:
        response["HX-Refresh"] = "true"
    return response


@require_safe
def days_csv(request: HttpRequest, policy: str, uid: UUID | None = None, name: str = "") -> HttpResponseBase:
    """Every day of every member as numbers; of an entry those of its children, with `?itself` its own days."""
    reading = _read_for_page(request, policy, uid)
    if uid is not None and "itself" not in request.GET:
        reading = _of_children(reading, uid)
    convergence = reading.convergence
    what = lines.name_slug(convergence.entry.name) if uid is not None or reading.level is not None else policy
    by = "-by-hour" if convergence.is_by_hour else ""
    file_name = f"{what}-convergence-{convergence.period.from_on}-{convergence.period.to_on}{by}.csv"
    header = ("hour", *presenters.CSV_HEADER[1:]) if convergence.is_by_hour else presenters.CSV_HEADER
    return csv_response(file_name, header, presenters.csv_rows(convergence))


def _building(policy: str, state: SeriesState) -> dict[str, Any]:
    percent = None if state.progress is None else round(state.progress * 100)
    return {
        "series": state,
        "percent": percent,
        "building_url": reverse("pages:convergence-building", kwargs={"policy": policy}),
        "stale_from": state.stale_from_on,
    }


def _gap_text(convergence: Convergence) -> str:
    """Sentence naming the sources with missing days and how many."""
    counted: dict[str, int] = {}
    for names in convergence.gaps.values():
        for name in names:
            counted[name] = counted.get(name, 0) + 1
    return ", ".join(
        ngettext("%(name)s on %(n)s day", "%(name)s on %(n)s days", n) % {"name": name, "n": number_texts.count(n)}
        for name, n in sorted(counted.items())
    )
