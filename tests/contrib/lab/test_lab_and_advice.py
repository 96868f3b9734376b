"""Lab and advice give the same answer, and it is the one that follows by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apps.contrib.lab.comparison import replayed_settings
from apps.contrib.lab.models import VariantResult
from tests.contrib.lab.advisor.conftest import _few_replays  # noqa: F401 - fixture
from tests.contrib.lab.advisor.test_known_sites import overloaded
from tests.contrib.lab.asked_site import DAY_S, HALF_LIVES_DAYS, asked, stored_site
from tests.priority_site import Site, _clock, make_site  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _half_lives(monkeypatch: pytest.MonkeyPatch, _few_replays: None) -> None:  # noqa: F811
    monkeypatch.setattr(replayed_settings, "HALF_LIVES_S", tuple(days * DAY_S for days in HALF_LIVES_DAYS))


def test_both_answer_alike_by_the_same_numbers(make_site: Callable[..., Site]) -> None:  # noqa: F811
    known = overloaded(1.8)
    answers = asked(stored_site(make_site, known), known)
    assert answers.by_advice == answers.by_lab == {"operator": "relative"}
    by_lab = {row.index: row.summary["compared"]["facts"] for row in VariantResult.objects.all()}
    by_advice = {each.name: each for each in answers.evidence.tried_operators}
    for index, name in enumerate(("absolute", "relative")):
        for part in ("training", "held_back", "late", "latest"):
            assert by_lab[index][part] == list(getattr(by_advice[name], part)), (name, part)
    assert answers.lab.closest == 1
