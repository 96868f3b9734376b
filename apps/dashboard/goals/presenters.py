"""A solution in words: what each option changes, who gives, and what was assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.analytics.goals import Lever, Moved, Option, Solution
from apps.dashboard.adjustments.forms import RESOURCES
from apps.dashboard.shell import presentation
from apps.priorities.recompute.projection import DEMAND_DAYS
from apps.priorities.sentences.numbers import MINUS, number, points_phrase

TITLES: dict[Lever, object] = {
    "shares": gettext_lazy("Change one share"),
    "unused": gettext_lazy("Siblings give what they leave unused"),
    "equal": gettext_lazy("All siblings give the same"),
    "refund": gettext_lazy("Credit usage"),
    "half_life": gettext_lazy("Change the half-life"),
}
_TAKES = {  # where the entry has to give
    "unused": gettext_lazy("Siblings over their target get the rest"),
    "equal": gettext_lazy("All siblings get the same"),
}
_MOST_SHOWN = 8
_WHOLE_S = 36_000.0  # below ten hours, decimals count


@dataclass(frozen=True)
class DrawnOption:
    lever: Lever
    title: str
    changes: Sequence[str]
    outcome: str
    moved: Sequence[tuple[str, str]]  # a path, and its points with a sign
    n_more: int
    is_reached: bool


def draw(found: Solution) -> dict[str, object]:
    """What the page shows below its form."""
    drawn = [_option(found, one) for one in found.options]
    return {
        "found": found,
        "verdict": _verdict(found),
        "options": drawn,
        "closest": None if found.closest is None else _option(found, found.closest),
        "assumptions": assumptions(found),
        "left_out": [_left_out(reason) % {"lever": TITLES[lever]} for lever, reason in found.left_out.items()],
    }


def assumptions(found: Solution) -> list[str]:
    return [
        _("Every account goes on at its mean of the last %(n)s days, whatever its priority; busy days move the result.")
        % {"n": DEMAND_DAYS},
        _("A change holds from now on; the result is judged on %(day)s.")
        % {"day": formats.date_format(found.at, "j M Y, H:i")},
        _("An entry loses what its target minus its actual share falls by. Shares change targets, not usage."),
    ]


def _verdict(found: Solution) -> str:
    given = {
        "name": found.name,
        "day": formats.date_format(found.goal.by, "j M Y"),
        "actual": presentation.percent(found.actual),
        "target": presentation.percent(found.target),
    }
    if found.is_reached_already:
        return _("%(name)s is at its target on %(day)s without a change: %(actual)s of %(target)s.") % given
    if found.options:
        return (
            _("%(name)s can be at its target on %(day)s; without a change it is at %(actual)s of %(target)s.") % given
        )
    given["points"] = points_phrase(found.goal.most_lost)
    return _("Not possible by %(day)s if no other entry may lose more than %(points)s.") % given


def _option(found: Solution, option: Option) -> DrawnOption:
    takes = bool(option.shares) and option.target < found.target
    title = _TAKES.get(option.lever, TITLES[option.lever]) if takes else TITLES[option.lever]
    shown = option.moved[:_MOST_SHOWN]
    return DrawnOption(
        lever=option.lever,
        title=str(title),
        changes=_changes(option),
        outcome=_("%(actual)s of a target of %(target)s; largest loss %(points)s.")
        % {
            "actual": presentation.percent(option.actual),
            "target": presentation.percent(option.target),
            "points": points_phrase(option.lost),
        },
        moved=[(one.path, signed_points(one)) for one in shown],
        n_more=len(option.moved) - len(shown),
        is_reached=option.is_reached,
    )


def _changes(option: Option) -> list[str]:
    if option.lever == "refund":
        hours = option.refund_s / 3600
        amount = number(hours, 0 if option.refund_s >= _WHOLE_S else 1)
        return [f"{amount} {dict(RESOURCES)[option.resource]}"]
    if option.half_life_s is not None:
        before = presentation.duration(option.half_life_before_s or 0)
        return [f"{before} → {presentation.duration(option.half_life_s)}"]
    return [
        f"{one.name}: {presentation.shares(one.before)} → {presentation.shares(one.after)}"
        for one in option.shares[:_MOST_SHOWN]
    ]


def signed_points(one: Moved) -> str:
    """+0.8, −1.2: points of percent."""
    shown = number(abs(one.points), 1)
    return shown if float(f"{one.points:.1f}") == 0 else f"{'+' if one.points > 0 else MINUS}{shown}"


def _left_out(reason: str) -> str:
    if reason == "no_half_life":
        return _("%(lever)s: the decay function has none.")
    return _("%(lever)s: its effect on entries that you may not see isn’t shown.")
