"""What stands beside a forecast's curve, and a supposition, as pages draw them: sentences, and before beside after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.utils import formats, timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from apps.analytics.forecast import Forecast, ForecastLevel
from apps.analytics.what_if import Place, Tried
from apps.dashboard.shell import presentation
from apps.engine.explain import Recovery
from apps.priorities.sentences import text_of


@dataclass(frozen=True, slots=True)
class LevelLine:
    """One level in a sentence; the main reason is marked."""

    text: str
    decides: bool


@dataclass(frozen=True)
class ForecastCard:
    """What stands below the curve. share: what is typed into its field; problem: why that can't be."""

    policy: str
    entry: str
    levels: Sequence[LevelLine]
    pace: str
    share: str
    problem: str = ""


def card_of(found: Forecast, *, share: str = "", problem: str = "") -> ForecastCard | None:
    """None where there is nothing to tell."""
    shown = found.shown or (found.levels[-1] if found.levels else None)
    if shown is None:
        return None
    deciding = None if found.deciding is None else found.levels[found.deciding]
    return ForecastCard(
        policy=found.policy.slug,
        entry=str(found.entry_uid),
        pace=_pace(shown),
        share=share,
        problem=problem,
        levels=[LevelLine(text_of(list(each.said)), each is deciding) for each in found.levels],
    )


def _pace(shown: ForecastLevel) -> str:
    """Where the pace comes from, in one line; empty where nothing can be foreseen."""
    if shown.outlook is None or not shown.n_days:
        return ""
    facts = {
        "days": ngettext("the last day", "the last %(n)s days", shown.n_days) % {"n": shown.n_days},
        "name": shown.name,
        "parent": shown.parent_name,
        "share": presentation.percent(shown.outlook.share_seen),
    }
    if shown.outlook.share_seen is None:
        return _("%(parent)s had no usage in %(days)s.") % facts
    return _("%(name)s took %(share)s of the usage of %(parent)s in %(days)s.") % facts


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """What is so now, and what would be; alike where nothing changes."""

    key: str
    label: str
    before: str
    after: str

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class WhatIfCard:
    """The form as it was filled in, what is wrong with it, and what came out."""

    policy: str
    entry: str
    group: str
    levels: Sequence[tuple[str, str]]
    typed: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    lines: Sequence[ChangeLine] = ()
    note: str = ""
    is_tried: bool = False


def outcome_of(tried: Tried) -> tuple[list[ChangeLine], str]:
    """Before beside after, and where the pace comes from."""
    lines = [
        ChangeLine("rank_now", _("Rank now"), _rank(tried.now, tried.of), _rank(tried.now_if, tried.of)),
        ChangeLine("rank_then", _("Rank in 7 days"), _rank(tried.then, tried.of), _rank(tried.then_if, tried.of)),
    ]
    if tried.then.factor is not None or tried.then_if.factor is not None:
        lines.append(
            ChangeLine(
                "factor_then",
                _("Factor in 7 days"),
                presentation.factor(tried.then.factor),
                presentation.factor(tried.then_if.factor),
            )
        )
    shown = tried.forecast.shown
    if shown is not None and tried.back is not None and tried.back_if is not None:
        label = _("%(name)s at its target") % {"name": shown.name}
        lines.append(ChangeLine("back_at_target", label, _when(tried, tried.back), _when(tried, tried.back_if)))
    basis = {
        "last_days": _("All others continue as in the last two weeks."),
        "present_usage": _("All others continue at the pace of their present usage."),
    }
    note = basis[tried.basis]
    return lines, note if tried.now.is_exact else note + " " + _("Ranks are rounded to 5 for privacy.")


def _rank(place: Place, of: int) -> str:
    if place.rank is None:
        return presentation.UNKNOWN
    first, last = place.rank[0], min(place.rank[1], max(of, place.rank[0]))
    if first == last:
        return presentation.count(first)
    return _("%(first)s to %(last)s") % {"first": presentation.count(first), "last": presentation.count(last)}


def _when(tried: Tried, found: Recovery) -> str:
    return when_words(found, tried.instant(found))


def when_words(found: Recovery, at: datetime | None) -> str:
    """A day, or in few words why there is none; at: the instant that is meant, where there is one."""
    if found.outcome == "on_target":
        return _("now")
    if at is not None:
        return _short_day(at)
    words = {
        "never_if_nobody_runs": _("never without new usage"),
        "not_at_this_pace": _("not at this pace"),
        "not_within_horizon": _("not within a year"),
    }
    return words[found.outcome]


def _short_day(at: datetime) -> str:
    return formats.date_format(timezone.localtime(at), pgettext("a day in a chart", "j M"))
