"""Waits by group over REST and on the page: equal to a count over the records, and only for who sees every member."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.usage.models import Overlap, Record, Source
from apps.usage.services import NewSource, make_source
from tests.contrib.starts.now.conftest import waited_job
from tests.grants import make_grant
from tests.instants import AT
from tests.pages.page import read, text_of
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site, push

pytestmark = pytest.mark.django_db
HIDDEN = {"jobs": None, "median_s": None, "p90_s": None, "median_before_s": None}


def level_now(site: Site, user: User | None = None, **filters: str) -> Any:
    answer = Caller(token=site.token("policies:read", user=user)).get("policies/grid/now", filters)
    assert answer.status_code == 200, answer.content
    return answer.json()


def waits(level: Any) -> dict[str, Any]:
    return {row["path"] or row["kind"]: row["waits"] for row in level["rows"]}


def test_waits_of_each_group_are_those_of_its_records(waited: Site) -> None:
    """The three jobs of the site itself report no submission: they waited for no time, as the source says."""
    level = level_now(waited)
    assert waits(level) == {
        "/physics": {"jobs": 9, "median_s": 60.0, "p90_s": 252.0, "median_before_s": 20.0},
        "/biology": HIDDEN,
        "direct": HIDDEN,
        "unmapped": HIDDEN,
    }
    assert level["total"] == {"jobs": None, "median_s": 120.0, "p90_s": 3_600.0, "median_before_s": 20.0}
    assert (level["path"], level["n_days"], level["as_of"]) == ("/", 7, "2026-11-20T12:00:00Z")


def test_a_fifth_job_of_a_group_shows_its_waits_and_the_number_of_all(waited: Site) -> None:
    push(waited, [waited_job("d9", "carol", "biology", 7_200, AT - timedelta(hours=1))])
    level = level_now(waited)
    assert waits(level)["/biology"] == {"jobs": 5, "median_s": 3_600.0, "p90_s": 5_760.0, "median_before_s": None}
    assert level["total"]["jobs"] == 14


def test_members_are_one_row_and_never_named(waited: Site) -> None:
    level = level_now(waited, entry="/physics")
    assert list(waits(level)) == ["members", "direct"]
    assert waits(level)["members"]["jobs"] == 9
    assert not any(row["uid"] for row in level["rows"])
    assert "alice" not in str(level)


def test_jobs_that_started_outside_the_two_weeks_or_were_no_first_start_are_left_out(waited: Site) -> None:
    push(
        waited,
        [
            waited_job("e1", "alice", "physics", 9_999, AT - timedelta(days=14, seconds=1)),
            waited_job("e2", "alice", "physics", 9_999, AT - timedelta(hours=1), restart=1),
            waited_job("e3", "alice", "physics", 9_999, AT - timedelta(hours=1), end="2026-11-20T11:00:00Z"),
            waited_job("e4", "alice", "physics", 9_999, AT - timedelta(days=14)),
        ],
    )
    level = level_now(waited)
    assert waits(level)["/physics"] == {"jobs": 9, "median_s": 60.0, "p90_s": 252.0, "median_before_s": 20.0}
    assert level["sources_without_waits"] == 0


def test_a_source_that_reports_no_submissions_is_left_out_and_counted(site: Site) -> None:
    assert not Source.objects.filter(first_wait_at__isnull=False).exists()
    level = level_now(site)
    assert level["sources_without_waits"] == 1
    assert set(map(str, waits(level).values())) == {str(HIDDEN)}


@pytest.mark.parametrize("state", ["held", "dropped", "counted", "archived"])
def test_jobs_in_hours_that_two_sources_report_count_once(waited: Site, state: str) -> None:
    """Those of the held source don't, unless a manager decided otherwise or the other source is archived."""
    other = make_source(NewSource(slug="other", name="other"), at=AT, actor=SYSTEM)
    if state == "archived":
        Source.objects.filter(pk=other.pk).update(archived_at=AT)
    Overlap.objects.create(
        site=Record.objects.exclude(job="").values_list("site", flat=True).distinct().get(),
        kept=other,
        held=Source.objects.get(slug="cluster-a"),
        state="held" if state == "archived" else state,
        from_at=AT - timedelta(hours=6),
        to_at=AT,
        found_at=AT,
    )
    started = Record.objects.filter(
        start_at__gte=AT - timedelta(hours=6), start_at__lt=AT, account__group_name="physics"
    )
    n_held = started.count() if state in ("held", "dropped") else 0
    assert waits(level_now(waited))["/physics"]["jobs"] == 9 - n_held
    assert started.count() >= 3


def test_unmapped_accounts_are_a_row_for_managers_alone(waited: Site) -> None:
    push(waited, [waited_job(f"g{n}", "ghost", "nowhere", 30, AT - timedelta(hours=n + 1)) for n in range(6)])
    unmapped = waits(level_now(waited))["unmapped"]
    assert (unmapped["jobs"], unmapped["median_s"]) == (6, 30.0)
    assert "unmapped" not in waits(level_now(waited, waited.pia))


def test_a_lead_sees_the_own_group_and_no_other(waited: Site) -> None:
    level = level_now(waited, waited.pia)
    assert (level["path"], waits(level)["members"]["jobs"]) == ("/physics", 9)
    caller = Caller(token=waited.token("policies:read", user=waited.pia))
    assert caller.get("policies/grid/now", {"entry": "/"}).status_code == 403
    assert caller.get("policies/grid/now", {"entry": "/biology"}).status_code == 404


@pytest.mark.parametrize("role", ["viewer", ""])
def test_a_reader_of_sums_and_a_member_see_no_level(waited: Site, role: str) -> None:
    """A viewer of the whole sees sums of groups; alice sees her own path: neither sees every member."""
    user = waited.alice
    if role:
        user = User.objects.create_user("vera")
        make_grant(user, waited.uid("/"), role, policy=waited.policy)
    caller = Caller(token=waited.token("policies:read", "self:read", user=user))
    for filters in ({}, {"entry": "/"}, {"entry": "/physics"}):
        assert caller.get("policies/grid/now", filters).status_code == 403, filters


def test_the_page_has_the_numbers_of_the_answer(waited: Site, client: Client) -> None:
    sign_in(client, waited.admin)
    page = read(client.get("/policy/grid/now/"))
    assert page.text("[data-testid=headline]") == (
        "Half of the jobs of the last 7 days started within 2 min, nine of ten within 1 h."
    )
    rows = [[text_of(cell) for cell in row.css("th, td")] for row in page.all("[data-testid=wait]")]
    assert rows == [
        ["physics", "9", "1 min", "4 min", "as before"],
        ["biology", "under 5", "–", "–", "–"],
        ["Total", "–", "2 min", "1 h", "2 min longer"],
    ], "the longest median first"
    assert page.has(f'a[href="?entry={waited.uid("/physics")}"]')


def test_the_tab_is_for_managers_and_leads(waited: Site) -> None:
    for user, is_shown in ((waited.admin, True), (waited.pia, True), (waited.alice, False)):
        page = read(sign_in(Client(), user).get("/policy/grid/jobs/why/"))
        assert page.has('a[href="/policy/grid/now/"]') is is_shown, user
