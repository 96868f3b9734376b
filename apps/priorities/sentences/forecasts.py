"""What a forecast says: when a level comes back to its target, and by name when it doesn't."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

TEXTS = {
    "forecast.on_target": _("%(name)s is on target."),
    "forecast.within_tolerance": _(
        "%(name)s is within tolerance of its target, at %(actual)s of %(parent)s for %(target)s."
    ),
    "forecast.nothing_used": _("Nobody in %(parent)s has used anything that counts."),
    "forecast.recovers": _(
        "If things go on as lately, %(name)s is back at its target in about %(in_s)s (%(soonest_s)s to %(latest_s)s)."
    ),
    "forecast.recovers_about": _("If things go on as lately, %(name)s is back at its target in about %(in_s)s."),
    "forecast.recovers_or_not": _(
        "If things go on as lately, %(name)s is back at its target in about %(in_s)s, in %(soonest_s)s at the "
        "earliest. While %(parent)s runs as little as on its quiet days it takes more than %(horizon_s)s, or for ever."
    ),
    "forecast.recovers_at_best": _(
        "If %(parent)s runs as much as on its busy days, %(name)s is back at its target in about %(soonest_s)s."
    ),
    "forecast.gives_way": _(
        "%(name)s is under its target. If things go on as lately, it reaches its target in about %(in_s)s "
        "(%(soonest_s)s to %(latest_s)s)."
    ),
    "forecast.gives_way_about": _(
        "%(name)s is under its target. If things go on as lately, it reaches its target in about %(in_s)s."
    ),
    "forecast.never_if_nobody_runs": _(
        "As long as nobody in %(parent)s runs anything, nothing changes: everything decays alike, and %(name)s stays "
        "at %(actual)s for a target of %(target)s."
    ),
    "forecast.never_within_window": _(
        "As long as nobody in %(parent)s runs anything, nothing changes: everything decays alike, and %(name)s stays "
        "at %(actual)s for a target of %(target)s, until its usage leaves the window of %(window_s)s."
    ),
    "forecast.quiet_days": _(
        "On most of these days nobody in %(parent)s ran anything, and then nothing changes: everything decays alike."
    ),
    "forecast.not_at_this_pace": _(
        "Not while %(name)s keeps this pace: it takes %(share)s of what %(parent)s runs, and its target is %(target)s."
    ),
    "forecast.stays_under": _(
        "%(name)s is under its target, and stays so at this pace: it takes %(share)s of what "
        "%(parent)s runs, and its target is %(target)s."
    ),
    "forecast.not_within_horizon": _(
        "%(name)s doesn’t come back to its target within %(horizon_s)s if things go on as lately."
    ),
    "forecast.tolerance": _("It is within tolerance in about %(in_s)s (%(soonest_s)s to %(latest_s)s)."),
    "forecast.tolerance_about": _("It is within tolerance in about %(in_s)s."),
    "forecast.factor_goes": _(
        "The factor is %(factor)s now. If everybody goes on as in the last two weeks, it is %(week_factor)s in "
        "%(in_s)s and %(month_factor)s in %(horizon_s)s."
    ),
    "forecast.factor_stays": _(
        "If everybody goes on as in the last two weeks, the factor stays at %(factor)s for %(horizon_s)s."
    ),
    "forecast.factor_by_level": _(
        "The level whose effect changes most is %(name)s: it has %(other_actual)s of the usage of %(parent)s now and "
        "%(actual)s in %(horizon_s)s."
    ),
    "forecast.factor_too_many_hours": _("Too much usage counts to compute the factor of the days to come."),
    "forecast.not_compared": _("%(name)s has no shares of its own: its members are compared one level up."),
    "forecast.no_days": _(
        "What ran day by day isn’t put together yet for %(policy)s: the forecast appears when it is."
    ),
}
