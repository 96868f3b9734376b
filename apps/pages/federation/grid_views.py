"""Pages of the grid view of an entry that several sites share, and of its state without the usage of one peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from apps.core import clock
from apps.core.errors import NotFound, TooLarge, Unavailable
from apps.core.typed_numbers import read_whole
from apps.federation.grid.peers import may_federate
from apps.federation.grid.totals import Grid, GridChoice, list_grid_entries, load_grid
from apps.federation.grid.without_sources import Difference, WithoutSources, compare_without_sources
from apps.federation.usage_feeds.subscriptions import get_subscription, list_subscriptions
from apps.pages.federation import grid_presenters as grid_lines
from apps.pages.federation import subscription_presenters as subscription_lines
from apps.pages.federation.figures import grid_flow
from apps.priorities.sentences import numbers
from apps.web.shell import lines, presentation
from apps.web.shell.figure_frames import answer_figure, framed
from apps.web.shell.navigation import current_policy_slug
from apps.web.shell.presentation import KeyedText
from apps.web.shell.requests import actor_of, csv_response
from apps.web.svg import moves
from apps.web.texts.shortened import shortened

_DRAWN = 20
LEVELS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class DifferenceLine:
    """Difference of one entry."""

    difference: Difference
    url: str
    above: str
    target: str
    before: str
    after: str
    change: str
    priority_before: str
    priority_after: str
    rank_before: str
    rank_after: str


def difference_context(comparison: WithoutSources, site: str) -> dict[str, Any]:
    drawn = [row for row in comparison.rows if row.before.actual is not None and abs(row.change) >= 5e-4][:_DRAWN]
    pairs = [
        (
            shortened(row.name, 26),
            presentation.change(row.before.actual, row.after.actual),
            row.before.actual,
            row.after.actual,
        )
        for row in drawn
    ]
    return {
        "headline": headline(comparison, site),
        "lines": [_line(comparison, row) for row in comparison.rows],
        "wide": moves.draw_dumbbell(pairs, width=720) if pairs else None,
        "narrow": moves.draw_dumbbell(pairs, width=340, narrow=True) if pairs else None,
        "moved": _moved(comparison),
    }


def headline(comparison: WithoutSources, site: str) -> KeyedText:
    if not comparison.rows:
        return KeyedText("nothing", _("Without %(site)s nothing visible to you would differ") % {"site": site})
    first = comparison.rows[0]
    if abs(first.change) < 5e-4:
        text = _("Without %(site)s shares would be the same, but some ranks would differ") % {"site": site}
        return KeyedText("ranks", text)
    shares = numbers.change_shares(first.before.actual, first.after.actual)
    words = {"site": site, "name": first.name, "before": shares.before, "after": shares.after}
    return KeyedText("shares", _("Without %(site)s, %(name)s would have %(after)s instead of %(before)s") % words)


def _moved(comparison: WithoutSources) -> str:
    if not comparison.n_moved:
        return _("No visible entry would change rank.")
    text = ngettext("%(n)s entry would change rank.", "%(n)s entries would change rank.", comparison.n_moved)
    return text % {"n": numbers.count(comparison.n_moved)}


def _line(comparison: WithoutSources, row: Difference) -> DifferenceLine:
    actual, target = (row.before.actual, row.after.actual), row.target
    shares = numbers.change_shares(*actual, decimals=numbers.decimals_beside(*actual, target))
    return DifferenceLine(
        difference=row,
        url=lines.entry_url(comparison.policy_slug, row.uid, row.name),
        above=row.path.rpartition("/")[0] or "/",
        target=numbers.percent(target, shares.decimals),
        before=shares.before,
        after=shares.after,
        change=shares.change,
        priority_before=numbers.signed(row.before.priority),
        priority_after=numbers.signed(row.after.priority),
        rank_before=_rank(row.before.rank),
        rank_after=_rank(row.after.rank),
    )


def _rank(rank: int | None) -> str:
    return numbers.UNKNOWN if rank is None else numbers.count(rank)


@require_safe
def grid(request: HttpRequest) -> HttpResponse:
    """Grid view of `?policy=&entry=&levels=`; without an entry, of the first mount, else of the first publication."""
    choices = list_grid_entries(actor=actor_of(request), at=clock.now())
    shown_grid = _asked(request, choices)
    has_tabs = may_federate(at=clock.now(), actor=actor_of(request))
    context: dict[str, Any] = {
        "choices": [(f"{choice.policy_slug}:{choice.path}", choice) for choice in choices],
        "many_policies": len({choice.policy_slug for choice in choices}) > 1,
        "is_admin": actor_of(request).is_admin,
        "has_tabs": has_tabs,
        "crumbs": [
            {"label": _("Federation"), "url": reverse("pages:federation") if has_tabs else ""},
            {"label": _("Grid")},
        ],
    }
    return render(request, "pages/federation/grid.html", context | (_shown(request, shown_grid) if shown_grid else {}))


@require_safe
def grid_csv(request: HttpRequest) -> HttpResponseBase:
    shown_grid = _asked(request, list_grid_entries(actor=actor_of(request), at=clock.now()))
    if shown_grid is None:
        raise NotFound(_("Nothing is shared between sites."))
    name = f"{shown_grid.policy_slug}-{lines.name_slug(shown_grid.name)}-grid.csv"
    return csv_response(name, grid_lines.csv_header(shown_grid), grid_lines.csv_rows(shown_grid))


@require_safe
def flow(request: HttpRequest, form: str = "json") -> HttpResponseBase:
    """Figure of the usage flow, for the page's query."""
    shown_grid = _asked(request, list_grid_entries(actor=actor_of(request), at=clock.now()))
    if shown_grid is None:
        raise NotFound(_("Nothing is shared between sites."))
    return answer_figure(request, grid_flow(shown_grid), form)


def _asked(request: HttpRequest, choices: list[GridChoice]) -> Grid | None:
    policy, entry = request.GET.get("policy", ""), request.GET.get("entry", "")
    if not entry:
        of_policy = [choice for choice in choices if choice.policy_slug == policy] or choices
        if not of_policy:
            return None
        first = min(of_policy, key=lambda choice: choice.why != "mounted")  # a mount comes before publications
        policy, entry = first.policy_slug, first.path
    elif ":/" in entry:  # the page's list of choices submits policy:path
        policy, _colon, entry = entry.partition(":")
    policy = policy or current_policy_slug(request) or ""
    request.policy_slug = policy  # type: ignore[attr-defined]  # the policy that the navigation shows
    return load_grid(
        policy_slug=policy,
        entry=entry,
        actor=actor_of(request),
        at=clock.now(),
        levels=read_whole(request.GET.get("levels", ""), 2) or 1,
    )


def _shown(request: HttpRequest, shown_grid: Grid) -> dict[str, Any]:
    opens = frozenset(subscription.pk for subscription in list_subscriptions(actor=actor_of(request), at=clock.now()))
    return {
        "grid": shown_grid,
        "chosen": f"{shown_grid.policy_slug}:{shown_grid.path}",
        "headline": grid_lines.headline(shown_grid),
        "sentences": grid_lines.sentences(shown_grid),
        "warnings": grid_lines.warnings(shown_grid),
        "lines": grid_lines.grid_lines(shown_grid),
        "sites": grid_lines.site_lines(shown_grid, may_open=opens),
        "depths": [
            (n, grid_lines.grid_url(shown_grid.policy_slug, shown_grid.path, n))
            for n in LEVELS
            if n <= max(shown_grid.deepest, 1)
        ],
        "csv_url": grid_lines.grid_url(shown_grid.policy_slug, shown_grid.path, shown_grid.levels).replace(
            reverse("pages:federation-grid"), reverse("pages:federation-grid-csv"), 1
        ),
        "flow": framed(request, reverse("pages:federation-grid-flow"), lambda: grid_flow(shown_grid)),
        "entry_url": lines.entry_url(shown_grid.policy_slug, shown_grid.uid, shown_grid.name),
    }


@require_safe
def without(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Priorities without the usage of one peer, computed during the request and not stored."""
    actor, at = actor_of(request), clock.now()
    row = get_subscription(subscription_id=subscription_id, actor=actor, at=at)
    request.policy_slug = row.policy.slug  # type: ignore[attr-defined]  # the policy that the navigation shows
    site, comparison, problem = subscription_lines.site_name(row), None, ""
    try:
        comparison = compare_without_sources(policy_slug=row.policy.slug, sources=[row.source.slug], actor=actor, at=at)
    except (TooLarge, Unavailable, NotFound) as refusal:
        problem = refusal.message
    context = {
        "row": row,
        "site": site,
        "found": comparison,
        "problem": problem,
        "back": subscription_lines.subscription_url(row),
        "crumbs": [
            {"label": _("Federation"), "url": reverse("pages:federation")},
            {"label": f"{site}, {row.feed}", "url": subscription_lines.subscription_url(row)},
            {"label": _("Priorities without %(site)s") % {"site": site}},
        ],
        **(
            difference_context(comparison, site)
            if comparison is not None
            else {"headline": KeyedText("problem", _("Priorities without %(site)s") % {"site": site})}
        ),
    }
    return render(request, "pages/federation/without.html", context)
