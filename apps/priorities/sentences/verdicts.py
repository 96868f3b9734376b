"""Sentences about a place as a whole: the verdict, the reason, what one's own use adds, and the scheduler's number."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

_FALLBACK = _("Schedulers receive the fallback factor of the policy.")

_UNRANKED = {
    "unranked.reserve": _("%(name)s is a reserve: it has no jobs, so it has no rank."),
    "unranked.group": _("%(algorithm)s ranks leaves only, and %(name)s has entries below it."),
    "unranked.empty": _("%(name)s is a group without members, so it has no rank."),
    "unranked.not_user": _("%(algorithm)s ranks entries of kind user only, and %(name)s is of kind %(kind)s."),
    "unranked.later": _("The rank is being computed; check again in a moment."),
}

TEXTS = {
    **_UNRANKED,
    "unranked.fallback": _FALLBACK,
    "rank.none": _("It has no rank yet."),
    "rank.place": _("Rank %(rank)s of %(of)s."),
    "rank.decided": _("Rank %(rank)s of %(of)s. Decisive level: %(name)s."),
    "rank.unmapped": _("%(policy)s has no entry for this account: schedulers receive the factor %(factor)s."),
    "rank.no_snapshot": _("%(policy)s has no priorities yet."),
    "verdict.only": _("You are the only one: rank 1 of 1"),
    "verdict.ahead": _("Higher than most: rank %(rank)s of %(of)s"),
    "verdict.middle": _("In the middle: rank %(rank)s of %(of)s"),
    "verdict.behind": _("Lower than most: rank %(rank)s of %(of)s"),
    "verdict.unranked": _("Not ranked"),
    "verdict.newcomer": _("Being computed"),
    "verdict.unmapped": _("No entry in %(policy)s"),
    "verdict.no_snapshot": _("No priorities yet"),
    "verdict.nothing_kept": _("No data for that time"),
    "reason.you": _("Main reason: you used %(actual)s of %(parent)s; target %(target)s."),
    "reason.group": _("Main reason: %(name)s as a whole used %(actual)s of %(parent)s; target %(target)s."),
    "reason.you_under": _("Main reason: you used %(actual)s of %(parent)s; target %(target)s. You are under target."),
    "reason.group_under": _(
        "Main reason: %(name)s as a whole used %(actual)s of %(parent)s; target %(target)s. It is under target."
    ),
    "reason.you_less": _(
        "Main reason: others come first at this level. You used %(actual)s of %(parent)s; target %(target)s."
    ),
    "reason.group_less": _(
        "Main reason: others come first at the level of %(name)s, which as a whole used %(actual)s of "
        "%(parent)s; target %(target)s."
    ),
    "reason.you_first": _("You have the highest rank. You used %(actual)s of %(parent)s; target %(target)s."),
    "reason.group_first": _(
        "You have the highest rank. %(name)s as a whole used %(actual)s of %(parent)s; target %(target)s."
    ),
    "reason.you_listed": _(
        "Main reason: others are equal to you inside %(parent)s, and %(algorithm)s takes them first by its own rule."
    ),
    "reason.group_listed": _(
        "Main reason: others are equal to %(name)s inside %(parent)s, and %(algorithm)s takes them first "
        "by its own rule."
    ),
    "reason.ended": _(
        "Main reason: others are equal to you inside %(parent)s. The levels below decide, where yours "
        "counts as on target."
    ),
    "reason.no_own_shares": _(
        "Main reason: you have no shares of your own inside %(parent)s. You count there as on target, "
        "and others come first."
    ),
    "reason.no_level": _("Neither you nor the entries above you have their own shares: there is no level to compare."),
    "reason.above": _("The main reason is at a level above those visible to you."),
    "reason.alone": _("There are no other ranks to compare."),
    "reason.equal": _("All ranks are equal: no level decides."),
    "own.over": _("Your own usage inside %(parent)s is above your target as well."),
    "own.over_alone": _("Your own usage inside %(parent)s is above your target."),
    "own.under": _("Your own usage inside %(parent)s is below your target."),
    "own.idle": _("You had no usage in the window."),
    "own.on": _("Your own usage inside %(parent)s is on target."),
    "fresh.behind": _("These numbers may be outdated: %(problems)s."),
    "number.fallback": _(
        "This entry is not ranked, so schedulers receive the fallback factor of the policy, %(factor)s."
    ),
    "number.unranked": _("This entry is not ranked. Schedulers receive the factor %(factor)s."),
    "number.vector": _(
        "Levels are compared top-down; the first difference decides. Your priorities are %(vector)s, as "
        "integers up to %(resolution)s %(parts)s: rank %(rank)s of %(of)s. As a number between 0 and 1, "
        "by rank, this is %(factor)s."
    ),
    "number.vector_key": _(
        "Levels are compared top-down; the first difference decides. Your priorities are %(vector)s, as "
        "integers up to %(resolution)s %(parts)s: rank %(rank)s of %(of)s. Joined as decimal digits, "
        "these integers give the factor %(factor)s."
    ),
    "number.deviations": _(
        "Levels are compared top-down by target − actual, in points: yours are %(deviations)s. The first "
        "difference decides: rank %(rank)s of %(of)s. As a number between 0 and 1, by rank, this is "
        "%(factor)s."
    ),
    "number.fair_tree": _(
        "Slurm’s Fair Tree walks the tree top-down, at each level in order of shares ÷ usage, and "
        "numbers users as it meets them: rank %(rank)s of %(of)s. The fraction of users not ahead of you "
        "is the factor, %(factor)s."
    ),
    "number.flux": _(
        "Flux walks the tree top-down, at each level in order of shares ÷ usage: rank %(rank)s of "
        "%(of)s. The fraction of users not ahead of you is the factor, %(factor)s."
    ),
    "number.classic": _(
        "Slurm’s classic factor compares your effective usage with your share of the policy. It is 1 "
        "without usage, and halves whenever usage grows by %(damping)s times that share. Yours is "
        "%(factor)s: rank %(rank)s of %(of)s."
    ),
    "number.depth_oblivious": _(
        "Slurm’s depth-oblivious factor multiplies usage ÷ share of all levels; a deeper level on the "
        "other side of its target counts less. It is 1 without usage, and halves whenever that ratio "
        "grows by %(damping)s. Yours is %(factor)s: rank %(rank)s of %(of)s."
    ),
    "number.one": _(
        "%(algorithm)s computes one number from shares and usage of the whole path: rank %(rank)s of "
        "%(of)s. As a number between 0 and 1 this is %(factor)s."
    ),
    "number.walk": _(
        "%(algorithm)s walks the tree top-down, at each level in order of shares ÷ usage: rank %(rank)s "
        "of %(of)s. As a number between 0 and 1 this is %(factor)s."
    ),
    "number.levels": _(
        "Levels are compared top-down; the first difference decides. Your priorities are %(vector)s: "
        "rank %(rank)s of %(of)s. As a number between 0 and 1 this is %(factor)s."
    ),
}
