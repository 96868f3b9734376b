"""The page of a goal, beside the editor: its form, options with their effects, and one of them added to a draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from apps.contrib.forecast.goals import GoalMoved, GoalOption, GoalSolution, Lever
from apps.contrib.forecast.goals.selectors import add_option_to_draft, get_solution, read_goal
from apps.core import clock
from apps.core.errors import Conflict, Invalid, TooOften, status_of
from apps.core.typed_numbers import read_whole
from apps.policies.changesets.drafts import list_drafts, may_edit
from apps.policies.models import ChangeSet
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.sentences import numbers
from apps.priorities.sentences.numbers import MINUS, clock_text, number, points_phrase, unit_of
from apps.web.changes.change_titles import title_of
from apps.web.links.addresses import draft_url
from apps.web.shell import lines, presentation
from apps.web.shell.requests import SeeOther, actor_of

TITLES: dict[Lever, object] = {
    "shares": gettext_lazy("Change shares"),
    "unused": gettext_lazy("Siblings give what they leave unused"),
    "equal": gettext_lazy("All siblings give the same"),
    "refund": gettext_lazy("Credit usage"),
    "half_life": gettext_lazy("Change the half-life"),
}
_TAKES = {  # labels if the entry has to lose share
    "unused": gettext_lazy("Siblings over their target get the rest"),
    "equal": gettext_lazy("All siblings give the same"),
}
_MOST_SHOWN_GOAL_MOVES = 8
_WHOLE_H = 10  # shorter durations are shown with decimals
_NAMES = ("by", "most_lost", "least_target", "most_target")
_USUAL_DAYS = 21


@dataclass(frozen=True)
class DrawnOption:
    lever: Lever
    title: str
    changes: Sequence[str]
    outcome: str
    moved: Sequence[tuple[str, str]]  # (path, signed percentage points)
    n_more: int
    is_reached: bool


def draw(solution: GoalSolution, half_life_s: float) -> dict[str, object]:
    """Template context below the form."""
    drawn = [_option(solution, option, half_life_s) for option in solution.options]
    return {
        "solution": solution,
        "verdict": _verdict(solution),
        "options": drawn,
        "closest": None if solution.closest is None else _option(solution, solution.closest, half_life_s),
        "assumptions": assumptions(solution),
        "left_out": [_left_out(option.reason) % {"lever": TITLES[option.lever]} for option in solution.left_out],
    }


def assumptions(solution: GoalSolution) -> list[str]:
    return [
        _("Every account goes on at its mean of the last %(n)s days, whatever its priority; busy days move the result.")
        % {"n": solution.assumes.demand_days},
        _("A change holds from now on; the result is judged on %(day)s.") % {"day": clock_text(solution.at)},
        _("An entry loses what its target minus its actual share falls by."),
    ]


def _verdict(solution: GoalSolution) -> str:
    shares = numbers.compare_shares(solution.without.actual, solution.without.target)
    values = {
        "name": solution.name,
        "day": formats.date_format(solution.by, "j M Y"),
        "actual": shares.actual,
        "target": shares.target,
    }
    if solution.is_reached_already:
        return _("%(name)s is at its target on %(day)s without a change: %(actual)s of %(target)s.") % values
    if solution.options:
        return (
            _("%(name)s can be at its target on %(day)s; without a change it is at %(actual)s of %(target)s.") % values
        )
    values["points"] = points_phrase(solution.most_lost_points / 100)
    return _("Not possible by %(day)s if no other entry may lose more than %(points)s.") % values


def _option(solution: GoalSolution, option: GoalOption, half_life_s: float) -> DrawnOption:
    takes = bool(option.shares) and option.target < solution.without.target
    title = _TAKES.get(option.lever, TITLES[option.lever]) if takes else TITLES[option.lever]
    shown = option.moved[:_MOST_SHOWN_GOAL_MOVES]
    shares = numbers.compare_shares(option.actual, option.target)
    return DrawnOption(
        lever=option.lever,
        title=str(title),
        changes=_changes(option, half_life_s),
        outcome=_("%(actual)s of a target of %(target)s; largest loss %(points)s.")
        % {
            "actual": shares.actual,
            "target": shares.target,
            "points": points_phrase(option.most_lost_points / 100),
        },
        moved=[(moved.path, signed_points(moved)) for moved in shown],
        n_more=len(option.moved) - len(shown),
        is_reached=option.is_reached,
    )


def _changes(option: GoalOption, half_life_s: float) -> list[str]:
    if option.refund_h is not None and option.resource is not None:
        amount = number(option.refund_h, 0 if option.refund_h >= _WHOLE_H else 1)
        return [f"{amount} {unit_of(option.resource)}"]
    if option.half_life_s is not None:
        before = presentation.duration(half_life_s)
        return [f"{before} → {presentation.duration(option.half_life_s)}"]
    return [
        f"{share.name}: {presentation.shares(share.before)} → {presentation.shares(share.after)}"
        for share in option.shares[:_MOST_SHOWN_GOAL_MOVES]
    ]


def signed_points(moved: GoalMoved) -> str:
    """Percentage points with sign: +0.8, −1.2."""
    shown = number(abs(moved.points), 1)
    return shown if float(f"{moved.points:.1f}") == 0 else f"{'+' if moved.points > 0 else MINUS}{shown}"


def _left_out(reason: str) -> str:
    if reason == "no_half_life":
        return _("%(lever)s: the decay function has none.")
    return _("%(lever)s: its effect on entries that you may not see isn’t shown.")


@require_http_methods(["GET", "HEAD", "POST"])
def goal(request: HttpRequest, policy: str, uid: UUID) -> HttpResponse:
    """`?by=`, `?most_lost=`, `?least_target=` and `?most_target=`. POST with `lever` adds that option to `?draft=`, one
    of the reader's own drafts, or else to a new one.
    """
    view = open_view(policy_slug=policy, actor=actor_of(request))
    i = view.require(uid)
    parameters = request.POST if request.method == "POST" else request.GET
    draft = _draft_of(view, parameters.get("draft", ""))
    if "by" not in parameters:
        return _show(request, view, i, draft, {})
    try:
        requested = read_goal({name: parameters.get(name, "") for name in _NAMES}, entry=uid, today=_today())
        if request.method == "POST":
            lever = request.POST.get("lever", "")
            draft = add_option_to_draft(
                policy_slug=policy, goal=requested, lever=lever, draft=draft, actor=actor_of(request), at=clock.now()
            )
            messages.success(request, _("Added to the draft."))
            return SeeOther(draft_url(draft.pk, urlencode({"entry": str(uid)})))
        solution = get_solution(policy_slug=policy, goal=requested, actor=actor_of(request))
        context = draw(solution, float(view.settings.window.get("half_life_s") or 0))
    except (Invalid, Conflict, TooOften) as error:
        by_field = {field.where: field.message for field in error.fields}
        refusal = "" if set(by_field) & set(_NAMES) else by_field.get("entry", error.message)
        refused = {"errors": by_field, "refusal": refusal, "code": error.code}
        return _show(request, view, i, draft, refused, status=status_of(error))
    return _show(request, view, i, draft, context)


def _draft_of(view: PolicyView, text: str) -> ChangeSet | None:
    """The reader's open draft that the address names; None without one, or if it was published meanwhile."""
    number = read_whole(text)
    own = list_drafts(policy=view.policy, at=view.now, actor=view.actor) if number is not None else []
    return next((each for each in own if each.pk == number), None)


def _today() -> Any:
    return timezone.localtime(clock.now()).date()


def _show(
    request: HttpRequest,
    view: PolicyView,
    i: int,
    draft: ChangeSet | None,
    context: dict[str, Any],
    *,
    status: int = 200,
) -> HttpResponse:
    entry, slug = view.row(i), view.policy.slug
    parameters = request.POST if request.method == "POST" else request.GET
    usual = {"by": (_today() + timedelta(days=_USUAL_DAYS)).isoformat(), "most_lost": "1"}
    tree = {"label": view.policy.name, "url": reverse("pages:policy", kwargs={"policy": slug})}
    above = {"label": entry.name, "url": lines.entry_url(slug, entry.uid, entry.name)}
    if draft is not None:
        title = title_of(draft, actor=view.actor, at=view.now).text
        above = {"label": title, "url": draft_url(draft.pk, urlencode({"entry": entry.uid}))}
    values = {name: parameters.get(name, usual.get(name, "")) for name in _NAMES}
    whole = {
        "policy": slug,
        "uid": entry.uid,
        "entry": entry,
        "draft": draft,
        "back_url": above["url"],
        "values": values,
        "may_draft": may_edit(view.policy, view.actor, view.now),
        "crumbs": [tree, above, {"label": _("Goal")}],
        **context,
    }
    return render(request, "contrib/forecast/goals/goal.html", whole, status=status)
