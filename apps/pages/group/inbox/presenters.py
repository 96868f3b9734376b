"""Requests for shares: a request's card with its evidence and state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.engine.target_state import State
from apps.policies.models import ChangeSet, Comment
from apps.policies.requests.share_requests import RequestState
from apps.priorities.request_evidence import Giver, RequestEvidence, Week
from apps.priorities.sentences import numbers as number_texts
from apps.web.links.addresses import group_url, review_url
from apps.web.shell import lines, presentation
from apps.web.shell.presentation import Balance
from apps.web.svg.bars import Tolerance
from apps.web.texts.request_texts import request_title, shares_text, wish_text

_STATES = {
    RequestState.DRAFT: ("", "pencil"),
    RequestState.OPEN: ("warn", "clock"),
    RequestState.GRANTED: ("ok", "check"),
    RequestState.GRANTED_OTHER: ("ok", "check"),
    RequestState.DECLINED: ("bad", "x"),
    RequestState.WITHDRAWN: ("", "x"),
}


@dataclass(frozen=True, slots=True)
class WeekLine:
    """Actual share and target of a group in one past week."""

    at: datetime
    numbers: str
    balance: Balance


@dataclass(frozen=True)
class RequestCard:
    """A request as the inbox and the group's page show it.

    offered: what was granted instead; empty if it is what was requested. asked_until: ISO date for a date field.
    """

    change_set: ChangeSet
    title: str
    entry_name: str
    entry_url: str
    parent_name: str
    state: RequestState
    decision: str
    state_css: str
    state_icon: str
    target: str
    target_after: str
    used: str
    balance: Balance | None
    balance_after: Balance | None
    givers: str
    weeks: Sequence[WeekLine]
    weeks_key: str
    weeks_text: str
    offered: str
    asked_shares: str
    asked_until: str
    review_url: str
    group_url: str
    problem: str
    revision: int | None
    comments: Sequence[Comment]


def draw_request(story: RequestEvidence, comments: Sequence[Comment], weeks: Sequence[Week]) -> RequestCard:
    change_set, entry = story.change_set, story.entry
    slug, tolerance = change_set.policy.slug, lines.tolerance_of(story.settings)
    css, icon = _STATES[story.state]
    name = entry.name if entry else _("an entry that is archived")
    offer = story.offer
    used = entry.actual if entry else None
    decimals = number_texts.decimals_beside(used, entry.target if entry else None, story.target_after)
    weeks_key, weeks_text = _weeks_text(weeks)
    return RequestCard(
        change_set=change_set,
        title=request_title(story, name),
        entry_name=name,
        entry_url=lines.entry_url(slug, entry.uid, entry.name) if entry else "",
        parent_name=story.parent_name,
        state=story.state,
        decision=_decision(story.state),
        state_css=css,
        state_icon=icon,
        target=number_texts.percent(entry.target, decimals) if entry else "",
        target_after=number_texts.percent(story.target_after, decimals) if story.target_after is not None else "",
        used=number_texts.percent(entry.actual, decimals) if entry else "",
        balance=_balance(entry.actual, entry.target, entry.state, tolerance, decimals) if entry else None,
        balance_after=_balance(entry.actual, story.target_after, story.state_after, tolerance, decimals)
        if entry
        else None,
        givers=_givers(story),
        weeks=[_week(week, tolerance) for week in weeks],
        weeks_key=weeks_key,
        weeks_text=weeks_text,
        offered=wish_text(offer) if story.state is RequestState.GRANTED_OTHER else "",
        asked_shares=shares_text(offer.shares),
        asked_until=offer.until.isoformat() if offer.until else "",
        review_url=review_url(change_set.pk),
        group_url=group_url(slug, change_set.asks_entry_uid),
        problem=story.problem,
        revision=story.revision,
        comments=comments,
    )


def _decision(state: RequestState) -> str:
    """Heading of a decided request's last step; empty while it is open."""
    return {
        RequestState.GRANTED: _("Granted"),
        RequestState.GRANTED_OTHER: _("Granted"),
        RequestState.DECLINED: _("Declined"),
        RequestState.WITHDRAWN: _("Withdrawn"),
    }.get(state, "")


def state_label(state: RequestState) -> str:
    return {
        RequestState.DRAFT: _("not sent"),
        RequestState.OPEN: _("waiting"),
        RequestState.GRANTED: _("granted"),
        RequestState.GRANTED_OTHER: _("granted"),
        RequestState.DECLINED: _("declined"),
        RequestState.WITHDRAWN: _("withdrawn"),
    }[state]


def ranks_text(story: RequestEvidence) -> tuple[str, str]:
    """Key and text with the numbers of visible entries whose rank would rise and fall."""
    if story.n_sooner is None or story.n_later is None:
        return "too_large", _("The policy is large: the review shows the rank changes.")
    if not story.n_sooner and not story.n_later:
        return "unmoved", _("No rank changes")
    sooner = ngettext("%(n)s up", "%(n)s up", story.n_sooner) % {"n": story.n_sooner}
    later = ngettext("%(n)s down", "%(n)s down", story.n_later) % {"n": story.n_later}
    return "moved", f"{sooner}, {later}"


def _points(giver: Giver) -> str:
    return _("%(n)s points") % {"n": presentation.change(giver.before, giver.after)}


def _givers(story: RequestEvidence) -> str:
    givers = [f"{each.name} {_points(each)}" for each in story.givers]
    names = ", ".join(givers)
    if story.n_more_givers:
        return _("%(names)s and %(n)s more") % {"names": names, "n": story.n_more_givers}
    return names


def _week(week: Week, tolerance: Tolerance) -> WeekLine:
    shares = number_texts.compare_shares(week.actual, week.target)
    numbers = _("%(actual)s, target %(target)s") % {"actual": shares.actual, "target": shares.target}
    return WeekLine(week.as_of, numbers, _balance(week.actual, week.target, week.state, tolerance))


def _weeks_text(weeks: Sequence[Week]) -> tuple[str, str]:
    """Key and text: the most frequent state of the group, and in how many of the known weeks it had it."""
    if not weeks:
        return "unknown", _("No usage data")
    if len(weeks) == 1:
        now = {"over": _("Over now"), "under": _("Under now"), "on": _("On target now"), "idle": _("No demand now")}
        return f"now.{weeks[0].state}", now.get(weeks[0].state, _("No data now"))
    texts = {
        "over": _("Over in %(n)s of %(all)s"),
        "under": _("Under in %(n)s of %(all)s"),
        "on": _("On target in %(n)s of %(all)s"),
        "idle": _("No demand in %(n)s of %(all)s"),
    }
    counts = {state: sum(week.state == state for week in weeks) for state in texts}
    state = max(counts, key=lambda each: (counts[each], each == weeks[-1].state))
    return f"weeks.{state}", texts[state] % {"n": counts[state], "all": len(weeks)}


def _balance(
    actual: float | None, target: float | None, state: State, tolerance: Tolerance, decimals: int | None = None
) -> Balance:
    return presentation.balance_of(state, actual, target, tolerance=tolerance, decimals=decimals)
