"""What others see about somebody, from the rights that are in force."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

TEXTS = {
    "seen.own": _("You see your own entries, your jobs, and the sums of all groups above you."),
    "seen.open": _(
        "%(policy)s is open: everybody who signs in sees its whole tree, with your name, your share and what you used. "
        "Your jobs stay yours."
    ),
    "seen.open_part": _(
        "%(name)s is open: everybody who signs in sees all of it, with your name, your share and what you used. "
        "Your jobs stay yours."
    ),
    "seen.closed": _(
        "Others without a role see nothing of you: to who shares a group with you, you are one of a number."
    ),
    "seen.by_name": ngettext_lazy(
        "%(n)s person as %(role)s of %(name)s sees your name, your share, what you used and your jobs.",
        "%(n)s people as %(role)s of %(name)s see your name, your share, what you used and your jobs.",
        "count",
    ),
    "seen.by_name_without_jobs": ngettext_lazy(
        "%(n)s person as %(role)s of %(name)s sees your name, your share and what you used.",
        "%(n)s people as %(role)s of %(name)s see your name, your share and what you used.",
        "count",
    ),
    "seen.by_name_group": _(
        "Whoever is in the group of sign-in %(people)s sees, as %(role)s of %(name)s, your name, your share and what "
        "you used."
    ),
    "seen.in_sums": ngettext_lazy(
        "%(n)s person as %(role)s of %(name)s sees sums of groups alone, and none in which fewer than five people are "
        "active or one made more than four fifths.",
        "%(n)s people as %(role)s of %(name)s see sums of groups alone, and none in which fewer than five people are "
        "active or one made more than four fifths.",
        "count",
    ),
    "seen.in_sums_group": _(
        "Whoever is in the group of sign-in %(people)s sees, as %(role)s of %(name)s, sums of groups alone, and none "
        "in which fewer than five people are active or one made more than four fifths."
    ),
    "seen.administrators": ngettext_lazy(
        "%(n)s administrator of this site sees everything.",
        "%(n)s administrators of this site see everything.",
        "count",
    ),
    "seen.schedulers": _("Schedulers get your factor, rank and levels, to order your jobs; nothing of single jobs."),
}
