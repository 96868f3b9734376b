"""Sentences about one level of the walk: of an entry, and to you (`_you`)."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

TEXTS = {
    "walk.over": _("%(name)s used %(actual)s of %(parent)s; target %(target)s: over by %(points)s."),
    "walk.over_you": _("You used %(actual)s of %(parent)s; target %(target)s: over by %(points)s."),
    "walk.under": _("%(name)s used %(actual)s of %(parent)s; target %(target)s: under by %(points)s."),
    "walk.under_you": _("You used %(actual)s of %(parent)s; target %(target)s: under by %(points)s."),
    "walk.on": _("%(name)s used %(actual)s of %(parent)s; target %(target)s: on target."),
    "walk.on_you": _("You used %(actual)s of %(parent)s; target %(target)s: on target."),
    "walk.on_decides": _(
        "%(name)s used %(actual)s of %(parent)s; target %(target)s. This is within tolerance, but still "
        "the main reason."
    ),
    "walk.on_decides_you": _(
        "You used %(actual)s of %(parent)s; target %(target)s. This is within tolerance, but still the main reason."
    ),
    "walk.idle": _("%(name)s has a target of %(target)s of %(parent)s, and no usage in the window."),
    "walk.idle_you": _("You have a target of %(target)s of %(parent)s, and no usage in the window."),
    "walk.unknown": _("%(name)s has a target of %(target)s of %(parent)s. Its usage is not known yet."),
    "walk.unknown_you": _("You have a target of %(target)s of %(parent)s. Your usage is not known yet."),
    "walk.dissolved": _("%(name)s has no shares of its own; its members compete one level up, in %(parent)s."),
    "walk.dissolved_you": _("You have no shares of your own in %(parent)s: you compete one level up."),
    "walk.suppressed": _("%(name)s has a target of %(target)s of %(parent)s. Its usage is not shown: too few members."),
    "walk.local_only": _("Compared by local usage only since %(at)s: %(reason)s"),
    "walk.local_only_above": _("Compared by local usage only since %(at)s, because peers were unreachable."),
    "fallback.since": _("Below %(name)s only local usage counts since %(at)s"),
    "fallback.below": _("Below %(name)s only local usage counts since %(at)s: %(reason)s"),
    "fallback.below_then": _("Below %(name)s only local usage counted then, since %(at)s: %(reason)s"),
    "fallback.above": _("Only local usage counts here since %(at)s, because peers are unreachable."),
    "fallback.above_then": _("Only local usage counted here then, since %(at)s, because peers were unreachable."),
    "ahead.alone": _("There are no others at this level."),
    "ahead.suppressed": _("How many others are ahead is not shown."),
    "ahead.nobody": _("No sibling is ahead."),
    "ahead.some": ngettext_lazy(
        "The only other one is ahead of it.",
        "%(n_ahead)s of %(n_siblings)s others are ahead of it.",
        "count",
    ),
    "ahead.nobody_yours": _("None is ahead of yours."),
    "ahead.some_yours": ngettext_lazy(
        "The only other one is ahead of yours.",
        "%(n_ahead)s of %(n_siblings)s others are ahead of yours.",
        "count",
    ),
    "ahead.nobody_you": _("None is ahead of you."),
    "ahead.some_you": ngettext_lazy(
        "The only other one is ahead of you.",
        "%(n_ahead)s of %(n_siblings)s others are ahead of you.",
        "count",
    ),
    "ahead.factor": ngettext_lazy(
        "The only other one has a higher factor.",
        "%(n_ahead)s of %(n_siblings)s others have a higher factor.",
        "count",
    ),
    "ahead.factor_highest": ngettext_lazy(
        "The only other one has no higher factor.",
        "None of %(n_siblings)s others has a higher factor.",
        "count",
    ),
    "ahead.priority": ngettext_lazy(
        "The only other one has a higher priority.",
        "%(n_ahead)s of %(n_siblings)s others have a higher priority.",
        "count",
    ),
    "ahead.priority_highest": ngettext_lazy(
        "The only other one has no higher priority.",
        "None of %(n_siblings)s others has a higher priority.",
        "count",
    ),
    "ahead.equal": ngettext_lazy("%(n)s other is equal here.", "%(n)s others are equal here.", "count"),
    "ahead.rounded": ngettext_lazy(
        "%(n)s of them has another priority, but the same integer after rounding. Lower levels decide "
        "between them; without any, the rank is the same.",
        "%(n)s of them have other priorities, but the same integer after rounding. Lower levels decide "
        "between them; without any, the rank is the same.",
        "count",
    ),
}
