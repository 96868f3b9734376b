"""Lab and advice give the same answer, and it is the one that follows by hand; on sites made to mislead, none.

    pytest -n 0 -s --deep tests/contrib/lab/test_lab_and_advice.py

prints the answers side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.contrib.lab.comparison import replayed_settings
from apps.contrib.lab.comparison.verdict import ReplayFacts, read_facts
from apps.contrib.lab.models import VariantResult
from tests.contrib.lab.advisor.conftest import _few_replays  # noqa: F401 - fixture
from tests.contrib.lab.advisor.known_answers import ANSWERS, MISLEADING, N_SHORT, KnownAnswer, overloaded
from tests.contrib.lab.asked_site import DAY_S, HALF_LIVES_DAYS, Answers, asked, experiment, stored_site, variants_of
from tests.pages.page import read
from tests.priority_site import Site, _clock, make_site  # noqa: F401 - fixtures
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
PARTS = ("training", "held_back", "late", "latest")


@pytest.fixture(autouse=True)
def _half_lives(monkeypatch: pytest.MonkeyPatch, _few_replays: None) -> None:  # noqa: F811
    monkeypatch.setattr(replayed_settings, "HALF_LIVES_S", tuple(days * DAY_S for days in HALF_LIVES_DAYS))


@pytest.fixture(scope="module")
def rows() -> Iterator[list[tuple[str, ...]]]:
    """Of the table that is printed at the end."""
    rows: list[tuple[str, ...]] = [("site", "right answer", "advice", "lab")]
    yield rows
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    print()
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _text(changes: dict[str, str], headline: str) -> str:
    answers = ", ".join(f"{subject} {name}" for subject, name in changes.items())
    return answers or ("no comparison" if "can't be compared" in headline else "nothing to advise")


@pytest.mark.deep
@pytest.mark.parametrize("known", [*ANSWERS, *MISLEADING], ids=lambda known: known.name)
def test_both_give_the_answer_that_follows_by_hand(
    make_site: Callable[..., Site],  # noqa: F811
    known: KnownAnswer,
    rows: list[tuple[str, ...]],
) -> None:
    answers = asked(stored_site(make_site, known.site), known.site)
    advised, by_lab = answers.by_advice, answers.by_lab
    both = zip((advised, by_lab), answers.refusals, strict=True)
    rows.append((known.name, known.text, *(_text(changes, headline) for changes, headline in both)))
    assert advised == by_lab, (answers.advice.sentence, [each.sentence for each in answers.lab.verdicts])
    assert set(advised) == set(known.right), answers.advice.sentence
    for subject, name in advised.items():
        assert name in known.right[subject], known.why
    for headline in answers.refusals:
        assert headline.startswith(known.refusal)
    assert answers.advice.sample.meets_history == answers.lab.explains_waits == (not known.refusal)
    if not known.refusal:
        assert answers.lab.verdicts
        _same_numbers(answers)
    if known.right:
        assert answers.advice.held_back is not None
        assert answers.advice.held_back.recommended_points < answers.advice.held_back.now_points
    if "operator" not in known.right and known.name == "an operator without effect":
        now, other = (_facts(index) for index in (0, 1))
        assert [getattr(now, part) for part in PARTS] == [getattr(other, part) for part in PARTS]
    if known.name.startswith("23,000"):
        assert answers.advice.sample.n_jobs > N_SHORT


def _facts(index: int) -> ReplayFacts:
    return read_facts(VariantResult.objects.get(index=index).summary["compared"]["facts"])


def _same_numbers(answers: Answers) -> None:
    """The operators were replayed with equal results to the last digit."""
    by_advice = {each.name: each for each in answers.evidence.tried_operators}
    own = next(each for each in answers.evidence.tried_operators if each.is_now)
    other = by_advice[answers.lab.variants[1].title]
    for index, each in enumerate((own, other)):
        for part in PARTS:
            assert getattr(_facts(index), part) == getattr(each, part), (each.name, part)


@pytest.mark.deep
def test_a_page_shows_the_verdict_with_the_distances_of_both_parts(
    make_site: Callable[..., Site],  # noqa: F811
    client: Client,
) -> None:
    """And variants without a verdict say why."""
    known = overloaded(1.8)
    site = stored_site(make_site, known)
    others: list[dict[str, Any]] = [
        {"name": "twice the shares", "entries": [{"entry": "/group3", "shares_times": 2.0}]},
        {"name": "late data", "noise": {"usage_delay_s": 3_600}},
    ]
    detail = experiment(site, [variants_of(known)[0], *others])
    sign_in(client, User.objects.create_superuser("eva", "eva@example.org", "a long pass phrase"))
    url = reverse("pages:experiment", kwargs={"policy": site.slug, "experiment": detail.row.id})
    shown = read(client.get(url))
    [verdict, *waits] = shown.texts("[data-testid=findings] li")
    assert verdict.startswith("relative is nearer to fair use than the base. On the first 21 days usage was 1.")
    assert len(waits) == 3
    assert not any("points" in each for each in waits)
    rows = {row.attributes["data-key"]: row.text() for row in shown.items("variant")}
    assert "closest to fair use" in rows["1"]
    assert "first days 15." in rows["0"]
    assert "first days 1." in rows["1"]
    for index in ("2", "3"):
        assert "No verdict: it changes more than settings" in rows[index]
        assert "first days" not in rows[index]
    listed = read(client.get(reverse("pages:lab", kwargs={"policy": site.slug})))
    assert "relative is nearer to fair use than the base." in listed.item("experiment").text()


@pytest.mark.deep
def test_other_processors_than_those_of_history_have_no_verdict(make_site: Callable[..., Site]) -> None:  # noqa: F811
    known = overloaded(1.8)
    detail = experiment(stored_site(make_site, known), variants_of(known)[:1], cpus={"grid-c1": 20})
    assert detail.verdicts == ()
    assert {each.compared.why_not for each in detail.variants if each.compared is not None} == {
        "No verdict: its processors aren't those of history."
    }
