"""Parses typed questions by a small grammar of four kinds; case, spacing and the question mark are ignored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from apps.search.name_index import fold

ME = ""  # the name in "why am I behind …"
MOST_DAYS = 366


@dataclass(frozen=True, slots=True)
class WhyOrder:
    """Why is one account behind, or ahead of, another."""

    one: str
    other: str
    says_ahead: bool


@dataclass(frozen=True, slots=True)
class WhoIsOff:
    """Which entries are over or under target. n_days: on each of the last n full days, 0 for now. within: children of
    this entry.
    """

    side: Literal["over", "under"]
    n_days: int = 0
    blocks_others: bool = False
    within: str = ""


@dataclass(frozen=True, slots=True)
class WhatChanged:
    """Which revisions were published in the last days, or since a day. within: at or below this entry."""

    n_days: int = 14
    within: str = ""
    since: date | None = None


@dataclass(frozen=True, slots=True)
class WhenOnTarget:
    name: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A question that matches no rule. about: its first word."""

    about: str


Question = WhyOrder | WhoIsOff | WhatChanged | WhenOnTarget | Unreadable

_WHY = re.compile(
    r"why (?:is|am|are|does|do) (?P<one>.+?) (?:(?:waiting |wait |waits |come |comes |rank |ranks |ranked )?)"
    r"(?:(?P<behind>behind|after|below|lower than)|(?P<ahead>ahead of|before|above|higher than)) (?P<other>.+)"
)
_WHO = re.compile(
    r"(?:who|which \w+) (?:is|are|was|has been|have been) (?P<side>over|under|above|below)"
    r"(?: (?:its|their|the))?(?: (?:target|targets|share|shares))?"
    r"(?: for (?:more than |at least |over |> ?)?(?P<n>\d{1,4}) (?P<unit>day|week)s?)?"
    r"(?P<blocks> (?:and|that|who|which) (?:blocks?|is blocking|are blocking|holds? back) (?:others|other \w+))?"
    r"(?: (?:in|below|inside) (?P<within>.+))?"
)
_CHANGED = re.compile(r"what (?:has |have |was |were )?changed?(?: (?P<rest>.+))?")
_PERIOD = re.compile(
    r"\b(?:(?P<named>today|yesterday|(?:this|last|past) (?:week|month))"
    r"|(?:in |within |over )?(?:the )?(?:last|past) (?P<n>\d{1,4}) (?P<unit>day|week|month)s?"
    r"|since (?P<since>\d{4}-\d\d-\d\d))\b"
)
_WHEN = re.compile(
    r"when (?:is|are|will|am|does|do) (?P<name>.+?) (?:be |get |come |return )?(?:back )?"
    r"(?:on|at|to|reach|reaches) (?:its |their |my |the )?(?:target|share)(?: again)?"
)
_QUESTION = re.compile(r"(?:why|who|what|when|how|which|where)\b .+")
_DAYS = {"day": 1, "week": 7, "month": 30}
_NAMED = {"today": 1, "yesterday": 2, "week": 7, "month": 30}
_SELF = ("i", "me", "my account", "my job", "my jobs")


def read_question(text: str) -> Question | None:
    """Parse a question; None if the text is a name to search for."""
    question_text = fold(text)
    is_question = question_text.endswith("?")
    question_text = question_text.rstrip("?!. ")
    for rule, read in ((_WHY, _why), (_WHO, _who), (_CHANGED, _changed), (_WHEN, _when)):
        found = rule.fullmatch(question_text)
        question = read(found) if found else None
        if question is not None:
            return question
    if is_question or _QUESTION.fullmatch(question_text):
        return Unreadable(question_text.partition(" ")[0])
    return None


def _why(found: re.Match[str]) -> Question:
    return WhyOrder(_name(found["one"]), _name(found["other"]), found["ahead"] is not None)


def _who(found: re.Match[str]) -> Question | None:
    n_days = int(found["n"] or 0) * _DAYS[found["unit"] or "day"]
    if n_days > MOST_DAYS:
        return None
    side: Literal["over", "under"] = "over" if found["side"] in ("over", "above") else "under"
    blocks = found["blocks"] is not None
    if blocks and side == "under":
        return None
    return WhoIsOff(side, n_days, blocks, (found["within"] or "").strip())


def _changed(found: re.Match[str]) -> Question | None:
    """The period may precede or follow the entry."""
    rest = found["rest"] or ""
    period = _PERIOD.search(rest)
    if period is not None:
        rest = f"{rest[: period.start()]} {rest[period.end() :]}".strip()
    if not rest:
        return _with_period(period, "")
    within = re.fullmatch(r"(?:in|at|for|below|inside|of) (.+)", " ".join(rest.split()))
    return _with_period(period, within[1]) if within else None


def _with_period(period: re.Match[str] | None, within: str) -> Question | None:
    if period is None:
        return WhatChanged(within=within)
    if period["since"]:
        try:
            return WhatChanged(0, within, date.fromisoformat(period["since"]))
        except ValueError:
            return None
    if period["named"]:
        return WhatChanged(_NAMED[period["named"].split()[-1]], within)
    n_days = int(period["n"]) * _DAYS[period["unit"]]
    return WhatChanged(n_days, within) if 0 < n_days <= MOST_DAYS else None


def _when(found: re.Match[str]) -> Question:
    return WhenOnTarget(_name(found["name"]))


def _name(text: str) -> str:
    return ME if text in _SELF else text


def first_day(question: WhatChanged, today: date) -> date:
    """Return the first day of the queried period."""
    return question.since or today - timedelta(days=question.n_days - 1)
