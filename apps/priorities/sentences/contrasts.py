"""Why one entry goes before another, level by level, and what would turn that."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

TEXTS = {
    "contrast.ahead": _("%(ahead)s is ahead of %(behind)s: rank %(rank)s and rank %(other_rank)s of %(of)s."),
    "contrast.tie": _("%(ahead)s and %(behind)s are equal: both have rank %(rank)s of %(of)s."),
    "contrast.level": _("Level %(level)s decides: there %(ahead)s is ahead of %(behind)s."),
    "contrast.ended": _(
        "Level %(level)s decides: one of the two paths ends above it, which counts there as exactly on target."
    ),
    "contrast.whole_path": _(
        "%(algorithm)s computes one number from the whole path. The paths split at level %(level)s, with "
        "%(ahead)s and %(behind)s."
    ),
    "contrast.one_number": _("%(algorithm)s computes one number from the whole path."),
    "contrast.sibling_order": _(
        "At level %(level)s %(ahead)s and %(behind)s are equal; %(algorithm)s then uses their order in the tree."
    ),
    "contrast.own_order": _("%(algorithm)s orders them by its own rule."),
    "contrast.rounded": _(
        "At level %(level)s %(ahead)s and %(behind)s have different priorities, %(priority)s and "
        "%(other_priority)s, but the same integer %(part)s after rounding."
    ),
    "contrast.rounded_tie": _("No other level separates them, so they share a rank."),
    "contrast.factors": _(
        "Along its path the factor of %(ahead)s becomes %(factor)s, that of %(behind)s %(other_factor)s."
    ),
    "contrast.one.over": _("%(name)s used %(actual)s of %(parent)s; target %(target)s: over by %(points)s."),
    "contrast.one.under": _("%(name)s used %(actual)s of %(parent)s; target %(target)s: under by %(points)s."),
    "contrast.one.on": _("%(name)s used %(actual)s of %(parent)s; target %(target)s: on target."),
    "contrast.one.idle": _("%(name)s has a target of %(target)s of %(parent)s, and no usage."),
    "contrast.one.suppressed": _(
        "%(name)s has a target of %(target)s of %(parent)s. Its usage is not shown: too few members."
    ),
    "turn.ahead_gains": _("The order would flip if %(name)s used %(hours)s more %(unit)s."),
    "turn.behind_sheds": _("The order would flip if %(name)s had used %(hours)s fewer %(unit)s."),
    "turn.ahead_shares": _(
        "The order would flip if %(name)s had at most %(wished_shares)s shares instead of %(shares)s."
    ),
    "turn.behind_shares": _(
        "The order would flip if %(name)s had at least %(wished_shares)s shares instead of %(shares)s."
    ),
    "turn.none": _("No single change of usage or shares at this level would flip the order."),
    "turn.suppressed": _("What would flip the order is not shown: it would reveal the usage of few users."),
}
