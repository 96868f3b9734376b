"""The home of a level as cards: what is said of it, its children, what needs attention, what ends, what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core import clock
from apps.engine import convergence
from apps.explain.my_priority import get_my_priority
from apps.mapping.selectors import maps_accounts
from apps.pages.overview import children, verdict
from apps.pages.overview.attention import AttentionItem, list_attention_items, list_ends, list_kinds, list_setup_steps
from apps.pages.overview.cards import Card
from apps.pages.overview.unmapped import unmapped_text
from apps.policies.access.scope import list_own_levels
from apps.policies.requests.inbox import Inbox, get_inbox
from apps.priorities.pins import list_pinned
from apps.priorities.projections import Projection, projections_of
from apps.priorities.selectors import Freshness, Overview, freshness
from apps.priorities.selectors.overview import overview_of
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.sentences import numbers
from apps.series.convergence.recent_days import RecentDays, hours_of_children
from apps.series.daily_series import SeriesState
from apps.series.days import site_zone
from apps.series.stored_series import load_children, series_state
from apps.series.visible_days import as_visible
from apps.web.figures import Figure
from apps.web.figures.deviation import DeviationDay, deviation_figure, is_line
from apps.web.links.addresses import group_url
from apps.web.shell import lines
from apps.web.shell.figure_frames import framed
from apps.web.shell.lines import Line
from apps.web.shell.requests import actor_of
from apps.web.svg import bars
from apps.web.texts.account_explanation import AccountExplanation, build_account_explanation
from apps.web.texts.without_demand import idle_text

SHOWN = 12
LATER = "deviation"  # the card that follows the page when it comes near the window
WIDTH = 88
DAYS = 30


@dataclass(frozen=True)
class LevelChoice:
    """A level that the reader may choose."""

    uid: UUID
    name: str
    is_current: bool


@dataclass(frozen=True)
class HomeData:
    """Data that the cards of one response share; each part is loaded on first use. level: its uid; None: the reader's.

    refusal, refused_text: why chosen requests weren't answered, and the comment that was typed.
    """

    request: HttpRequest
    policy_slug: str
    level: UUID | None = None
    refusal: str = ""
    refused_text: str = ""

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
    def own_levels(self) -> list[int]:
        view = self.view
        return list_own_levels(policy=view.policy, tree=view.tree, actor=self.actor, at=self.now)

    @cached_property
    def at(self) -> int:
        """Index of the level's entry; NotFound for one that the reader may not see."""
        if self.level is not None:
            return self.view.require(self.level)
        return next(iter(self.own_levels), 0)

    @cached_property
    def choices(self) -> list[LevelChoice]:
        """Own levels and the whole, by path; empty if there is only one."""
        tree = self.view.tree
        levels = {0, self.at, *self.own_levels}
        if len(levels) < 2:
            return []
        whole = _("All of %(name)s") % {"name": self.view.policy.name}
        return [
            LevelChoice(tree.uuid(i), tree.name[i] if i else whole, i == self.at) for i in sorted(levels, key=tree.path)
        ]

    @cached_property
    def query(self) -> str:
        """Query string of the level's addresses."""
        level = f"&level={self.view.tree.uuid(self.at)}" if self.at else ""
        return f"?policy={self.policy_slug}{level}"

    @property
    def level_url(self) -> str:
        tree = self.view.tree
        return lines.entry_url(self.policy_slug, tree.uuid(self.at), tree.name[self.at])

    @cached_property
    def overview(self) -> Overview:
        return overview_of(self.view, self.at)

    @cached_property
    def drawn(self) -> list[Line]:
        """Children of the level, the largest target first."""
        overview = self.overview
        rows = sorted(overview.children, key=lambda row: (-(row.target or 0.0), row.name))
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
        return bars.differ_tenfold(row.target or 0.0 for row in self.overview.children)

    @cached_property
    def shown(self) -> list[Line]:
        """The children that are listed, the furthest from its target first."""
        return children.by_distance(self.drawn)[:SHOWN]

    @cached_property
    def projections(self) -> Mapping[UUID, Projection]:
        return projections_of(self.view, [line.entry.uid for line in self.shown])

    @cached_property
    def inbox(self) -> Inbox:
        return get_inbox(at=self.now, actor=self.actor)

    @cached_property
    def attention_items(self) -> list[AttentionItem]:
        items = list_attention_items(self.view, self.overview, self.inbox, at=self.now, actor=self.actor)
        if not self.actor.is_admin or self.at:
            return items
        steps = list_setup_steps(
            self.view.policy,
            has_sources=len(self.fresh.inputs) > 1,
            has_shares=bool(self.overview.children),
            is_mapped=maps_accounts(self.view.policy, self.view.tree),
        )
        return [*steps, *items]

    @cached_property
    def fresh(self) -> Freshness:
        return freshness(policy_slug=self.policy_slug, actor=self.actor)

    @cached_property
    def state(self) -> SeriesState:
        return series_state(self.view.policy)

    @cached_property
    def days(self) -> RecentDays:
        """The last 30 complete days of the level's children, as the reader may see them."""
        to_on = self.now.astimezone(site_zone()).date()
        uid = self.view.tree.uuid(self.at)
        series = load_children(self.view.policy, uid, from_on=to_on - timedelta(days=DAYS), to_on=to_on)
        return RecentDays(self.view, *as_visible(series, view=self.view))

    @cached_property
    def deviation(self) -> list[DeviationDay]:
        """Share-weighted |actual − target| by day, over entries whose numbers the actor may see; by hour while too few
        days make a line.
        """
        days = _deviation_by_step(self.days)
        if is_line(days) or self.state.hours_through_at is None:
            return days
        hours = _deviation_by_step(hours_of_children(self.view, self.at))
        return hours if is_line(hours) else days


def _deviation_by_step(recent: RecentDays) -> list[DeviationDay]:
    series, counts = recent.series, recent.counts
    actual = convergence.actual_share(series.decayed, series.peers_decayed)
    mean, there = convergence.mean_deviation(actual, series.target, counts)
    n_compared = counts.sum(axis=0)
    return [
        DeviationDay(on, float(mean[at]) if there[at] else None, int(series.days.revision[at]), int(n_compared[at]))
        for at, on in enumerate(series.days.on)
    ]


def cards_of(data: HomeData) -> dict[str, Card]:
    """Cards by name; each has a URL of its own."""
    made = (
        ("verdict", _("Verdict"), _verdict, "card verdict"),
        ("children", _("Shares"), _children, "card"),
        ("deviation", _("Deviation"), _deviation, ""),
        ("recent", _("Changes"), _recent, "card"),
        ("attention", _("Needs attention"), _attention, "card"),
        ("ends", _("Ends soon"), lambda data: {"ends": list_ends(data.attention_items)}, "card"),
        ("pins", _("Pinned"), _pins, "card"),
        ("mine", _("Your own jobs"), _mine, "card"),
    )
    return {
        name: Card(
            name=name,
            title=title,
            template=f"pages/overview/_{name}.html",
            url=reverse(f"pages:overview-{name}") + data.query,
            build=partial(build, data),
            css=css,
            is_wrapper=name == LATER,
        )
        for name, title, build, css in made
    }


@dataclass(frozen=True, slots=True)
class LaterPart:
    """What follows the page when it comes near the window. url: of the fragment."""

    title: str
    url: str


def children_by_day(data: HomeData) -> LaterPart:
    """The fair line of the level, as on convergence."""
    url = reverse("pages:convergence-latest", kwargs={"policy": data.policy_slug})
    return LaterPart(_("Fair line"), f"{url}?level={data.view.tree.uuid(data.at)}")


def _verdict(data: HomeData) -> Mapping[str, Any]:
    overview, drawn = data.overview, data.drawn
    return {
        "overview": overview,
        "choices": data.choices,
        "verdict": verdict.verdict(overview.facts, overview),
        "on_target": overview.facts.count,
        "whole": verdict.whole_text(overview),
        "furthest": verdict.furthest(drawn, overview),
        "unmapped": unmapped_text(overview),
        "idle": idle_text(overview.facts.count),
        "next": verdict.on_target_next(data.shown, data.projections),
        "longest": verdict.off_longest(drawn, data.days),
        "deviation": verdict.deviation_now(overview.facts),
        "figures": verdict.figures_of(data.view, data.at, at=data.now, actor=data.actor) if data.at else [],
        "n_to_decide": data.inbox.n_waiting,
        "is_admin": data.actor.is_admin,
    }


def _children(data: HomeData) -> Mapping[str, Any]:
    overview = data.overview
    facts = children.ChildFacts(
        view=data.view,
        overview=overview,
        days=data.days,
        projections=data.projections,
        asking=frozenset(
            each.asks_entry_uid
            for each in (*data.inbox.requests, *data.inbox.sent)
            if each.asks_entry_uid is not None and each.state == "proposed"
        ),
        level_url=data.level_url,
    )
    rest = children.by_distance(data.drawn)[SHOWN:]
    return {
        "overview": overview,
        "rows": facts.rows(data.shown),
        "against_target": data.against_target,
        "scale": "" if data.against_target else _scale(overview),
        "n_rest": overview.n_children - len(data.shown),
        "rest_target": numbers.percent(sum(line.entry.target or 0.0 for line in rest)),
        "divide_url": group_url(data.policy_slug, overview.entry.uid)
        if data.view.visibility.may_divide(data.at)
        else "",
        "convergence_url": convergence_url(data),
    }


def _scale(overview: Overview) -> str:
    """End of the scale that the bars have in common."""
    scales = lines.sibling_scales(
        overview.children, of=lines.OF_PARENT, tolerance=lines.tolerance_of(overview.settings)
    )
    return numbers.percent(next(iter(scales.values()), None), 0)


def convergence_url(data: HomeData) -> str:
    """Address of the level's convergence."""
    url = reverse("pages:convergence", kwargs={"policy": data.policy_slug})
    return f"{url}?level={data.view.tree.uuid(data.at)}" if data.at else url


def _deviation(data: HomeData) -> Mapping[str, Any] | None:
    if not data.overview.children:
        return None
    source = reverse("pages:overview-figure") + data.query
    return {"frame": framed(data.request, source, lambda: draw_deviation(data))}


def draw_deviation(data: HomeData) -> Figure:
    diff = reverse("pages:diff", kwargs={"policy": data.policy_slug})
    return deviation_figure(
        data.deviation,
        policy=data.policy_slug,
        sees_part=bool(data.overview.n_hidden),
        why_empty=_why_no_deviation(data.state),
        revision_url=lambda number: f"{diff}?to={number}",
    )


def _why_no_deviation(state: SeriesState) -> str:
    if state.waiting is not None:
        return _("Daily data is calculated next. %(waits)s") % {"waits": state.waiting.sentence}
    if state.progress is not None:
        return _("Daily data is being calculated: %(percent)s %%.") % {"percent": int(state.progress * 100)}
    if state.through_on:
        return _("Too few days with visible usage: the line needs two.")
    return _("No daily data yet.")


def _recent(data: HomeData) -> Mapping[str, Any] | None:
    if not data.overview.publishes:
        return None
    if data.at:
        uid = data.view.tree.uuid(data.at)
        url = reverse("pages:entry-history", kwargs={"policy": data.policy_slug, "uid": uid})
    else:
        url = reverse("pages:history", kwargs={"policy": data.policy_slug})
    return {"overview": data.overview, "history_url": url}


def _attention(data: HomeData) -> Mapping[str, Any]:
    kinds = list_kinds(data.attention_items, data.inbox, data.actor)
    return {
        "kinds": kinds,
        "n": sum(kind.n for kind in kinds),
        "decide_url": reverse("pages:overview-decide") + data.query,
        "refusal": data.refusal,
        "refused_text": data.refused_text,
    }


def _pins(data: HomeData) -> Mapping[str, Any] | None:
    """Pinned entries of any policy; None without pins."""
    drawn = []
    for view, row in list_pinned(actor=data.actor):
        tolerance = lines.tolerance_of(view.settings)
        line = lines.draw_lines([row], lines.LineContext(policy_slug=view.policy.slug, tolerance=tolerance))[0]
        drawn.append({"line": line, "policy": view.policy, "path": row.path})
    return {"pins": drawn, "next": reverse("pages:overview") + data.query} if drawn else None


def _mine(data: HomeData) -> Mapping[str, Any] | None:
    """The best account of the actor; None for administrators and for users without an account."""
    story = own_priority_summary(data.actor)
    return None if story is None else {"mine": story}


def own_priority_summary(actor: Actor) -> AccountExplanation | None:
    if actor.is_admin:
        return None
    ranked = [explanation for explanation in get_my_priority(actor=actor) if not explanation.error]
    return build_account_explanation(ranked[0]) if ranked else None
