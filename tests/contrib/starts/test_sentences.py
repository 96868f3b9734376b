"""What is said about the start of a job: each case of an answer has its whole sentences."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from apps.contrib.starts.answer import Before, FirstOutcome, FirstPromise, HeldRecord, StartAnswer, StartNote
from apps.contrib.starts.prediction.bases import PLAN, RECORDS, SCHEDULER, TREES
from apps.contrib.starts.prediction.recent_waits import CONSTANT, RECENT
from apps.contrib.starts.sentences import basis_sentence, made_text, record_sentences, start_of
from tests.instants import AT

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
HELD = HeldRecord(0.8056, 1_204, 90, 0.81)


@pytest.fixture(autouse=True)
def _in_one_zone() -> object:
    with timezone.override("UTC"):
        yield


def answer(
    p50: timedelta | None = 20 * MINUTE,
    p80: timedelta | None = 2 * HOUR,
    p95: timedelta | None = 30 * HOUR,
    *,
    within: float | None = 0.28,
    made_at: datetime = AT,
    first: FirstPromise | None = None,
    held: HeldRecord = HELD,
    note: StartNote | None = None,
) -> StartAnswer:
    """A promise whose times are that long after it was made."""
    before = Before(*(None if after is None else made_at + after for after in (p50, p80, p95)))
    return StartAnswer(within, before, made_at, within is not None, "recent", first, held, note)


def unpromised(note: StartNote, first: FirstPromise | None = None) -> StartAnswer:
    return StartAnswer(None, None, AT, False, "", first, HELD, note)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_a_promise_at_submission_is_one_line_with_its_record() -> None:
    assert AT.isoformat() == "2026-11-20T12:00:00+00:00"
    start = start_of(answer(), AT + MINUTE)
    assert plain(start.text) == (
        "Within 5 minutes: 28 %. Before 14:00 UTC: 80 %. Before Sat 18:00 UTC: 95 %. Said at submission."
    )
    assert plain(start.record_text) == (
        "Estimated from recent waits of jobs like it. Of 1,204 such promises in 90 days 80.6 % held."
    )
    assert (plain(start.short), start.first_text, start.note_text) == ("14:00", "", "")


def test_within_5_minutes_is_left_out_when_they_are_over() -> None:
    start = start_of(answer(), AT + 5 * MINUTE)
    assert plain(start.text).startswith("Before 12:20 UTC: 50 %. Before 14:00 UTC: 80 %.")
    assert start.within_5_min == 0.28


def test_levels_whose_time_is_over_are_left_out() -> None:
    later = answer(within=None)
    assert plain(start_of(later, AT + HOUR).text) == (
        "Before 14:00 UTC: 80 %. Before Sat 18:00 UTC: 95 %. Said at 12:00 UTC."
    )
    over = start_of(later, AT + 31 * HOUR)
    assert over.text.startswith("The time of its last promise is over.")
    assert (over.short, over.before_80) == ("overdue", AT + 2 * HOUR)


@pytest.mark.parametrize(
    ("later", "text"),
    [
        (11 * HOUR, "Said at 12:00 UTC."),
        (12 * HOUR, "Said yesterday at 12:00 UTC."),
        (36 * HOUR, "Said on 20 Nov at 12:00 UTC."),
        (60 * DAY, "Said on 20 Nov 2026 at 12:00 UTC."),
    ],
)
def test_an_answer_from_before_today_names_its_day(later: timedelta, text: str) -> None:
    assert plain(made_text(answer(within=None), AT + later)) == text


def test_a_level_that_says_no_more_than_another_is_left_out() -> None:
    shortest = answer(5 * MINUTE, 5 * MINUTE, HOUR, within=0.9)
    assert plain(start_of(shortest, AT).text) == "Within 5 minutes: 90 %. Before 13:00 UTC: 95 %. Said at submission."
    same = answer(HOUR, 2 * HOUR, 2 * HOUR)
    assert plain(start_of(same, AT).text) == "Within 5 minutes: 28 %. Before 14:00 UTC: 95 %. Said at submission."


@pytest.mark.parametrize(
    ("times", "text", "short"),
    [
        ((HOUR, DAY, None), "Before Sat 12:00 UTC: 80 %. For 95 %: more than a week.", "Sat 12:00"),
        ((HOUR, None, None), "For 80 %: more than a week.", "more than a week"),
        ((None, None, None), "For 80 %: more than a week.", "more than a week"),
    ],
)
def test_more_than_a_week_replaces_a_useless_date(times: tuple[timedelta | None, ...], text: str, short: str) -> None:
    start = start_of(answer(*times), AT)
    assert plain(start.text) == f"Within 5 minutes: 28 %. {text} Said at submission."
    assert plain(start.short) == short


def test_a_day_is_named_by_its_name_for_less_than_six_days() -> None:
    start = start_of(answer(None, 6 * DAY - MINUTE, 6 * DAY), AT)
    assert "Before Thu 11:59 UTC: 80 %. Before 26 Nov, 12:00 UTC: 95 %." in plain(start.text)


@pytest.mark.parametrize(
    ("chance", "shown"),
    [(0.0, "<1 %"), (0.004, "<1 %"), (0.006, "1 %"), (0.994, "99 %"), (0.996, ">99 %"), (1, ">99 %")],
)
def test_nothing_is_certain(chance: float, shown: str) -> None:
    assert plain(start_of(answer(within=chance), AT).text).startswith(f"Within 5 minutes: {shown}. ")


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (
            FirstPromise(AT - 5 * HOUR, AT - HOUR, FirstOutcome.BROKEN, AT - HOUR),
            "The first promise was before 11:00 UTC, and broken; now before 14:00 UTC.",
        ),
        (
            FirstPromise(AT - 5 * HOUR, AT + 9 * HOUR, FirstOutcome.OPEN, None),
            "The first promise is before 21:00 UTC; now before 14:00 UTC.",
        ),
        (
            FirstPromise(AT - 3 * DAY, AT - 2 * DAY, FirstOutcome.KEPT, AT - 2 * DAY),
            "The first promise was before 18 Nov, 12:00 UTC, and kept: it waits again.",
        ),
        (
            FirstPromise(AT - 9 * DAY, None, FirstOutcome.OPEN, None),
            "The first promise was more than a week; now before 14:00 UTC.",
        ),
        (FirstPromise(AT, AT + 2 * HOUR, FirstOutcome.OPEN, None), ""),
    ],
)
def test_the_first_promise_stays_in_view(first: FirstPromise, text: str) -> None:
    start = start_of(answer(within=None, first=first), AT)
    assert plain(start.first_text) == text
    assert start.first is not None
    assert (start.first.before_80, start.first.outcome) == (first.before_80, first.outcome.value)


def test_a_broken_promise_stays_in_view_while_there_is_no_other() -> None:
    broken = FirstPromise(AT - 5 * HOUR, AT - HOUR, FirstOutcome.BROKEN, AT - HOUR)
    held = start_of(unpromised(StartNote.HELD, broken), AT)
    assert plain(held.first_text) == "The first promise was before 11:00 UTC, and broken."
    far = start_of(answer(None, None, None, within=None, first=broken), AT)
    assert plain(far.first_text) == "The first promise was before 11:00 UTC, and broken; now more than a week."
    still_far = FirstPromise(AT - 9 * DAY, None, FirstOutcome.OPEN, None)
    assert start_of(answer(None, None, None, within=None, first=still_far), AT).first_text == ""


def test_too_few_waits_are_named_with_their_number() -> None:
    learning = StartAnswer(None, None, AT, True, "", None, HELD, StartNote.LEARNING, 3)
    shown = start_of(learning, AT)
    assert shown.sentences == ["No start is promised yet: of 30 starts to learn from, 3 are known."]
    assert shown.short == "not known yet"
    assert start_of(learning._replace(n_seen=None), AT).note_text == (
        "No start is promised yet: it takes 30 starts to learn from."
    )
    assert "of 30 starts to learn from, 29 are known" in start_of(learning._replace(n_seen=29), AT).note_text
    for n_seen in (30, 200):
        assert start_of(learning._replace(n_seen=n_seen), AT).sentences == [
            "No start is promised yet: enough starts to learn from are known only now."
        ]


def test_each_base_has_a_sentence_and_records_say_that_nothing_was_promised() -> None:
    bases = (CONSTANT, RECENT, PLAN, SCHEDULER, TREES, RECORDS)
    shown = {basis_sentence(answer()._replace(basis=basis, source="umea")) for basis in bases}
    assert len(shown) == len(bases)
    start = start_of(answer()._replace(basis=RECORDS, source="umea"), AT)
    assert plain(start.record_text) == (
        "Estimated from recent waits in the records of umea, without its queue. "
        "Of 1,204 such promises for its jobs of 90 days 80.6 % would have held."
    )


@pytest.mark.parametrize("note", [StartNote.HELD, StartNote.DEPENDENCY, StartNote.BEGIN_TIME, StartNote.NEVER])
def test_without_a_promise_only_the_reason_is_shown(note: StartNote) -> None:
    start = start_of(unpromised(note), AT)
    assert (start.is_promised, start.text, start.record_text, start.note) == (False, "", "", note.value)
    assert start.note_text.endswith(".")
    assert start.short not in ("", "–")
    assert start.sentences == [start.note_text]


@pytest.mark.parametrize("note", [StartNote.STALE, StartNote.CAPACITY])
def test_a_promise_names_what_it_does_not_know(note: StartNote) -> None:
    start = start_of(answer(note=note), AT)
    assert start.sentences == [start.text, start.note_text, start.record_text]


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (HeldRecord(None, 0, 90, None), "No such promise is settled yet."),
        (HeldRecord(1.0, 1, 90, None), "Only 1 such promise is settled yet, too few for a record."),
        (HeldRecord(0.9, 29, 90, None), "Only 29 such promises are settled yet, too few for a record."),
        (HeldRecord(0.9, 30, 90, None), "Of 30 such promises in 90 days 90.0 % held."),
        (HeldRecord(0.78, 900, 90, 0.65), "Of 900 such promises in 90 days 78.0 % held."),
        (
            HeldRecord(0.78, 900, 90, 0.6499),
            "Of 900 such promises in 90 days 78.0 % held. Of the latest only 65 % held: rely on it less.",
        ),
    ],
)
def test_the_record_says_how_often_such_promises_held(held: HeldRecord, text: str) -> None:
    assert plain(" ".join(record_sentences(held))) == text
    assert start_of(answer(held=held), AT).held.is_low is (held.recent_share == 0.6499)


def test_times_are_in_the_zone_of_the_page() -> None:
    with timezone.override("America/New_York"):
        start = start_of(answer(None, 2 * HOUR, 18 * HOUR), AT)
    assert "Before 09:00 EST: 80 %. Before Sat 01:00 EST: 95 %." in plain(start.text)
