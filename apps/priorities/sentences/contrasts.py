"""Why one entry goes before another, level by level, and what would turn that."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

TEXTS = {
    "contrast.ahead": _("%(ahead)s goes before %(behind)s: rank %(rank)s and rank %(other_rank)s of %(of)s."),
    "contrast.tie": _("%(ahead)s and %(behind)s are equal: both have rank %(rank)s of %(of)s."),
    "contrast.level": _("Level %(level)s decides: there %(ahead)s is ahead of %(behind)s."),
    "contrast.ended": _(
        "Level %(level)s decides: one of the two ends above it, which counts there as exactly on target."
    ),
    "contrast.whole_path": _(
        "%(algorithm)s makes one number of the whole path. The paths part at level %(level)s, with %(ahead)s and "
        "%(behind)s."
    ),
    "contrast.one_number": _("%(algorithm)s makes one number of the whole path."),
    "contrast.sibling_order": _(
        "At level %(level)s %(ahead)s and %(behind)s are equal; %(algorithm)s then takes them in the order in which "
        "they stand in the tree."
    ),
    "contrast.own_order": _("%(algorithm)s orders them by a rule of its own."),
    "contrast.rounded": _(
        "At level %(level)s %(ahead)s and %(behind)s have different priorities, %(priority)s and %(other_priority)s, "
        "and the same whole number, %(part)s: rounding makes them equal there."
    ),
    "contrast.rounded_tie": _("No other level tells them apart, so they share a rank."),
    "contrast.factors": _(
        "Along its path the factor of %(ahead)s becomes %(factor)s, that of %(behind)s %(other_factor)s."
    ),
    "contrast.one.over": _("%(name)s used %(actual)s of %(parent)s against %(target)s: over by %(points)s."),
    "contrast.one.under": _("%(name)s used %(actual)s of %(parent)s against %(target)s: under by %(points)s."),
    "contrast.one.on": _("%(name)s used %(actual)s of %(parent)s against %(target)s: on target."),
    "contrast.one.idle": _("%(name)s is entitled to %(target)s of %(parent)s, and used nothing."),
    "contrast.one.suppressed": _(
        "%(name)s is entitled to %(target)s of %(parent)s. What was used there is not shown: too few people are in it."
    ),
    "turn.ahead_gains": _("It would turn if %(name)s used %(hours)s %(unit)s more than it did."),
    "turn.behind_sheds": _("It would turn if %(name)s had used %(hours)s %(unit)s less than it did."),
    "turn.ahead_shares": _("It would turn if %(name)s had at most %(wished_shares)s shares instead of %(shares)s."),
    "turn.behind_shares": _("It would turn if %(name)s had at least %(wished_shares)s shares instead of %(shares)s."),
    "turn.none": _("No single change of use or shares on this level would turn it."),
    "turn.suppressed": _("What would turn it is not shown: it would tell what few people used."),
}
