"""Is the policy holding, and what needs somebody: the answer in one sentence, then the lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from apps import clock
from apps.dashboard import lines, presentation
from apps.dashboard.actor import actor_of
from apps.dashboard.figures import bullet
from apps.dashboard.figures.bullet import State
from apps.dashboard.htmx import fragment
from apps.dashboard.lines import Line
from apps.dashboard.navigation import current_policy_slug
from apps.dashboard.request_words import group_url
from apps.dashboard.walk import Story, tell
from apps.policies.dividing import list_led_groups
from apps.policies.inbox import count_waiting
from apps.priorities import selectors
from apps.priorities.selectors import Overview
from apps.usage import selectors as usage

SHOWN = 12
WIDTH = 200
MOST_LED = 5


@dataclass(frozen=True, slots=True)
class Concern:
    """One thing that needs somebody, with where to go."""

    icon: str
    title: str
    text: str
    url: str
    classes: str = ""


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:overview")


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    crumbs = [{"label": _("Overview")}]
    found = selectors.get_overview(policy_slug=current_policy_slug(request), actor=actor_of(request))
    if found is None:
        return render(request, "dashboard/overview/empty.html", {"crumbs": crumbs, "steps": _setup_steps(request)})
    crumbs.insert(0, {"label": found.policy_name, "url": _tree_url(found)})
    context = {
        **_top(found, by_balance=request.GET.get("sort") == "balance"),
        "overview": found,
        "concerns": _concerns(request, found),
        "mine": _own_story(request),
        "led": _led(request),
        "crumbs": crumbs,
        "tree_url": _tree_url(found),
    }
    return render(request, "dashboard/overview/overview.html", context)


@require_safe
@fragment(page_url)
def attention(request: HttpRequest) -> HttpResponse:
    """The list of what needs somebody, refreshed on its own while the page stays."""
    found = selectors.get_overview(policy_slug=current_policy_slug(request), actor=actor_of(request))
    concerns = _concerns(request, found) if found else []
    return render(request, "dashboard/overview/_attention.html", {"concerns": concerns, "overview": found})


def _tree_url(found: Overview) -> str:
    return reverse("dashboard:policy", kwargs={"policy": found.policy_slug})


def _top(found: Overview, *, by_balance: bool) -> dict[str, Any]:
    tolerance = lines.tolerance_of(found.settings)
    ranked = sorted(found.top, key=lambda row: (-(row.target or 0.0), row.name))
    if by_balance:
        ranked.sort(key=lambda row: -abs((row.actual or 0.0) - (row.target or 0.0)))
    against_target = bullet.differ_tenfold(row.target or 0.0 for row in ranked)
    drawn = lines.draw_lines(
        ranked, policy_slug=found.policy_slug, tolerance=tolerance, width=WIDTH, against_target=against_target
    )
    compared = [line for line in drawn if line.balance and line.balance.state is not State.NO_DATA]
    rest = drawn[SHOWN:]
    return {
        "lines": drawn[:SHOWN],
        "against_target": against_target,
        "by_balance": by_balance,
        "verdict": _verdict(compared, tolerance.relative, sees_all=not found.n_hidden),
        "furthest": _furthest(compared),
        "n_rest": len(rest),
        "rest_target": presentation.percent(sum(line.entry.target or 0.0 for line in rest)),
    }


def _verdict(compared: list[Line], relative: float, *, sees_all: bool) -> str:
    if not compared:
        return _("No usage yet: nothing to compare")
    good = sum(line.balance is not None and line.balance.state in {State.ON, State.IDLE} for line in compared)
    numbers = {
        "good": presentation.count(good),
        "all": presentation.count(len(compared)),
        "band": presentation.percent(relative, 0),
    }
    if not sees_all and good == len(compared):
        return (
            ngettext(
                "The one top-level entry you see is within ±%(band)s of its target",
                "All %(all)s top-level entries you see are within ±%(band)s of their target",
                len(compared),
            )
            % numbers
        )
    if not sees_all:
        return (
            ngettext(
                "%(good)s of the %(all)s top-level entry you see is within ±%(band)s of its target",
                "%(good)s of the %(all)s top-level entries you see are within ±%(band)s of their target",
                len(compared),
            )
            % numbers
        )
    if good == len(compared):
        return (
            ngettext(
                "The one top-level entry is within ±%(band)s of its target",
                "All %(all)s top-level entries are within ±%(band)s of their target",
                len(compared),
            )
            % numbers
        )
    return _("%(good)s of %(all)s top-level entries are within ±%(band)s of their target") % numbers


def _furthest(compared: list[Line]) -> dict[str, Line | None]:
    """The entry furthest over, and the one furthest under."""
    found: dict[str, Line | None] = {}
    for state in (State.OVER, State.UNDER):
        these = [line for line in compared if line.balance and line.balance.state is state]
        found[state.value] = max(these, key=_distance, default=None)
    return found


def _distance(line: Line) -> float:
    return abs((line.entry.actual or 0.0) - (line.entry.target or 0.0))


def _concerns(request: HttpRequest, found: Overview) -> list[Concern]:
    actor = actor_of(request)
    fresh = selectors.freshness(policy_slug=found.policy_slug, actor=actor)
    tree = _tree_url(found)
    sources = reverse("dashboard:sources")
    waiting = count_waiting(at=clock.now(), actor=actor)
    asked = ngettext("%(n)s decision waits for you", "%(n)s decisions wait for you", waiting) % {"n": waiting}
    concerns = [Concern("git-pull-request", asked, "", reverse("dashboard:inbox"), "warn")] if waiting else []
    concerns += [Concern("clock", problem[:1].upper() + problem[1:], "", sources, "warn") for problem in fresh.problems]
    if found.n_unmapped and actor.is_admin:
        title = ngettext("%(n)s account has no entry", "%(n)s accounts have no entry", found.n_unmapped)
        text = _("%(hours)s core-h in the window, counted for nobody")
        concerns.append(
            Concern(
                "user-question",
                title % {"n": presentation.count(found.n_unmapped)},
                text % {"hours": presentation.core_hours(found.unmapped_core_s)},
                tree,
                "warn",
            )
        )
    drawn = lines.draw_lines(found.top, policy_slug=found.policy_slug, tolerance=lines.tolerance_of(found.settings))
    out = [(line, line.balance) for line in drawn if line.balance and line.balance.state in {State.OVER, State.UNDER}]
    for line, balance in sorted(out, key=lambda pair: _distance(pair[0]), reverse=True)[:3]:
        text = _("%(actual)s used, %(target)s promised") % {"actual": line.actual, "target": line.target}
        title = _("%(name)s is %(balance)s") % {"name": line.entry.name, "balance": balance.text}
        concerns.append(Concern(balance.icon, title, text, line.url, f"{balance.state} solid"))
    return concerns


def _led(request: HttpRequest) -> list[dict[str, str]]:
    """Leads find their groups before anything else."""
    led = list_led_groups(at=clock.now(), actor=actor_of(request))
    return [{"name": each.name, "url": group_url(each.policy_slug, each.uid)} for each in led[:MOST_LED]]


def _own_story(request: HttpRequest) -> Story | None:
    """An end user sees the own priority first; who runs the place sees the place."""
    actor = actor_of(request)
    if actor.is_admin:
        return None
    ranked = [mine for mine in selectors.get_my_priority(actor=actor) if not mine.error]
    return tell(ranked[0]) if ranked else None


def _setup_steps(request: HttpRequest) -> list[dict[str, Any]]:
    """Three steps from an empty site to priorities; ticked by what is there."""
    actor = actor_of(request)
    if not actor.is_admin:
        return []
    has_usage = bool(list(usage.list_sources(actor=actor)))
    return [
        {
            "title": _("Bring in usage"),
            "text": _("Import an accounting log, or let a scheduler push its records."),
            "command": "manage.py import_usage --source my-cluster --format swf log.swf.gz",
            "done": has_usage,
        },
        {
            "title": _("Make a policy"),
            "text": _("Derive a first tree from the groups and users found in the usage, then change its shares."),
            "command": "manage.py propose_policy --policy grid --from-source my-cluster --publish --reason start",
            "done": False,
        },
        {
            "title": _("Connect the scheduler"),
            "text": _("A token with the scope priorities:read answers who goes first."),
            "command": "manage.py create_token --user admin --scope priorities:read",
            "done": False,
        },
    ]
