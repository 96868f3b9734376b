"""My priority in words: one verdict that names the deciding level, then one sentence a level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.dashboard import lines, presentation
from apps.dashboard.algorithm_words import OwnNumber, own_number
from apps.dashboard.figures import bullet
from apps.dashboard.figures.bullet import USUAL_TOLERANCE, Bullet, State
from apps.dashboard.presentation import Balance
from apps.priorities.selectors import MyPriority, WalkStep

WIDTH = 210


@dataclass(frozen=True, slots=True)
class Level:
    """One step from the whole to the person."""

    number: int
    heading: str
    sentence: str
    actual: str
    target: str
    balance: Balance | None
    bar: Bullet | None
    label: str
    decides: bool
    ahead: str
    step: WalkStep
    vector: str
    own: Sequence[OwnNumber | None]
    own_names: Sequence[str]
    url: str


@dataclass(frozen=True, slots=True)
class Story:
    """Everything the page says about one account in one policy."""

    mine: MyPriority
    verdict: str
    reason: str
    own: str
    levels: Sequence[Level]
    total: str
    entry_url: str


def tell(mine: MyPriority) -> Story:
    levels = [_level(mine, index) for index in range(len(mine.walk))]
    deciding = levels[mine.deciding] if mine.deciding is not None and levels else None
    return Story(
        mine=mine,
        verdict=_verdict(mine),
        reason=_reason(mine, deciding),
        own=_own(mine, deciding),
        levels=levels,
        total=_total(mine),
        entry_url=lines.entry_url(mine.policy_slug, mine.entry_uid, mine.entry_name) if mine.entry_uid else "",
    )


def _verdict(mine: MyPriority) -> str:
    """Where somebody stands, by thirds: words first, rank after them."""
    if mine.rank is None and mine.provisional:
        return _("Being worked out")
    if mine.rank is None or not mine.of:
        return _("Not ranked")
    numbers = {"rank": presentation.count(mine.rank), "of": presentation.count(mine.of)}
    place = (mine.rank - 1) / max(mine.of - 1, 1)
    if mine.of == 1:
        return _("You are the only one: rank 1 of 1")
    if place <= 1 / 3:
        return _("Ahead of most: rank %(rank)s of %(of)s") % numbers
    if place <= 2 / 3:
        return _("In the middle: rank %(rank)s of %(of)s") % numbers
    return _("Behind most: rank %(rank)s of %(of)s") % numbers


def _reason(mine: MyPriority, deciding: Level | None) -> str:
    if mine.why_unranked:
        return mine.why_unranked
    if deciding is None and not mine.levels_decide:
        return _("Nobody else is ranked, so nothing sets you apart.")
    if deciding is None:
        return _("You and everybody above you are on target: no level sets you apart.")
    step = deciding.step
    names = {
        "name": step.name,
        "parent": step.parent_name,
        "actual": deciding.actual,
        "target": deciding.target,
    }
    if mine.deciding == len(mine.walk) - 1:
        return _("Main reason: you used %(actual)s of %(parent)s against a target of %(target)s.") % names
    return _("Main reason: %(name)s as a whole used %(actual)s of %(parent)s against a target of %(target)s.") % names


def _own(mine: MyPriority, deciding: Level | None) -> str:
    """What the person's own use adds, when another level decides."""
    last = mine.walk[-1] if mine.walk else None
    if last is None or (deciding is not None and deciding.step is last):
        return ""
    words = {
        "over": _("Your own use inside %(parent)s is above your part as well."),
        "under": _("Your own use inside %(parent)s is below your part."),
        "idle": _("You ran nothing in the window."),
        "on": _("Your own use inside %(parent)s is on target."),
    }
    return words.get(last.state, "") % {"parent": last.parent_name}


def _level(mine: MyPriority, index: int) -> Level:
    step = mine.walk[index]
    is_last = index == len(mine.walk) - 1
    balance = bar = None
    known = None if step.state == "unknown" else step.actual
    if step.target is not None:
        balance = _balance(step, known)
        scale = bullet.share_scale([(known or 0.0, step.target)])
        bar = bullet.draw(actual=known, target=step.target, maximum=scale, state=balance.state, width=WIDTH)
    return Level(
        number=index + 1,
        heading=_("%(parent)s to %(name)s") % {"parent": step.parent_name, "name": _("you") if is_last else step.name},
        sentence=_sentence(step, balance, is_last=is_last, decides=index == mine.deciding),
        actual=presentation.percent(known),
        target=presentation.percent(step.target),
        balance=balance,
        bar=bar,
        label=lines.bar_label(known, step.target, USUAL_TOLERANCE),
        decides=index == mine.deciding,
        ahead=_ahead(step, is_last=is_last),
        step=step,
        vector=str(mine.vector[index]) if index < len(mine.vector) else presentation.UNKNOWN,
        own=_own_numbers(mine, step),
        own_names=_own_names(mine),
        url=lines.entry_url(mine.policy_slug, step.uid, step.name),
    )


def _own_numbers(mine: MyPriority, step: WalkStep) -> list[OwnNumber | None]:
    """The same columns on every level: what doesn't exist on this one is None."""
    about = {"name": mine.algorithm}
    return [own_number(step.columns, name, about, USUAL_TOLERANCE) for name in _own_names(mine)]


def _own_names(mine: MyPriority) -> list[str]:
    return list({name: None for each in mine.walk for name, value in each.columns.items() if value is not None})


def _balance(step: WalkStep, known: float | None) -> Balance:
    if known is not None and step.target is not None and step.state in {"over", "under"}:
        word = _("over") if step.state == "over" else _("under")
        return Balance(State(step.state), presentation.points(known - step.target), word)
    return presentation.balance(known, step.target, has_usage=step.state != "idle")


def _sentence(step: WalkStep, balance: Balance | None, *, is_last: bool, decides: bool) -> str:
    if balance is None:
        return _("%(name)s has no shares of its own; its members compete one level up.") % {"name": step.name}
    facts = {
        "name": step.name,
        "parent": step.parent_name,
        "target": presentation.percent(step.target),
        "actual": presentation.percent(step.actual),
    }
    if is_last:
        first = _("You are entitled to %(target)s of %(parent)s and used %(actual)s.") % facts
    else:
        first = _("%(name)s is entitled to %(target)s of %(parent)s and used %(actual)s.") % facts
    if decides and balance.state is State.ON:
        return f"{first} " + _("Within tolerance, yet no other level sets you apart more.")
    return f"{first} {_consequence(step, balance, is_last=is_last)}"


def _consequence(step: WalkStep, balance: Balance, *, is_last: bool) -> str:
    if balance.state is State.OVER:
        phrase = presentation.points_phrase((step.actual or 0.0) - (step.target or 0.0))
        if is_last:
            return _("Over by %(points)s: you wait behind those who used less of theirs.") % {"points": phrase}
        return _("Over by %(points)s, so everybody in %(name)s waits behind siblings that used less.") % {
            "points": phrase,
            "name": step.name,
        }
    if balance.state is State.UNDER:
        phrase = presentation.points_phrase((step.target or 0.0) - (step.actual or 0.0))
        if is_last:
            return _("Under by %(points)s: this helps you.") % {"points": phrase}
        return _("Under by %(points)s: this helps everybody in %(name)s.") % {"points": phrase, "name": step.name}
    if balance.state is State.IDLE:
        return _("Nothing ran in the window, so nothing stands against you here.")
    if balance.state is State.ON:
        return _("This level is not the problem.")
    return _("Usage is not known yet.")


def _ahead(step: WalkStep, *, is_last: bool) -> str:
    """How many of the others at this level go first; never which."""
    whom = _("you") if is_last else _("yours")
    if not step.n_siblings:
        return _("Nobody else is at this level.")
    if not step.n_ahead:
        return _("Nobody is ahead of %(whom)s.") % {"whom": whom}
    return ngettext(
        "%(ahead)s of %(of)s other is ahead of %(whom)s.",
        "%(ahead)s of %(of)s others are ahead of %(whom)s.",
        step.n_siblings,
    ) % {"ahead": presentation.count(step.n_ahead), "of": presentation.count(step.n_siblings), "whom": whom}


def _total(mine: MyPriority) -> str:
    if mine.rank is None:
        if mine.levels_decide:
            return _("This entry is not ranked, so the scheduler gets the fallback factor of the policy.")
        return _("This entry is not ranked. The scheduler gets the factor %(factor)s.") % {
            "factor": presentation.factor(mine.factor)
        }
    numbers = {
        "vector": ", ".join(presentation.signed(value) for value in mine.priorities),
        "rank": presentation.count(mine.rank),
        "of": presentation.count(mine.of),
        "factor": presentation.factor(mine.factor),
        "algorithm": mine.algorithm,
    }
    if not mine.levels_decide:
        text = _(
            "%(algorithm)s makes one number of shares and usage on the whole way, and compares everybody by it. "
            "This places you %(rank)s of %(of)s. As a number between 0 and 1 this is %(factor)s."
        )
    elif mine.compares == "ranks":
        text = _(
            "%(algorithm)s walks the tree from the top, at each level the group that used least of its part first. "
            "This places you %(rank)s of %(of)s. As a number between 0 and 1 this is %(factor)s."
        )
    else:
        text = _(
            "The levels are compared from the top; the first difference decides. Your priorities are (%(vector)s), "
            "which places you %(rank)s of %(of)s. As a number between 0 and 1 this is %(factor)s."
        )
    return text % numbers
