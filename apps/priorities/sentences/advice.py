"""Advice about a priority, case by case."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

TEXTS = {
    "advice.unmapped": _(
        "%(policy)s doesn’t map %(account)s. Claim this account below, or send the name to your site’s "
        "support; until then jobs have the fallback factor, %(factor)s."
    ),
    "advice.no_snapshot": _(
        "%(policy)s has no priorities yet. Check again after the next recompute, usually within a minute."
    ),
    "advice.nothing_kept": _(
        "%(policy)s has no stored numbers for that time. Choose a later one, or ask an administrator to "
        "reconstruct them."
    ),
    "advice.newcomer": _("You are new here, and your rank is being computed. Check again in a moment."),
    "advice.unranked": _(
        "Jobs of this entry have the fallback factor. Ask a manager of %(parent)s for your own entry."
    ),
    "advice.stale": _("These numbers may be outdated: %(problems)s."),
    "advice.other_account": _(
        "Submit under %(account)s if the job may run there: that account is at rank %(other_rank)s of %(of)s, "
        "this one at %(rank)s."
    ),
    "advice.front": ngettext_lazy(
        "Fairshare does not delay your jobs: %(n)s of %(of)s is ahead. Check age, size, partition and limits instead.",
        "Fairshare does not delay your jobs: only %(n)s of %(of)s are ahead. Check age, size, partition "
        "and limits instead.",
        "count",
    ),
    "advice.first": _(
        "Fairshare does not delay your jobs: you have the highest rank. Check age, size, partition and limits instead."
    ),
    "advice.nothing_ran": _("You have no usage in the window, so there is none to reduce."),
    "advice.group_waits": _(
        "Your whole group waits: %(name)s used %(actual)s of %(parent)s; target %(target)s. Running less "
        "helps only as much as it lowers the total of %(name)s."
    ),
    "advice.own_use": _(
        "You used %(actual)s of %(parent)s; target %(target)s. Postpone non-urgent jobs: past usage "
        "decays, new usage counts in full."
    ),
    "advice.not_over": _("You are not over your own target, and the order changes with every job."),
    "advice.above": _("The decisive level is above those visible to you."),
    "advice.other_order": _(
        "You are not over your own target. Others come first at the level of %(name)s, and the order changes with "
        "every job."
    ),
    "advice.wait_until": _("Wait until %(on)s: %(name)s is then back on target, at the pace of the last weeks."),
    "advice.wait_between": _(
        "Wait until %(on)s: %(name)s is then back on target, at the pace of the last weeks (%(earliest)s "
        "to %(latest)s)."
    ),
    "advice.never_if_nobody_runs": _(
        "Waiting alone changes nothing without usage in %(parent)s: all usage decays alike."
    ),
    "advice.not_at_this_pace": _(
        "Waiting doesn’t help while %(name)s keeps its present pace: run less, or request a larger share."
    ),
    "advice.not_within_horizon": _("%(name)s doesn’t return to target within the forecast period."),
}
