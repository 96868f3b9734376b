"""The explanation of one account in one policy: the path from the root to it, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from apps.explain.messages import AccountMessages, LevelMessages, messages_of
from apps.explain.my_priority import MyPriority
from apps.explain.path import WalkStep
from apps.explain.verdict import AccountFacts, Verdict
from apps.priorities.sentences import numbers, text_of
from apps.web.shell import lines, presentation
from apps.web.shell.presentation import Balance
from apps.web.svg import bars
from apps.web.svg.bars import Bullet, Tolerance
from apps.web.texts.algorithm_text import OwnNumber, own_number

WIDTH = 128


@dataclass(frozen=True, slots=True)
class Level:
    """One level of the path from the root to the account."""

    number: int
    heading: str
    name: str  # of the entry; you, for the account's own
    messages: LevelMessages
    actual: str
    target: str
    balance: Balance | None
    bar: Bullet | None
    label: str
    decides: bool
    local_only: str  # why usage of other sites doesn't count here, and since when
    step: WalkStep
    vector: str
    own: Sequence[OwnNumber | None]
    own_names: Sequence[str]
    url: str

    @property
    def sentence(self) -> str:
        return text_of([self.messages.standing, *self.messages.effects])

    @property
    def ahead(self) -> str:
        return text_of([self.messages.ahead, *self.messages.equal])


@dataclass(frozen=True, slots=True)
class RankStrip:
    """Accounts ahead and behind, also by level ("12 + 0 + 1", "" for a ratio), and their parts of the whole in
    percent.
    """

    ahead: int
    behind: int
    ahead_by_level: str
    behind_by_level: str
    ahead_percent: float
    behind_percent: float

    @property
    def behind_from(self) -> float:
        return 100.0 - self.behind_percent


@dataclass(frozen=True, slots=True)
class AccountExplanation:
    """All text of one account in one policy."""

    mine: MyPriority
    verdict: Verdict
    messages: AccountMessages
    levels: Sequence[Level]
    entry_url: str
    strip: RankStrip | None

    @property
    def total(self) -> str:
        """The value sent to schedulers and how it is computed."""
        return self.messages.number.text if self.messages.number else ""


def build_account_explanation(
    priority: MyPriority, others: Sequence[MyPriority] = (), facts: AccountFacts | None = None, moment: str = ""
) -> AccountExplanation:
    """moment: query string of links to pages of the same moment."""
    messages = messages_of(priority, others, facts)
    return AccountExplanation(
        mine=priority,
        verdict=messages.verdict,
        messages=messages,
        levels=[_level(priority, level, at, moment) for at, level in enumerate(messages.levels)],
        entry_url=lines.entry_url(priority.policy_slug, priority.entry_uid, priority.entry_name, moment)
        if priority.entry_uid
        else "",
        strip=_strip(priority),
    )


def _strip(priority: MyPriority) -> RankStrip | None:
    standing = priority.standing
    if standing is None or standing.of < 2:
        return None
    ahead = [step.leaves_ahead for step in priority.walk if step.leaves_ahead is not None]
    behind = [step.leaves_behind for step in priority.walk if step.leaves_behind is not None]
    adds_up = (sum(ahead), sum(behind)) == (standing.n_ahead, standing.n_behind) and len(ahead) > 1
    return RankStrip(
        ahead=standing.n_ahead,
        behind=standing.n_behind,
        ahead_by_level=" + ".join(map(str, ahead)) if adds_up else "",
        behind_by_level=" + ".join(map(str, behind)) if adds_up else "",
        ahead_percent=round(100 * standing.n_ahead / standing.of, 2),
        behind_percent=round(100 * standing.n_behind / standing.of, 2),
    )


def _level(priority: MyPriority, level: LevelMessages, index: int, moment: str) -> Level:
    step = level.step
    balance = bar = None
    known = None if step.state == "unknown" else step.actual
    shares = numbers.compare_shares(known, step.target)
    if step.target is not None:
        balance = balance_of(step, known)
        scale = bars.share_scale([(known or 0.0, step.target)])
        bar = bars.draw(
            actual=known,
            target=step.target,
            maximum=scale,
            state=balance.state,
            width=WIDTH,
            tolerance=tolerance_of(step),
        )
    whom = _("you") if level.is_you else step.name
    # The algorithm's own numbers in the same columns on every level; None for numbers that a level doesn't have.
    about = {"name": priority.algorithm}
    return Level(
        number=index + 1,
        name=whom,
        heading=_("%(parent)s to %(child)s") % {"parent": step.parent_name, "child": whom},
        messages=level,
        actual=shares.actual,
        target=shares.target,
        balance=balance,
        bar=bar,
        label=lines.bar_label(known, step.target, tolerance_of(step)),
        decides=level.decides,
        local_only=level.local_only.text if level.local_only else "",
        step=step,
        vector=str(priority.vector[index]) if index < len(priority.vector) else numbers.UNKNOWN,
        own=[own_number(step.columns, name, about, step.state) for name in _own_names(priority)],
        own_names=_own_names(priority),
        url=lines.entry_url(priority.policy_slug, step.uid, step.name, moment),
    )


def _own_names(priority: MyPriority) -> list[str]:
    return list({name: None for each in priority.walk for name, value in each.columns.items() if value is not None})


def tolerance_of(step: WalkStep) -> Tolerance:
    """The band of its policy around its target."""
    return Tolerance(0.0, step.slack)


def balance_of(step: WalkStep, known: float | None) -> Balance:
    """Its state as sentences have it, with the difference in points where it is over or under."""
    return presentation.balance_of(step.state, known, step.target, tolerance=tolerance_of(step))
