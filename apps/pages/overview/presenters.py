"""The cards of the overview, built one by one: a card that fails shows an error and the page stays."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from math import nan
from typing import Any

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import DomainError
from apps.engine import convergence
from apps.explain.my_priority import get_my_priority
from apps.pages.overview import verdict
from apps.pages.overview.attention import list_attention_items
from apps.policies.requests.group_division import list_managed_groups
from apps.priorities.pins import list_pinned, pinned_among
from apps.priorities.selectors import Overview
from apps.priorities.selectors.overview import overview_of
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.series.daily_series import DailySeries, SeriesState, site_zone
from apps.series.stored_series import load_children, series_state
from apps.series.visible_days import as_visible
from apps.web.account_explanation import AccountExplanation, build_account_explanation
from apps.web.figures import Figure
from apps.web.figures.deviation import DeviationDay, deviation_figure
from apps.web.links import group_url
from apps.web.shell import lines, presentation
from apps.web.shell.figure_frames import framed
from apps.web.shell.lines import Line
from apps.web.shell.requests import actor_of
from apps.web.source_lines import lines_of
from apps.web.svg import bars, sparkline
from apps.web.svg.sparkline import Sparkline, draw_sparkline

logger = logging.getLogger(__name__)

KEPT_FOR = timedelta(minutes=15)  # longest age of the last good content, shown to the same user only
_MOST_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Card:
    """One part of a page: its element id, its URL and how it is filled.

    build: returns the template context; None if there is nothing to show, and then no card. label: id of the title in
    the template, by default made of the name.
    """

    name: str
    title: str
    template: str
    url: str
    build: Callable[[], Mapping[str, Any] | None]
    css: str = "card"
    label: str = ""


class _LastGood:
    """The last complete content of each card, by user and URL, in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: LRUCache[tuple[Any, ...], tuple[datetime, str]] = LRUCache(_MOST_KEPT)

    def keep(self, key: tuple[Any, ...], at: datetime, inside: str) -> None:
        with self._lock:
            self._known[key] = at, inside

    def find(self, key: tuple[Any, ...], at: datetime) -> tuple[datetime, str] | None:
        with self._lock:
            cached = self._known.get(key)
        return cached if cached is not None and at - cached[0] <= KEPT_FOR else None

    def clear(self) -> None:
        with self._lock:
            self._known.clear()


last_good = _LastGood()


def draw_card(request: HttpRequest, card: Card, page_url: str) -> str:
    """HTML of a card, "" if there is nothing to show. Never raises: errors are shown in the card."""
    key = (request.user.pk, card.url, get_language())
    now = clock.now()
    problem, inside, since = "", "", None
    try:
        context = card.build()
        if context is None:
            return ""
        inside = render_to_string(card.template, {"card": card, **context}, request)
        last_good.keep(key, now, inside)
    except DomainError as error:
        problem = error.message
    except Exception:  # any failure is limited to its card
        logger.exception("Card %s", card.name)
        problem = _("This part could not be loaded.")
        kept = last_good.find(key, now)
        if kept is not None:
            since, inside = kept
    shown = {"card": card, "inside": inside, "problem": problem, "since": since, "page_url": page_url}
    return render_to_string("web/_card.html", shown, request)


SHOWN = 12
WIDTH = 200
DAYS = 30
MOST_LED = 5
MOST_SOURCES = 5


@dataclass(frozen=True)
class OverviewData:
    """Data that the cards of one response share; each part is loaded on first use."""

    request: HttpRequest
    policy_slug: str

    @cached_property
    def actor(self) -> Actor:
        return actor_of(self.request)

    @cached_property
    def now(self) -> datetime:
        return clock.now()

    @cached_property
    def view(self) -> PolicyView:
        return open_view(policy_slug=self.policy_slug, actor=self.actor)

    @cached_property
    def overview(self) -> Overview:
        return overview_of(self.view)

    @cached_property
    def ranked(self) -> list[Line]:
        """Entries at the top of the tree, the largest target first."""
        overview = self.overview
        rows = sorted(overview.top, key=lambda row: (-(row.target or 0.0), row.name))
        return lines.draw_lines(
            rows,
            lines.LineContext(
                policy_slug=overview.policy_slug,
                tolerance=lines.tolerance_of(overview.settings),
                width=WIDTH,
                against_target=self.against_target,
            ),
        )

    @cached_property
    def against_target(self) -> bool:
        return bars.differ_tenfold(row.target or 0.0 for row in self.overview.top)

    @cached_property
    def state(self) -> SeriesState:
        return series_state(self.view.policy)

    @cached_property
    def series(self) -> DailySeries:
        """Daily series of the root's children over the last 30 complete days."""
        to_on = self.now.astimezone(site_zone()).date()
        root = self.view.tree.uuid(0)
        return load_children(self.view.policy, root, from_on=to_on - timedelta(days=DAYS), to_on=to_on)

    @cached_property
    def visible_series(self) -> tuple[DailySeries, npt.NDArray[np.bool_]]:
        """The daily series with a mask of the numbers that the actor may see."""
        return as_visible(self.series, view=self.view)

    def trend(self, line: Line) -> Sparkline | None:
        """Sparkline of an entry over the last days, in the colour of its present state."""
        series, visible = self.visible_series
        at = {uid: place for place, uid in enumerate(series.uids)}.get(line.entry.uid)
        if at is None or line.balance is None:
            return None
        known = (visible & series.competes & (series.peers_decayed > 0))[at, -sparkline.DAYS :]
        actual = convergence.actual_share(series.decayed[at], series.peers_decayed[at])[-sparkline.DAYS :]
        return draw_sparkline(np.where(known, actual, nan).tolist(), line.entry.target, state=line.balance.state.value)

    @cached_property
    def deviation(self) -> list[DeviationDay]:
        """Share-weighted |actual − target| by day, over entries whose numbers the actor may see."""
        series, visible = self.visible_series
        counts = visible & series.competes & (series.peers_decayed > 0)
        actual = convergence.actual_share(series.decayed, series.peers_decayed)
        mean, there = convergence.mean_deviation(actual, series.target, counts)
        n_compared = counts.sum(axis=0)
        return [
            DeviationDay(on, float(mean[at]) if there[at] else None, int(series.days.revision[at]), int(n_compared[at]))
            for at, on in enumerate(series.days.on)
        ]


def cards_of(data: OverviewData) -> dict[str, Card]:
    """Cards by name; each has a URL of its own."""
    made = (
        ("mine", _("Your priority"), _mine, "card verdict mb"),
        ("verdict", _("Verdict"), _verdict, "card verdict"),
        ("top", _("Top-level shares"), _top, "card"),
        ("deviation", _("Deviation, last 30 days"), _deviation, ""),
        ("pins", _("Pinned"), _pins, "card"),
        ("attention", _("Needs attention"), _attention, "card"),
        ("sources", _("Usage sources"), _sources, "card"),
        ("recent", _("Published changes"), _recent, "card"),
    )
    query = f"?policy={data.policy_slug}" + ("" if _by_balance(data) else "&sort=target")
    return {
        name: Card(
            name=name,
            title=title,
            template=f"pages/overview/_{name}.html",
            url=reverse(f"dashboard:overview-{name}") + query,
            build=_bound(build, data),
            css=css,
            label="fig-deviation-title" if name == "deviation" else "",
        )
        for name, title, build, css in made
    }


def _bound(
    build: Callable[[OverviewData], Mapping[str, Any] | None], data: OverviewData
) -> Callable[[], Mapping[str, Any] | None]:
    return lambda: build(data)


def _mine(data: OverviewData) -> Mapping[str, Any] | None:
    """The best account of the actor; None for administrators and for users without an account."""
    story = own_priority_summary(data.actor)
    return None if story is None else {"mine": story}


def own_priority_summary(actor: Actor) -> AccountExplanation | None:
    if actor.is_admin:
        return None
    ranked = [explanation for explanation in get_my_priority(actor=actor) if not explanation.error]
    return build_account_explanation(ranked[0]) if ranked else None


def managed_groups(actor: Actor, at: datetime) -> list[dict[str, str]]:
    """Groups that the actor leads, as links."""
    led = list_managed_groups(at=at, actor=actor)
    return [{"name": each.name, "url": group_url(each.policy_slug, each.uid)} for each in led[:MOST_LED]]


def _verdict(data: OverviewData) -> Mapping[str, Any]:
    overview = data.overview
    return {
        "overview": overview,
        "verdict": verdict.verdict(data.ranked, sees_all=not overview.n_hidden),
        "within_band": verdict.within_band(data.ranked),
        "furthest": verdict.furthest(data.ranked, overview),
        "idle": verdict.idle_text(data.ranked),
        "deviation": verdict.deviation_now(data.ranked),
        "is_end_user": not data.actor.is_admin,
    }


def _top(data: OverviewData) -> Mapping[str, Any]:
    ranked = list(data.ranked)
    if _by_balance(data):
        ranked.sort(key=lambda line: -verdict.distance(line))
    rest = ranked[SHOWN:]
    pinned = pinned_among(
        policy_slug=data.policy_slug, uids=[line.entry.uid for line in ranked[:SHOWN]], actor=data.actor
    )
    return {
        "overview": data.overview,
        "lines": [(line, line.entry.uid in pinned, data.trend(line)) for line in ranked[:SHOWN]],
        "n_trend_days": sparkline.DAYS,
        "against_target": data.against_target,
        "by_balance": _by_balance(data),
        "n_rest": len(rest),
        "rest_target": presentation.percent(sum(line.entry.target or 0.0 for line in rest)),
        "tree_url": reverse("dashboard:policy", kwargs={"policy": data.policy_slug}),
    }


def _deviation(data: OverviewData) -> Mapping[str, Any]:
    source = reverse("dashboard:overview-figure") + f"?policy={data.policy_slug}"
    return {"frame": framed(data.request, source, lambda: draw_deviation(data))}


def draw_deviation(data: OverviewData) -> Figure:
    diff = reverse("dashboard:diff", kwargs={"policy": data.policy_slug})
    return deviation_figure(
        data.deviation,
        policy=data.policy_slug,
        sees_part=bool(data.overview.n_hidden),
        why_empty=_why_no_deviation(data.state),
        revision_url=lambda number: f"{diff}?to={number}",
    )


def _why_no_deviation(state: SeriesState) -> str:
    if state.progress is not None:
        return _("Daily data is being calculated: %(percent)s %%.") % {"percent": int(state.progress * 100)}
    if state.through_on:
        return _("Too few days with visible usage: the line needs two.")
    return _("No daily data yet.")


def _pins(data: OverviewData) -> Mapping[str, Any] | None:
    """Pinned entries of any policy; None without pins for a user who sees no policy."""
    drawn = []
    for view, row in list_pinned(actor=data.actor):
        tolerance = lines.tolerance_of(view.settings)
        line = lines.draw_lines([row], lines.LineContext(policy_slug=view.policy.slug, tolerance=tolerance))[0]
        drawn.append({"line": line, "policy": view.policy, "path": row.path})
    return {"pins": drawn, "next": reverse("dashboard:overview") + f"?policy={data.policy_slug}"}


def _attention(data: OverviewData) -> Mapping[str, Any]:
    items = list_attention_items(data.view, data.overview, data.ranked, at=data.now, actor=data.actor)
    return {"attention_items": items, "overview": data.overview}


def _sources(data: OverviewData) -> Mapping[str, Any]:
    source_lines = lines_of(data.actor)
    behind_first = sorted(source_lines, key=lambda line: (not line.is_behind, line.source.name))
    return {"sources": behind_first[:MOST_SOURCES], "n_sources": len(source_lines), "may_import": data.actor.is_admin}


def _recent(data: OverviewData) -> Mapping[str, Any]:
    return {
        "overview": data.overview,
        "history_url": reverse("dashboard:history", kwargs={"policy": data.policy_slug}),
    }


def _by_balance(data: OverviewData) -> bool:
    """Whether entries are ordered by distance from their target, the default, so that the furthest are never cut."""
    return data.request.GET.get("sort") != "target"
