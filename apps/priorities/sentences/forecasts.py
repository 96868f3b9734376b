"""What a forecast says: when a level comes back to its target, and by name when it doesn't."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

TEXTS = {
    "forecast.on_target": _("%(name)s is on target."),
    "forecast.within_tolerance": _(
        "%(name)s is within tolerance of its target, at %(actual)s of %(parent)s; target %(target)s."
    ),
    "forecast.nothing_used": _("%(parent)s has no usage in the window."),
    "forecast.recovers": _(
        "At the recent pace, %(name)s is back on target in about %(in_s)s (%(soonest_s)s to %(latest_s)s)."
    ),
    "forecast.recovers_about": _("At the recent pace, %(name)s is back on target in about %(in_s)s."),
    "forecast.recovers_or_not": _(
        "At the recent pace, %(name)s is back on target in about %(in_s)s, in %(soonest_s)s at the "
        "earliest. If %(parent)s stays as quiet as on its quietest days, it takes more than "
        "%(horizon_s)s or never happens."
    ),
    "forecast.recovers_at_best": _(
        "If %(parent)s is as busy as on its busiest days, %(name)s is back on target in about %(soonest_s)s."
    ),
    "forecast.gives_way": _(
        "%(name)s is under its target. At the recent pace, it reaches its target in about %(in_s)s "
        "(%(soonest_s)s to %(latest_s)s)."
    ),
    "forecast.gives_way_about": _(
        "%(name)s is under its target. At the recent pace, it reaches its target in about %(in_s)s."
    ),
    "forecast.never_if_nobody_runs": _(
        "Without usage in %(parent)s nothing changes: all usage decays alike, and %(name)s stays at "
        "%(actual)s; target %(target)s."
    ),
    "forecast.never_within_window": _(
        "Without usage in %(parent)s nothing changes: all usage decays alike, and %(name)s stays at "
        "%(actual)s; target %(target)s, until its usage leaves the window of %(window_s)s."
    ),
    "forecast.quiet_days": _(
        "On most of these days %(parent)s had no usage, and then nothing changes: all usage decays alike."
    ),
    "forecast.not_at_this_pace": _(
        "Not at this pace: %(name)s takes %(share)s of the usage of %(parent)s, and its target is %(target)s."
    ),
    "forecast.stays_under": _(
        "%(name)s is under its target, and stays so at this pace: it takes %(share)s of the usage of "
        "%(parent)s, and its target is %(target)s."
    ),
    "forecast.not_within_horizon": _("%(name)s doesn’t return to its target within %(horizon_s)s at the recent pace."),
    "forecast.tolerance": _("It is within tolerance in about %(in_s)s (%(soonest_s)s to %(latest_s)s)."),
    "forecast.tolerance_about": _("It is within tolerance in about %(in_s)s."),
    "forecast.factor_goes": _(
        "The factor is %(factor)s now. At the pace of the last two weeks, it is %(week_factor)s in "
        "%(in_s)s and %(month_factor)s in %(horizon_s)s."
    ),
    "forecast.factor_stays": _("At the pace of the last two weeks, the factor stays at %(factor)s for %(horizon_s)s."),
    "forecast.factor_by_level": _(
        "The level whose effect changes most is %(name)s: it has %(other_actual)s of the usage of %(parent)s now and "
        "%(actual)s in %(horizon_s)s."
    ),
    "forecast.factor_too_many_hours": _("Too much usage to forecast the factor."),
    "forecast.not_compared": _("%(name)s has no shares of its own: its members are compared one level up."),
    "forecast.no_days": _("Daily usage of %(policy)s is not calculated yet: the forecast follows."),
}
