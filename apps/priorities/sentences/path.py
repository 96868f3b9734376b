"""Sentences about a walk: each level, its effect on the factor, comparisons of two leaves, and the verdict."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

_OVER = _("%(name)s used %(actual)s of %(parent)s; target %(target)s: over by %(points)s.")
_UNDER = _("%(name)s used %(actual)s of %(parent)s; target %(target)s: under by %(points)s.")
_ON = _("%(name)s used %(actual)s of %(parent)s; target %(target)s: on target.")
_ON_DECIDES = _(
    "%(name)s used %(actual)s of %(parent)s; target %(target)s. This is within tolerance, but still the main reason."
)
_IDLE = _("%(name)s has a target of %(target)s of %(parent)s, and no usage in the window.")
_UNKNOWN = _("%(name)s has a target of %(target)s of %(parent)s. Its usage is not known yet.")
_DISSOLVED = _("%(name)s has no shares of its own; the entries below compete one level up, in %(parent)s.")
_SUPPRESSED = _("%(name)s has a target of %(target)s of %(parent)s. Its usage is not shown: too few members.")
_LOCAL_BELOW = _("Below %(name)s only local usage since %(at)s: %(reason)s")
_LOCAL_HERE = _("Only local usage here since %(at)s, because peers were unreachable.")
_NONE_AHEAD = _("None is ahead.")
_SOME_AHEAD = ngettext_lazy(
    "The only other one is ahead.",
    "%(n_ahead)s of %(n_siblings)s others are ahead.",
    "count",
)
_YOUR_FACTOR = _(
    "You used %(actual)s of %(parent)s; target %(target)s. This changes your factor most, from %(other_factor)s to "
    "%(factor)s."
)
_GROUP_FACTOR = _(
    "%(name)s used %(actual)s of %(parent)s; target %(target)s. This changes your factor most, from %(other_factor)s "
    "to %(factor)s."
)
_FACTOR_CHANGES = _(
    "This level changes the factor from %(other_factor)s to %(factor)s, and the ratio R from %(above)s to %(ratio)s."
)
_NOT_RANKED = _("This entry is not ranked. Schedulers receive the factor %(factor)s.")

LEVELS = {
    "walk.over": _OVER,
    "walk.over_you": _OVER,
    "walk.under": _UNDER,
    "walk.under_you": _UNDER,
    "walk.on": _ON,
    "walk.on_you": _ON,
    "walk.on_decides": _ON_DECIDES,
    "walk.on_decides_you": _ON_DECIDES,
    "walk.idle": _IDLE,
    "walk.idle_you": _IDLE,
    "walk.unknown": _UNKNOWN,
    "walk.unknown_you": _UNKNOWN,
    "walk.dissolved": _DISSOLVED,
    "walk.dissolved_you": _DISSOLVED,
    "walk.suppressed": _SUPPRESSED,
    "walk.local_only": _("Only local usage here since %(at)s: %(reason)s"),
    "walk.local_only_above": _LOCAL_HERE,
    "fallback.since": _("Below %(name)s only local usage since %(at)s"),
    "fallback.below": _LOCAL_BELOW,
    "fallback.below_then": _LOCAL_BELOW,
    "fallback.above": _LOCAL_HERE,
    "fallback.above_then": _LOCAL_HERE,
    "ahead.alone": _("There are no others with shares of their own at this level."),
    "ahead.suppressed": _("How many others are ahead is not shown."),
    "ahead.nobody": _NONE_AHEAD,
    "ahead.some": _SOME_AHEAD,
    "ahead.part": _("No other one is ahead as a whole, but some of their users are."),
    "ahead.nobody_yours": _NONE_AHEAD,
    "ahead.some_yours": _SOME_AHEAD,
    "ahead.nobody_you": _NONE_AHEAD,
    "ahead.some_you": _SOME_AHEAD,
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


EFFECTS = {
    "effect.lowers": _FACTOR_CHANGES,
    "effect.raises": _FACTOR_CHANGES,
    "effect.same": _("This level leaves the factor at %(factor)s: the ratio R stays at %(ratio)s."),
    "effect.no_shares": _("It has no shares of the whole, so the factor is %(factor)s."),
    "effect.no_shares_above": _("A level above has no shares, so the factor stays at %(factor)s."),
    "effect.adds": _(
        "This is so even under the target: below the first level this factor only falls, because own usage is added to "
        "the usage inherited from the level above."
    ),
    "effect.bent": _(
        "Its own ratio r_l is %(own_ratio)s, on the other side of 1 than R = %(above)s above it, so it counts with the "
        "exponent k = %(k)s."
    ),
    "factor.you_lowers": _YOUR_FACTOR,
    "factor.you_raises": _YOUR_FACTOR,
    "factor.group_lowers": _GROUP_FACTOR,
    "factor.group_raises": _GROUP_FACTOR,
    "factor.you_no_shares": _("You have no shares of %(parent)s, so your factor is %(factor)s."),
    "factor.group_no_shares": _("%(name)s has no shares of %(parent)s, so your factor is %(factor)s."),
    "reason.factor_same": _("No level changes your factor."),
    "reason.factor_less": ngettext_lazy(
        "No level raises your factor, but %(n)s other has a lower one.",
        "No level raises your factor, but %(n)s others have a lower one.",
        "count",
    ),
    "reason.factor_more": ngettext_lazy(
        "No level lowers your factor, but %(n)s other has a higher one.",
        "No level lowers your factor, but %(n)s others have a higher one.",
        "count",
    ),
    "reason.number": _("%(algorithm)s computes one number from the whole path; no single level is the main reason."),
    "rank.factor": _("Rank %(rank)s of %(of)s. Level with the largest effect on the factor: %(name)s."),
    "forecast.factor_at_target": _(
        "With %(name)s on target and all else unchanged, the factor would be %(factor)s instead of %(other_factor)s."
    ),
}


CONTRASTS = {
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
    "contrast.one.over": _OVER,
    "contrast.one.under": _UNDER,
    "contrast.one.on": _ON,
    "contrast.one.idle": _IDLE,
    "contrast.one.suppressed": _SUPPRESSED,
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


_FALLBACK = _("Schedulers receive the fallback factor of the policy.")

_UNRANKED = {
    "unranked.reserve": _("%(name)s is a reserve: it has no jobs, so it has no rank."),
    "unranked.group": _("%(algorithm)s ranks leaves only, and %(name)s has entries below it."),
    "unranked.empty": _("%(name)s is a group without users, so it has no rank."),
    "unranked.not_user": _("%(algorithm)s ranks entries of kind user only, and %(name)s is of kind %(kind)s."),
    "unranked.later": _("The rank is being computed; check again in a moment."),
}

VERDICTS = {
    **_UNRANKED,
    "unranked.fallback": _FALLBACK,
    "rank.none": _("It has no rank yet."),
    "rank.place": _("Rank %(rank)s of %(of)s."),
    "rank.decided": _("Rank %(rank)s of %(of)s. Main reason: %(name)s."),
    "rank.unmapped": _("No rule maps this account to an entry. Its jobs get the neutral factor %(factor)s."),
    "rank.no_snapshot": _("%(policy)s has no priorities yet."),
    "verdict.only": _("You are the only one: rank 1 of 1"),
    "verdict.near": _("Near the front: rank %(rank)s of %(of)s"),
    "verdict.ahead": _("Ahead of most: rank %(rank)s of %(of)s"),
    "verdict.middle": _("In the middle: rank %(rank)s of %(of)s"),
    "verdict.behind": _("Behind most: rank %(rank)s of %(of)s"),
    "verdict.unranked": _("Not ranked"),
    "verdict.new_user": _("Being computed"),
    "verdict.unmapped": _("%(account)s is not in %(policy)s"),
    "verdict.no_snapshot": _("No priorities yet"),
    "verdict.nothing_kept": _("No data for that time"),
    "reason.you_good_of_under": _(
        "You used %(actual)s of %(parent)s, less than the target of %(target)s, "
        "so you go before %(siblings)s of %(n_siblings)s colleagues."
    ),
    "reason.you_good_under": ngettext_lazy(
        "You used %(actual)s of %(parent)s, less than the target of %(target)s, so you go before %(n)s account.",
        "You used %(actual)s of %(parent)s, less than the target of %(target)s, so you go before %(n)s accounts.",
        "count",
    ),
    "reason.you_good_of_on": _(
        "You used %(actual)s of %(parent)s, close to the target of %(target)s, "
        "and you go before %(siblings)s of %(n_siblings)s colleagues."
    ),
    "reason.you_good_on": ngettext_lazy(
        "You used %(actual)s of %(parent)s, close to the target of %(target)s, and you go before %(n)s account.",
        "You used %(actual)s of %(parent)s, close to the target of %(target)s, and you go before %(n)s accounts.",
        "count",
    ),
    "reason.you_good_of_over": _(
        "You used %(actual)s of %(parent)s, more than the target of %(target)s, "
        "but you still go before %(siblings)s of %(n_siblings)s colleagues."
    ),
    "reason.you_good_over": ngettext_lazy(
        "You used %(actual)s of %(parent)s, more than the target of %(target)s, but you still go before %(n)s account.",
        "You used %(actual)s of %(parent)s, more than the target of %(target)s, "
        "but you still go before %(n)s accounts.",
        "count",
    ),
    "reason.you_bad_of_over": ngettext_lazy(
        "You used %(actual)s of %(parent)s, more than the target of %(target)s, "
        "so %(siblings)s of %(n_siblings)s colleagues goes before you.",
        "You used %(actual)s of %(parent)s, more than the target of %(target)s, "
        "so %(siblings)s of %(n_siblings)s colleagues go before you.",
        "count",
    ),
    "reason.you_bad_over": ngettext_lazy(
        "You used %(actual)s of %(parent)s, more than the target of %(target)s, so %(n)s account goes before you.",
        "You used %(actual)s of %(parent)s, more than the target of %(target)s, so %(n)s accounts go before you.",
        "count",
    ),
    "reason.you_bad_of_on": ngettext_lazy(
        "You used %(actual)s of %(parent)s, close to the target of %(target)s, "
        "but %(siblings)s of %(n_siblings)s colleagues goes before you.",
        "You used %(actual)s of %(parent)s, close to the target of %(target)s, "
        "but %(siblings)s of %(n_siblings)s colleagues go before you.",
        "count",
    ),
    "reason.you_bad_on": ngettext_lazy(
        "You used %(actual)s of %(parent)s, close to the target of %(target)s, but %(n)s account goes before you.",
        "You used %(actual)s of %(parent)s, close to the target of %(target)s, but %(n)s accounts go before you.",
        "count",
    ),
    "reason.you_bad_of_under": ngettext_lazy(
        "You used %(actual)s of %(parent)s, less than the target of %(target)s, "
        "but %(siblings)s of %(n_siblings)s colleagues goes before you.",
        "You used %(actual)s of %(parent)s, less than the target of %(target)s, "
        "but %(siblings)s of %(n_siblings)s colleagues go before you.",
        "count",
    ),
    "reason.you_bad_under": ngettext_lazy(
        "You used %(actual)s of %(parent)s, less than the target of %(target)s, but %(n)s account goes before you.",
        "You used %(actual)s of %(parent)s, less than the target of %(target)s, but %(n)s accounts go before you.",
        "count",
    ),
    "reason.group_good_of_under": _(
        "%(name)s used %(actual)s of %(parent)s, less than the target of %(target)s, "
        "so you go before users of %(siblings)s of %(n_siblings)s %(kinds)s."
    ),
    "reason.group_good_under": ngettext_lazy(
        "%(name)s used %(actual)s of %(parent)s, less than the target of %(target)s, so you go before %(n)s account.",
        "%(name)s used %(actual)s of %(parent)s, less than the target of %(target)s, so you go before %(n)s accounts.",
        "count",
    ),
    "reason.group_good_of_on": _(
        "%(name)s used %(actual)s of %(parent)s, close to the target of %(target)s, "
        "and you go before users of %(siblings)s of %(n_siblings)s %(kinds)s."
    ),
    "reason.group_good_on": ngettext_lazy(
        "%(name)s used %(actual)s of %(parent)s, close to the target of %(target)s, and you go before %(n)s account.",
        "%(name)s used %(actual)s of %(parent)s, close to the target of %(target)s, and you go before %(n)s accounts.",
        "count",
    ),
    "reason.group_good_of_over": _(
        "%(name)s used %(actual)s of %(parent)s, more than the target of %(target)s, "
        "but you still go before users of %(siblings)s of %(n_siblings)s %(kinds)s."
    ),
    "reason.group_good_over": ngettext_lazy(
        "%(name)s used %(actual)s of %(parent)s, more than the target of %(target)s, "
        "but you still go before %(n)s account.",
        "%(name)s used %(actual)s of %(parent)s, more than the target of %(target)s, "
        "but you still go before %(n)s accounts.",
        "count",
    ),
    "reason.group_bad_of_over": _(
        "%(name)s used %(actual)s of %(parent)s, more than the target of %(target)s, "
        "so users of %(siblings)s of %(n_siblings)s %(kinds)s go before you."
    ),
    "reason.group_bad_over": ngettext_lazy(
        "%(name)s used %(actual)s of %(parent)s, more than the target of %(target)s, so %(n)s account goes before you.",
        "%(name)s used %(actual)s of %(parent)s, more than the target of %(target)s, so %(n)s accounts go before you.",
        "count",
    ),
    "reason.group_bad_of_on": _(
        "%(name)s used %(actual)s of %(parent)s, close to the target of %(target)s, "
        "but users of %(siblings)s of %(n_siblings)s %(kinds)s go before you."
    ),
    "reason.group_bad_on": ngettext_lazy(
        "%(name)s used %(actual)s of %(parent)s, close to the target of %(target)s, but %(n)s account goes before you.",
        "%(name)s used %(actual)s of %(parent)s, close to the target of %(target)s, but %(n)s accounts go before you.",
        "count",
    ),
    "reason.group_bad_of_under": _(
        "%(name)s used %(actual)s of %(parent)s, less than the target of %(target)s, "
        "but users of %(siblings)s of %(n_siblings)s %(kinds)s go before you."
    ),
    "reason.group_bad_under": ngettext_lazy(
        "%(name)s used %(actual)s of %(parent)s, less than the target of %(target)s, "
        "but %(n)s account goes before you.",
        "%(name)s used %(actual)s of %(parent)s, less than the target of %(target)s, but %(n)s accounts go before you.",
        "count",
    ),
    "reason.used_less": _("They used less of their target."),
    "reason.used_more": _("They used more of their target."),
    "reason.good_rule": _(
        "Others are equal to %(name)s inside %(parent)s, and %(algorithm)s takes you before %(n)s of them."
    ),
    "reason.tied": ngettext_lazy(
        "All others share your rank, but %(n)s is ahead.", "All others share your rank, but %(n)s are ahead.", "count"
    ),
    "reason.new_user": _("You are new in %(name)s: the rank is that of a new user without usage."),
    "reason.you_listed": _(
        "Others are equal to you inside %(parent)s, and %(algorithm)s takes them first by its own rule."
    ),
    "reason.group_listed": _(
        "Others are equal to %(name)s inside %(parent)s, and %(algorithm)s takes them first by its own rule."
    ),
    "reason.inherited": _("Inside %(parent)s others have no own shares, and %(algorithm)s takes them first."),
    "reason.you_ended": _(
        "Others are equal to you inside %(parent)s. The levels below decide, where yours counts as on target."
    ),
    "reason.group_ended": _(
        "Others inside %(parent)s are equal to %(name)s, and to you on all your levels. The levels below "
        "decide, where yours counts as on target."
    ),
    "reason.no_own_shares": _(
        "You have no shares of your own inside %(parent)s. You count there as on target, and others come first."
    ),
    "reason.no_level": _("Neither you nor the entries above you have their own shares: there is no level to compare."),
    "reason.above": _("The main reason is at a level above those visible to you."),
    "reason.alone": _("There are no other ranks to compare."),
    "reason.equal": _("All ranks are equal: no level decides."),
    "fresh.behind": _("These numbers may be outdated: %(problems)s."),
    "number.fallback": _NOT_RANKED,
    "number.unranked": _NOT_RANKED,
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
