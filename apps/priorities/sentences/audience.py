"""Who sees which numbers of a user, by the current rights."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

TEXTS = {
    "seen.open": _(
        "%(policy)s is open: all signed-in users see the whole tree, with your name, share and usage. "
        "Your jobs stay private."
    ),
    "seen.by_name_all": _(
        "%(name)s is open: all signed-in users see your name, your share, your usage and your jobs there."
    ),
    "seen.jobs_by_name_all": _("All signed-in users see your name, your accounts and their jobs at %(name)s."),
    "seen.name_alone_all": _("All signed-in users see your name and your share at %(name)s, but not your usage."),
    "seen.in_sums_all": _(
        "All signed-in users see group totals at %(name)s, but not your name. Totals need %(smallest)s "
        "active users, none above four fifths."
    ),
    "seen.closed": _(
        "Colleagues and other users without a role here see neither your name nor your numbers. Members "
        "of your group see its total, and how many are ahead."
    ),
    "seen.by_name": ngettext_lazy(
        "%(n)s person with the role %(role)s at %(name)s sees your name, share, usage and jobs.",
        "%(n)s people with the role %(role)s at %(name)s see your name, share, usage and jobs.",
        "count",
    ),
    "seen.by_name_group": _(
        "Members of %(people)s, with the role %(role)s at %(name)s, see your name, share, usage and jobs."
    ),
    "seen.jobs_by_name": ngettext_lazy(
        "%(n)s person with the role %(role)s at %(name)s sees your name, your accounts and their jobs.",
        "%(n)s people with the role %(role)s at %(name)s see your name, your accounts and their jobs.",
        "count",
    ),
    "seen.jobs_by_name_group": _(
        "Members of %(people)s, with the role %(role)s at %(name)s, see your name, your accounts and their jobs."
    ),
    "seen.name_alone": ngettext_lazy(
        "%(n)s person with the role %(role)s at %(name)s sees your name and share, but not your usage.",
        "%(n)s people with the role %(role)s at %(name)s see your name and share, but not your usage.",
        "count",
    ),
    "seen.name_alone_group": _(
        "Members of %(people)s, with the role %(role)s at %(name)s, see your name and share, but not your usage."
    ),
    "seen.in_sums": ngettext_lazy(
        "%(n)s person with the role %(role)s at %(name)s sees group totals only. Totals need "
        "%(smallest)s active users, none above four fifths.",
        "%(n)s people with the role %(role)s at %(name)s see group totals only. Totals need %(smallest)s "
        "active users, none above four fifths.",
        "count",
    ),
    "seen.in_sums_group": _(
        "Members of %(people)s, with the role %(role)s at %(name)s, see group totals only. Totals need "
        "%(smallest)s active users, none above four fifths."
    ),
    "seen.administrators": ngettext_lazy(
        "%(n)s administrator of this site sees everything.",
        "%(n)s administrators of this site see everything.",
        "count",
    ),
    "seen.schedulers": _("Schedulers receive your factor, rank and levels, but no job data."),
}
