"""Sentences about a place as a whole: the verdict, the reason, what one's own use adds, and the scheduler's number."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

_FALLBACK = _("Schedulers get the fallback factor of the policy.")

_UNRANKED = {
    "unranked.reserve": _("%(name)s is a reserve: nobody runs there, so it has no rank."),
    "unranked.group": _("%(algorithm)s ranks leaves alone, and %(name)s has entries below it."),
    "unranked.empty": _("%(name)s is a group without members, so there is nobody to rank."),
    "unranked.not_user": _("%(algorithm)s ranks entries of kind user alone, and %(name)s is of kind %(kind)s."),
    "unranked.later": _("Its place among all others is being worked out; ask again in a moment."),
}

TEXTS = {
    **_UNRANKED,
    "unranked.fallback": _FALLBACK,
    "rank.none": _("It has no rank yet."),
    "rank.place": _("Rank %(rank)s of %(of)s."),
    "rank.decided": _("Rank %(rank)s of %(of)s. The level that decides it: %(name)s."),
    "rank.unmapped": _("%(policy)s has no entry for this account: schedulers get the factor %(factor)s."),
    "rank.no_snapshot": _("Nothing has been computed for %(policy)s yet."),
    "verdict.only": _("You are the only one: rank 1 of 1"),
    "verdict.ahead": _("Ahead of most: rank %(rank)s of %(of)s"),
    "verdict.middle": _("In the middle: rank %(rank)s of %(of)s"),
    "verdict.behind": _("Behind most: rank %(rank)s of %(of)s"),
    "verdict.unranked": _("Not ranked"),
    "verdict.newcomer": _("Being worked out"),
    "verdict.unmapped": _("No entry in %(policy)s"),
    "verdict.no_snapshot": _("No priorities yet"),
    "verdict.nothing_kept": _("No priorities are kept from then"),
    "reason.you": _("Main reason: you used %(actual)s of %(parent)s against a target of %(target)s."),
    "reason.group": _("Main reason: %(name)s as a whole used %(actual)s of %(parent)s against a target of %(target)s."),
    "reason.you_under": _(
        "Main reason: you used %(actual)s of %(parent)s against a target of %(target)s, which is under your part."
    ),
    "reason.group_under": _(
        "Main reason: %(name)s as a whole used %(actual)s of %(parent)s against a target of %(target)s, which is under "
        "its part."
    ),
    "reason.you_less": _(
        "Main reason: others come first at this level. You used %(actual)s of %(parent)s against a target of "
        "%(target)s."
    ),
    "reason.group_less": _(
        "Main reason: others come first at the level of %(name)s, which as a whole used %(actual)s of %(parent)s "
        "against a target of %(target)s."
    ),
    "reason.you_first": _("Nobody is ahead of you. You used %(actual)s of %(parent)s against a target of %(target)s."),
    "reason.group_first": _(
        "Nobody is ahead of you. %(name)s as a whole used %(actual)s of %(parent)s against a target of %(target)s."
    ),
    "reason.you_listed": _(
        "Main reason: others are equal to you inside %(parent)s, and %(algorithm)s takes them first, in an order of "
        "its own."
    ),
    "reason.group_listed": _(
        "Main reason: others are equal to %(name)s inside %(parent)s, and %(algorithm)s takes them first, in an order "
        "of its own."
    ),
    "reason.ended": _(
        "Main reason: others are equal to you inside %(parent)s, and the levels below decide, where yours counts as on "
        "target."
    ),
    "reason.no_own_shares": _(
        "Main reason: you have no shares of your own inside %(parent)s, which counts as on target there, and others "
        "come first."
    ),
    "reason.no_level": _("You and everybody above you have no shares of their own: there is no level to compare."),
    "reason.above": _("The main reason is at a level above those that you see."),
    "reason.alone": _("Nobody else is ranked, so nothing sets you apart."),
    "reason.equal": _("Nobody is ahead of you or behind you: no level sets you apart."),
    "own.over": _("Your own use inside %(parent)s is above your part as well."),
    "own.over_alone": _("Your own use inside %(parent)s is above your part."),
    "own.under": _("Your own use inside %(parent)s is below your part."),
    "own.idle": _("You ran nothing in the window."),
    "own.on": _("Your own use inside %(parent)s is on target."),
    "fresh.behind": _("These numbers may be behind: %(problems)s."),
    "number.fallback": _(
        "This entry is not ranked, so the scheduler gets the fallback factor of the policy, %(factor)s."
    ),
    "number.unranked": _("This entry is not ranked. The scheduler gets the factor %(factor)s."),
    "number.vector": _(
        "The levels are compared from the top; the first difference decides. Your priorities are %(vector)s, as whole "
        "numbers up to %(resolution)s %(parts)s, which places you %(rank)s of %(of)s. "
        "As a number between 0 and 1, by rank, this is %(factor)s."
    ),
    "number.vector_key": _(
        "The levels are compared from the top; the first difference decides. Your priorities are %(vector)s, as whole "
        "numbers up to %(resolution)s %(parts)s, which places you %(rank)s of %(of)s. "
        "Put one after the other behind the decimal point, these numbers give the factor %(factor)s."
    ),
    "number.deviations": _(
        "The levels are compared from the top by target minus actual, in points: yours are %(deviations)s. The first "
        "difference decides, which places you %(rank)s of %(of)s. As a number between 0 and 1, by rank, this is "
        "%(factor)s."
    ),
    "number.fair_tree": _(
        "Slurm’s Fair Tree walks the tree from the top, at each level the group first that used least of its part, and "
        "numbers users in the order in which it meets them. This places you %(rank)s of %(of)s. "
        "The part of all users that is not ahead of you is the factor, %(factor)s."
    ),
    "number.flux": _(
        "Flux walks the tree from the top, at each level the bank first that used least of its part. This places you "
        "%(rank)s of %(of)s. The part of all that is not ahead of you is the factor, %(factor)s."
    ),
    "number.classic": _(
        "Slurm’s classic factor takes what you used of everything, mixed level by level with what your groups used, "
        "against what you were promised of everything. It is 1 where nothing was used, and halves with every "
        "%(damping)s times of that part that is used. Yours is %(factor)s, which places you %(rank)s of %(of)s."
    ),
    "number.depth_oblivious": _(
        "Slurm’s depth-oblivious factor multiplies, from the top, by how many times each level used its part; a deeper "
        "level counts less where it is on the other side of its part. It is 1 where nothing was used, and halves with "
        "every %(damping)s times of the part that is used. Yours is %(factor)s, which places you %(rank)s of %(of)s."
    ),
    "number.one": _(
        "%(algorithm)s makes one number of shares and usage on the whole way, and compares everybody by it. "
        "This places you %(rank)s of %(of)s. As a number between 0 and 1 this is %(factor)s."
    ),
    "number.walk": _(
        "%(algorithm)s walks the tree from the top, at each level the group that used least of its part first. "
        "This places you %(rank)s of %(of)s. As a number between 0 and 1 this is %(factor)s."
    ),
    "number.levels": _(
        "The levels are compared from the top; the first difference decides. Your priorities are %(vector)s, "
        "which places you %(rank)s of %(of)s. As a number between 0 and 1 this is %(factor)s."
    ),
}
