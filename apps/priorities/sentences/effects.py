"""What one level does to the factor, where an algorithm makes one number of the whole path."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

TEXTS = {
    "effect.lowers": _(
        "This level lowers the factor from %(other_factor)s to %(factor)s: the ratio R rises from %(above)s to "
        "%(ratio)s."
    ),
    "effect.raises": _(
        "This level raises the factor from %(other_factor)s to %(factor)s: the ratio R falls from %(above)s to "
        "%(ratio)s."
    ),
    "effect.same": _("This level leaves the factor at %(factor)s: the ratio R stays at %(ratio)s."),
    "effect.no_shares": _("It has no shares of the whole, so the factor is %(factor)s."),
    "effect.no_shares_above": _("A level above has no shares, so the factor stays at %(factor)s."),
    "effect.bent": _(
        "Its own ratio r_l is %(own_ratio)s, on the other side of 1 than R = %(above)s above it, so it counts with the "
        "exponent k = %(k)s."
    ),
    "factor.you_lowers": _(
        "Main effect on your factor: you used %(actual)s of %(parent)s; target %(target)s. This lowers "
        "the factor from %(other_factor)s to %(factor)s."
    ),
    "factor.you_raises": _(
        "Main effect on your factor: you used %(actual)s of %(parent)s; target %(target)s. This raises "
        "the factor from %(other_factor)s to %(factor)s."
    ),
    "factor.group_lowers": _(
        "Main effect on your factor: %(name)s as a whole used %(actual)s of %(parent)s; target "
        "%(target)s. This lowers the factor from %(other_factor)s to %(factor)s."
    ),
    "factor.group_raises": _(
        "Main effect on your factor: %(name)s as a whole used %(actual)s of %(parent)s; target "
        "%(target)s. This raises the factor from %(other_factor)s to %(factor)s."
    ),
    "factor.you_no_shares": _("You have no shares of %(parent)s, so your factor is %(factor)s."),
    "factor.group_no_shares": _("%(name)s has no shares of %(parent)s, so your factor is %(factor)s."),
    "reason.factor_same": _("No level changes your factor."),
    "reason.number": _("%(algorithm)s computes one number from the whole path; no single level is the main reason."),
    "rank.factor": _("Rank %(rank)s of %(of)s. Level with the largest effect on the factor: %(name)s."),
    "advice.factor_group": _(
        "%(name)s lowers your factor from %(other_factor)s to %(factor)s: it used %(actual)s of "
        "%(parent)s; target %(target)s. Running less helps only as much as it lowers the total of "
        "%(name)s."
    ),
    "advice.no_shares": _(
        "%(name)s has no shares, so the factor is 0 regardless of usage. Request shares of %(parent)s."
    ),
    "forecast.factor_at_target": _(
        "With %(name)s on target and all else unchanged, the factor would be %(factor)s instead of %(other_factor)s."
    ),
}
