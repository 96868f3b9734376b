"""What somebody can do about a priority, case by case."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

TEXTS = {
    "advice.unmapped": _(
        "No rule of %(policy)s leads from %(account)s to an entry. Say below that this account is yours, or give the "
        "name to your site’s support; until then jobs run with the fallback factor, %(factor)s."
    ),
    "advice.no_snapshot": _(
        "Nothing has been computed for %(policy)s yet. Look again after the next recompute, usually within a minute."
    ),
    "advice.nothing_kept": _(
        "No numbers of %(policy)s are kept from then. Choose a later time, or ask an administrator to have them "
        "reconstructed for that instant."
    ),
    "advice.newcomer": _("You are new here, and your place is being worked out. Look again in a moment."),
    "advice.unranked": _(
        "Jobs of this entry get the fallback factor. Ask whoever leads %(parent)s for an entry of yours."
    ),
    "advice.stale": _("Wait for fresh numbers before you decide anything: %(problems)s."),
    "advice.other_account": _(
        "Submit under %(account)s if the job may run there: that account is at rank %(other_rank)s of %(of)s, "
        "this one at %(rank)s."
    ),
    "advice.front": ngettext_lazy(
        "Fairshare is not what holds you: %(n)s of %(of)s is ahead. Look at age, size, partition and limits instead.",
        "Fairshare is not what holds you: only %(n)s of %(of)s are ahead. "
        "Look at age, size, partition and limits instead.",
        "count",
    ),
    "advice.first": _(
        "Fairshare is not what holds you: nobody is ahead. Look at age, size, partition and limits instead."
    ),
    "advice.nothing_ran": _("Nothing of yours ran in the window: there is nothing of your own to use less of."),
    "advice.group_waits": _(
        "Your group as a whole waits: %(name)s used %(actual)s of %(parent)s against %(target)s. Running less "
        "yourself helps as far as %(name)s runs less."
    ),
    "advice.own_use": _(
        "You used %(actual)s of %(parent)s against %(target)s. Let what is not urgent wait: what ran counts less with "
        "time, and each job of today counts in full."
    ),
    "advice.not_over": _("You are not over your own target, and the order changes with every job."),
    "advice.above": _("What holds you back is at a level above those that you see."),
    "advice.other_order": _(
        "You are not over your own target. Others come first at the level of %(name)s, and the order changes with "
        "every job."
    ),
    "advice.wait_until": _("Wait until %(on)s: then %(name)s is back on target, if all goes on as in the last weeks."),
    "advice.wait_between": _(
        "Wait until %(on)s: then %(name)s is back on target, if all goes on as in the last weeks "
        "(%(earliest)s to %(latest)s)."
    ),
    "advice.never_if_nobody_runs": _(
        "Waiting alone changes nothing while nobody in %(parent)s runs anything: all usage counts less alike."
    ),
    "advice.not_at_this_pace": _(
        "Waiting alone doesn’t help while %(name)s keeps its present pace: run less, or ask for a larger share."
    ),
    "advice.not_within_horizon": _("%(name)s doesn’t come back to target within the time that can be foreseen."),
}
