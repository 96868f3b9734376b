"""The notice of changed advice: for managers, when it becomes another one, once, and not of the first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import orjson
import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.lab.advisor import runs
from apps.contrib.lab.advisor.records import Evidence
from apps.contrib.lab.models import PolicyAdvice
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.kinds import kind_of
from apps.contrib.notices.models import Notice
from apps.contrib.notices.pages.presenters import url_of
from apps.contrib.notices.visibility import Reader
from tests.contrib.lab.advisor.made_evidence import evidence, replay
from tests.contrib.lab.advisor.site import SETTINGS, computed_advice
from tests.priority_site import AS_OF, PROJECTS, Site

pytestmark = pytest.mark.django_db
KIND = "advice_changed"
NOW = replay("7 days", 4.0, 5.0, is_now=True)
KEEP, CHANGE = evidence(), evidence(half_lives=(NOW, replay("4 days", 3.5, 4.0, value=345_600)))


@pytest.fixture
def measure(make_site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch) -> Callable[[Evidence], None]:
    """Runs the advice of a policy with this evidence as what is measured."""
    site = make_site(at=AS_OF)
    site.publish(PROJECTS, dict(SETTINGS))

    def run(measured: Evidence) -> None:
        monkeypatch.setattr(runs, "measure_policy", lambda policy, *, at, done, most: measured)
        done = computed_advice(site)
        assert done.state == "succeeded", done.error
        evaluate(at=AS_OF + timedelta(minutes=1), only=[KIND])

    return run


def opened() -> list[Notice]:
    return list(Notice.objects.filter(kind=KIND, closed_at=None))


def test_the_first_advice_and_an_equal_one_are_no_news(measure: Callable[[Evidence], None]) -> None:
    for _again in range(2):
        measure(CHANGE)
        assert opened() == []


def test_managers_get_one_notice_of_another_advice(measure: Callable[[Evidence], None]) -> None:
    measure(KEEP)
    measure(CHANGE)
    evaluate(at=AS_OF + timedelta(minutes=2), only=[KIND])
    (notice,) = opened()
    text = kind_of(KIND).describe(orjson.loads(orjson.dumps(notice.facts))).text
    assert text == "The advice for grid is another one now: Half-life: 4 days instead of 7 days."
    admin, other = (User.objects.create_superuser("root"), User.objects.create_user("zoe"))
    for user, sees in ((admin, True), (other, False)):
        reader = Reader(Actor(user=user, via="page"), AS_OF + timedelta(minutes=2))
        assert kind_of(KIND).is_for(reader, notice) == sees
    measure(CHANGE)
    assert [each.pk for each in opened()] == [notice.pk]


def test_the_notice_ends_after_its_days(measure: Callable[[Evidence], None]) -> None:
    measure(KEEP)
    measure(CHANGE)
    evaluate(at=AS_OF + timedelta(days=31), only=[KIND])
    assert opened() == []
    assert PolicyAdvice.objects.get().changed_at is not None


def test_it_leads_to_the_page(measure: Callable[[Evidence], None]) -> None:
    measure(KEEP)
    measure(CHANGE)
    (notice,) = opened()

    class Line:
        kind = kind_of(KIND)

    line = Line()
    line.notice = notice  # type: ignore[attr-defined]
    assert url_of(line) == "/policy/grid/algorithm/"  # type: ignore[arg-type]
