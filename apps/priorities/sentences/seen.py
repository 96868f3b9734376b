"""What others see about somebody, from the rights that are in force."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

TEXTS = {
    "seen.open": _(
        "%(policy)s is open: everybody who signs in sees its whole tree, with your name, your share and what you used. "
        "Your jobs stay yours."
    ),
    "seen.by_name_all": _(
        "%(name)s is open: everybody who signs in sees your name, your share, what you used and your jobs there."
    ),
    "seen.jobs_by_name_all": _("Everybody who signs in sees your name, your accounts and their jobs at %(name)s."),
    "seen.name_alone_all": _(
        "Everybody who signs in sees your name and your share at %(name)s, and not what you used."
    ),
    "seen.in_sums_all": _(
        "Everybody who signs in sees sums of groups at %(name)s, and none in which fewer than %(smallest)s people were "
        "active or one used more than four fifths; not your name."
    ),
    "seen.closed": _(
        "Your colleagues, and all others without a role here, see neither your name nor your numbers. Who shares a "
        "group with you sees its sum, and how many are ahead."
    ),
    "seen.by_name": ngettext_lazy(
        "%(n)s person with the role %(role)s at %(name)s sees your name, your share, what you used and your jobs.",
        "%(n)s people with the role %(role)s at %(name)s see your name, your share, what you used and your jobs.",
        "count",
    ),
    "seen.by_name_group": _(
        "Whoever belongs to %(people)s, with the role %(role)s at %(name)s, sees your name, your share, what you used "
        "and your jobs."
    ),
    "seen.jobs_by_name": ngettext_lazy(
        "%(n)s person with the role %(role)s at %(name)s sees your name, your accounts and their jobs.",
        "%(n)s people with the role %(role)s at %(name)s see your name, your accounts and their jobs.",
        "count",
    ),
    "seen.jobs_by_name_group": _(
        "Whoever belongs to %(people)s, with the role %(role)s at %(name)s, sees your name, your accounts and their "
        "jobs."
    ),
    "seen.name_alone": ngettext_lazy(
        "%(n)s person with the role %(role)s at %(name)s sees your name and your share, and not what you used.",
        "%(n)s people with the role %(role)s at %(name)s see your name and your share, and not what you used.",
        "count",
    ),
    "seen.name_alone_group": _(
        "Whoever belongs to %(people)s, with the role %(role)s at %(name)s, sees your name and your share, and not "
        "what you used."
    ),
    "seen.in_sums": ngettext_lazy(
        "%(n)s person with the role %(role)s at %(name)s sees sums of groups alone, and none in which fewer than "
        "%(smallest)s people were active or one used more than four fifths.",
        "%(n)s people with the role %(role)s at %(name)s see sums of groups alone, and none in which fewer than "
        "%(smallest)s people were active or one used more than four fifths.",
        "count",
    ),
    "seen.in_sums_group": _(
        "Whoever belongs to %(people)s, with the role %(role)s at %(name)s, sees sums of groups alone, and none in "
        "which fewer than %(smallest)s people were active or one used more than four fifths."
    ),
    "seen.administrators": ngettext_lazy(
        "%(n)s administrator of this site sees everything.",
        "%(n)s administrators of this site see everything.",
        "count",
    ),
    "seen.schedulers": _("Schedulers get your factor, rank and levels to order your jobs by, and no single job."),
}
