"""The grammar of typed questions: what is read, and what is left to search by name."""

from __future__ import annotations

from datetime import date

import pytest

from apps.search.questions import (
    ME,
    Question,
    Unreadable,
    WhatChanged,
    WhenOnTarget,
    WhoIsOff,
    WhyOrder,
    first_day,
    read_question,
)

READ: list[tuple[str, Question | None]] = [
    ("why is kimberg behind toveholm", WhyOrder("kimberg", "toveholm", False)),
    ("  WHY  is Kimberg behind\tToveholm ?", WhyOrder("kimberg", "toveholm", False)),
    ("why is kimberg ahead of toveholm?", WhyOrder("kimberg", "toveholm", True)),
    ("why does kimberg wait behind toveholm", WhyOrder("kimberg", "toveholm", False)),
    ("why is kimberg ranked lower than toveholm", WhyOrder("kimberg", "toveholm", False)),
    ("why is /climate/seasonal/kimberg behind c1:tove", WhyOrder("/climate/seasonal/kimberg", "c1:tove", False)),
    ("why am I behind toveholm", WhyOrder(ME, "toveholm", False)),
    ("why is anna maria behind tove", WhyOrder("anna maria", "tove", False)),
    ("who is over target", WhoIsOff("over")),
    ("who is over", WhoIsOff("over")),
    ("who is under its target for 3 days", WhoIsOff("under", 3)),
    ("who has been over target for more than 14 days?", WhoIsOff("over", 14)),
    ("who is over for 2 weeks", WhoIsOff("over", 14)),
    ("who is over for 14 days and blocks others", WhoIsOff("over", 14, True)),
    ("which groups are over target and block other groups", WhoIsOff("over", 0, True)),
    ("who is under target in climate", WhoIsOff("under", 0, False, "climate")),
    ("what changed", WhatChanged(14)),
    ("what changed?", WhatChanged(14)),
    ("what changed today", WhatChanged(1)),
    ("what changed last week", WhatChanged(7)),
    ("what has changed last week in climate", WhatChanged(7, "climate")),
    ("what changed in climate last week", WhatChanged(7, "climate")),
    ("what changed in the last 3 days below /climate", WhatChanged(3, "/climate")),
    ("what changed since 2026-11-01 in ocean", WhatChanged(0, "ocean", date(2026, 11, 1))),
    ("what changed in sea ice", WhatChanged(14, "sea ice")),
    ("when is genomics on target", WhenOnTarget("genomics")),
    ("when will genomics be back on its target?", WhenOnTarget("genomics")),
    ("when does sea ice reach its target", WhenOnTarget("sea ice")),
    ("when am I on target again", WhenOnTarget(ME)),
    # Questions that no rule reads
    ("how is the weather", Unreadable("how")),
    ("climate?", Unreadable("climate")),
    ("why is kimberg", Unreadable("why")),
    ("who is over for 9999 days", Unreadable("who")),
    ("who is under target and blocks others", Unreadable("who")),
    ("what changed since 2026-13-01", Unreadable("what")),
    ("what changed sideways", Unreadable("what")),
    # Names
    ("climate", None),
    ("who", None),
    ("whoami", None),
    ("what-if", None),
    ("/climate/why", None),
]


@pytest.mark.parametrize(("text", "question"), READ, ids=[text.strip() for text, _question in READ])
def test_input_is_parsed_as_a_question_or_a_name(text: str, question: Question | None) -> None:
    assert read_question(text) == question


def test_a_period_includes_today_as_its_last_day() -> None:
    today = date(2026, 11, 20)
    assert first_day(WhatChanged(1), today) == today
    assert first_day(WhatChanged(7), today) == date(2026, 11, 14)
    assert first_day(WhatChanged(0, "", date(2026, 1, 1)), today) == date(2026, 1, 1)
