"""Pages of core-hours, by request: what they say, what forms do, and what they refuse."""

from __future__ import annotations

import csv
import re
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.dashboard.forms.allocations import read_amount, typed_amount
from apps.policies.allocations.capacities import state_capacity
from apps.policies.allocations.giving import give_allocation
from apps.policies.models import Allocation, Capacity, ChangeSet, Policy
from apps.policies.services import change_shares
from apps.policies.trees import load_tree
from tests.dashboard.grid import SLUG, TRICKY, Grid, make_grid

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
PAGE = f"/policy/{SLUG}/allocations/"
YEAR = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
HTMX = {"HX-Request": "true"}


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


@pytest.fixture
def grid(db: None) -> Grid:
    return make_grid(AT)


@pytest.fixture
def admin(grid: Grid) -> Client:
    return signed_in(grid.admin)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def promise(grid: Grid, path: str, core_h: float, **days: date) -> Allocation:
    whole: dict[str, Any] = {"starts_on": date(2026, 1, 1), "ends_on": date(2026, 12, 31), **days}
    return give_allocation(
        policy_slug=SLUG, entry_uid=grid.uid(path), core_h=core_h, reason="Round 7.", at=AT,
        actor=Actor(user=grid.admin, via="page"), **whole,
    )  # fmt: skip


def cores(grid: Grid, n: float) -> Capacity:
    actor = Actor(user=grid.admin, via="page")
    return state_capacity(policy_slug=SLUG, starts_on=date(2026, 1, 1), cores=n, reason="x", at=AT, actor=actor)


def text(answer: Any) -> str:
    """Without markup, blanks as one."""
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).replace("\u00a0", " ").split())


def tab(grid: Grid, path: str, name: str) -> str:
    return f"/policy/{SLUG}/n/{grid.uid(path)}/{name}/core-hours/"


def test_nothing_stated_and_nothing_promised_says_so_and_what_to_do(db: None) -> None:
    grid = make_grid(AT, with_usage=False)
    page = text(signed_in(grid.admin).get(PAGE))
    assert "No core-hours are promised in 2026" in page
    assert "No capacity known yet" in page
    assert "No usage yet" in page
    assert "Nothing ends within 30 days" in page


def test_the_table_tells_promised_handed_out_kept_and_delivered(grid: Grid, admin: Client) -> None:
    cores(grid, 1000)  # 8,760,000 core-hours in the year
    promise(grid, "/atlas", 4_000_000)
    promise(grid, "/atlas/alice", 3_000_000)
    page = text(admin.get(PAGE))
    assert "The promises of 2026 fit into what there is" in page
    assert "4,000,000 of 8,760,000 core-hours are handed out, 4,760,000 are kept" in page
    assert "45.7 %" in page  # is a share of the whole
    assert "75 %" in page  # handed out by atlas
    assert "9,600" in page  # 400 cores for a day, delivered to atlas
    assert "behind" in page


def test_promised_too_often_is_the_first_thing_the_page_says(grid: Grid, admin: Client) -> None:
    promise(grid, "/atlas", 1000)
    promise(grid, "/atlas/alice", 700)
    promise(grid, "/atlas/bob", 500)
    page = text(admin.get(PAGE))
    assert "atlas has handed out more than it has" in page
    assert "comes to 1,200 core-hours, 200 more than it has" in page
    assert "200 too many" in page


def test_core_hours_are_promised_by_path_and_wrong_ones_are_kept_in_the_form(grid: Grid, admin: Client) -> None:
    form = {"entry": "/biomed", "core_h": "4,200,000", "reason": "Round 7.", **YEAR}
    done = admin.post(PAGE, form, follow=True)
    assert "4,200,000 core-hours are promised to /biomed" in text(done)
    assert Allocation.objects.get().core_h == 4_200_000
    again = admin.post(PAGE, form)
    assert (again.status_code, "already" in text(again)) == (422, True)
    for field, wrong, said in (
        ("core_h", "many", "Write a number"),
        ("core_h", "-5", "Write a number"),
        ("entry", "/nowhere", "There is no entry /nowhere"),
        ("ends_on", "2025-01-01", "Must not lie before"),
        ("reason", "", "required"),
        ("entry", "/", "is the root"),
    ):
        answer = admin.post(PAGE, {**form, field: wrong})
        assert answer.status_code == 422, field
        assert said.lower() in text(answer).lower(), (field, text(answer))
    assert Allocation.objects.count() == 1


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("4200000", 4_200_000), ("4,200,000", 4_200_000), ("4 200 000", 4_200_000), ("4\u202f200\u202f000", 4_200_000),
        ("4.200.000", 4_200_000), ("1,500", 1500), ("1,5", 1.5), ("0.5", 0.5), ("0,500", 0.5), ("1,234.5", 1234.5),
        ("1.234,5", 1234.5), ("12", 12),
    ],
)  # fmt: skip
def test_amounts_are_read_as_people_write_them(typed: str, meant: float) -> None:
    assert read_amount(typed) == meant


@given(value=st.floats(0, 1e15) | st.integers(0, 10**9).map(lambda n: n / 1000))
def test_amounts_that_forms_begin_with_are_read_as_themselves(value: float) -> None:
    assert read_amount(typed_amount(value)) == value


def test_a_promise_is_changed_and_withdrawn_by_who_saw_its_latest_state(grid: Grid, admin: Client) -> None:
    made = promise(grid, "/atlas", 1000)
    url = f"{PAGE}{made.uid}/"
    tag = re.search(r'name="tag" value="([^"]+)"', admin.get(url).content.decode())
    assert tag
    form = {"tag": tag[1], "step": "change", "core_h": "900", "reason": "Cut.", **YEAR}
    assert admin.post(url, form).status_code == 303
    assert Allocation.objects.get().core_h == 900
    stale = admin.post(url, {**form, "core_h": "800"})
    assert (stale.status_code, "load it again" in text(stale)) == (412, True)
    fresh = re.search(r'name="tag" value="([^"]+)"', admin.get(url).content.decode())
    assert fresh
    gone = admin.post(url, {"tag": fresh[1], "step": "withdraw", "reason": "A mistake."})
    assert gone.status_code == 303
    assert admin.get(url).status_code == 404


def test_capacity_is_stated_changed_and_removed(grid: Grid, admin: Client) -> None:
    url = f"{PAGE}capacity/"
    wrong = admin.post(url, {"cores": "-1", "starts_on": "2026-01-01", "reason": "x"})
    assert wrong.status_code == 422
    done = admin.post(url, {"cores": "1,000", "site": "hpc", "starts_on": "2026-01-01", "reason": "New."}, follow=True)
    assert "8,760,000 core-hours in 2026" in text(done)
    made = Capacity.objects.get()
    one = f"{url}{made.pk}/"
    tag = re.search(r'name="tag" value="([^"]+)"', admin.get(one).content.decode())
    assert tag
    changed = {"tag": tag[1], "step": "change", "cores": "500", "starts_on": "2026-01-01", "reason": "Half."}
    assert admin.post(one, changed).status_code == 303
    assert admin.post(one, changed).status_code == 412
    fresh = re.search(r'name="tag" value="([^"]+)"', admin.get(one).content.decode())
    assert fresh
    assert admin.post(one, {"tag": fresh[1], "step": "remove", "reason": "Never was."}).status_code == 303
    assert not Capacity.objects.exists()


def test_the_table_is_a_file_whose_cells_are_no_formulas(grid: Grid, admin: Client) -> None:
    policy = Policy.objects.get(slug=SLUG)
    tree = load_tree(policy)
    from apps.policies.services import make_change_set, publish_change_set

    actor = Actor(user=grid.admin, via="page")
    operations = [{"op": "add", "parent": str(tree.uuid(0)), "name": "=1+1", "kind": "@x", "shares": 1}]
    draft = make_change_set(policy_slug=SLUG, operations=operations, reason="x", at=AT, actor=actor)
    publish_change_set(id=draft.pk, version=1, at=AT, actor=actor)
    promise(grid, "/=1+1", 50)
    answer = admin.get(f"{PAGE}table.csv?from=2026-01-01&to=2026-12-31")
    assert "attachment" in answer["Content-Disposition"]
    rows = list(csv.DictReader(answer.getvalue().decode().splitlines()))
    found = {row["path"]: row for row in rows}
    assert found["/=1+1"]["kind"] == "'@x"
    assert found["/=1+1"]["promised_core_h"] == "50.0"
    assert all(not cell.startswith(("=", "+", "@")) for row in rows for cell in row.values())


def test_dates_of_shares_are_published_with_a_reason_and_removed(grid: Grid, admin: Client) -> None:
    url, page = f"/policy/{SLUG}/n/{grid.uid('/atlas')}/_dates", tab(grid, "/atlas", "atlas")
    base = Policy.objects.get(slug=SLUG).head_number
    form = {"ends_on": "2027-03-31", "at_end": "number", "shares_then": "12,5", "reason": "Until spring.",
            "base_revision": str(base), "step": "publish"}  # fmt: skip
    done = admin.post(url, form, follow=True)
    assert "Until 31 Mar 2027" in text(done)
    assert "become 12.5 on the day after" in text(done)
    for field, wrong, said in (
        ("ends_on", "", "Give a first day or a last one"), ("shares_then", "", "How many shares"),
        ("reason", "", "required"),
        ("shares_then", "lots", "Write a number"),
    ):  # fmt: skip
        answer = admin.post(url, {**form, field: wrong})
        assert (answer.status_code, said.lower() in text(answer).lower()) == (422, True), (field, text(answer))
    stale = admin.post(url, {**form, "ends_on": "2027-06-30"})
    assert stale.status_code == 409
    now = {**form, "base_revision": str(base + 1), "step": "remove", "ends_on": "", "reason": "For good."}
    assert "Its shares have no end" in text(admin.post(url, now, follow=True))
    assert "no end" in text(admin.get(page))


def test_a_day_is_chosen_from_a_month_by_a_link(grid: Grid, admin: Client) -> None:
    page = tab(grid, "/atlas", "atlas")
    shown = admin.get(f"{page}?month=2027-03").content.decode()
    assert "March 2027" in shown
    link = re.search(r'href="([^"]*ends_on=2027-03-31#dates)"', shown)
    assert link
    chosen = admin.get(link[1].replace("&amp;", "&").split("#")[0]).content.decode()
    assert re.search(r'name="ends_on" value="2027-03-31"', chosen)


def test_the_calendar_is_a_month_with_its_events_below(grid: Grid, admin: Client) -> None:
    promise(grid, "/atlas", 1000, ends_on=date(2026, 11, 25))
    page = admin.get(f"{PAGE}calendar/?month=2026-11")
    assert "November 2026" in text(page)
    assert "One thing" in text(page) or "1 thing begins or ends" in text(page)
    assert 'href="#d-2026-11-25"' in page.content.decode()
    assert 'id="d-2026-11-25"' in page.content.decode()
    empty = text(admin.get(f"{PAGE}calendar/?month=2026-12"))
    assert "Nothing begins or ends in this month" in empty
    for wrong in ("never", "0000-01", "9999-99", "3001-01"):
        assert "November 2026" in text(admin.get(f"{PAGE}calendar/?month={wrong}"))


def test_what_ends_soon_can_be_renewed_for_as_long_again(grid: Grid, admin: Client) -> None:
    promise(grid, "/atlas", 4_200_000.125)
    promise(grid, "/biomed", 500, ends_on=date(2026, 12, 1))
    near = text(admin.get(f"{PAGE}_soon?soon=30", headers=HTMX))
    assert "/biomed" in near
    assert "/atlas" not in near
    far = admin.get(f"{PAGE}_soon?soon=90", headers=HTMX).content.decode()
    link = re.search(r'href="([^"]+starts=2027-01-01[^"]+)#promise"', far)
    assert link
    form = admin.get(link[1].replace("&amp;", "&")).content.decode()
    assert 'name="starts_on" value="2027-01-01"' in form
    assert 'name="ends_on" value="2027-12-31"' in form
    assert re.search(r'name="core_h" value="4200000.1250"', form)


def test_promises_are_shown_as_shares_line_by_line_and_become_a_draft(grid: Grid, admin: Client) -> None:
    cores(grid, 100)
    promise(grid, "/atlas", 438_000)
    page = text(admin.get(f"{PAGE}shares/?rest=reserve"))
    assert "438,000 ÷ 876,000 × 100 = 50 50.00 %" in page
    assert "nothing promised" in page
    done = admin.post(f"{PAGE}shares/?rest=reserve", {"reason": "As promised.", "at_end": "zero"})
    draft = ChangeSet.objects.latest("pk")
    assert (done.status_code, f"/changes/{draft.pk}/" in done["Location"]) == (303, True)
    assert {operation["op"] for operation in draft.operations} == {"set_shares", "set_dates", "add"}
    assert admin.post(f"{PAGE}shares/", {"reason": ""}).status_code == 422
    assert "Nothing is promised" in text(admin.get(f"{PAGE}shares/?from=2020-01-01&to=2020-12-31"))


def test_an_amount_is_tried_out_without_saving_anything(grid: Grid, admin: Client) -> None:
    cores(grid, 100)
    said = text(admin.get(f"{PAGE}_trial?core_h=219,000", headers=HTMX))
    assert "25.0 %" in said
    assert "33.3333 beside 100" in said
    assert "25 cores" in said
    wrong = admin.get(f"{PAGE}_trial?core_h=lots", headers=HTMX)
    assert (wrong.status_code, "Write a number" in text(wrong)) == (422, True)
    assert not Allocation.objects.exists()


def test_an_entry_says_what_its_shares_come_to(grid: Grid, admin: Client) -> None:
    cores(grid, 100)
    page = text(admin.get(tab(grid, "/atlas/alice", "alice")))
    assert "60 of 100 shares" in page
    assert "× 60.0 % = 525,600" in page
    assert "1 of 2 shares" in page
    assert "× 50.0 % = 262,800" in page
    part = text(admin.get(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/_core-hours", headers=HTMX))
    assert "Its shares have no end" in part


def test_names_with_markup_stay_names(grid: Grid, admin: Client) -> None:
    promise(grid, f"/biomed/{TRICKY}", 10, ends_on=date(2026, 12, 1))
    for path in (PAGE, f"{PAGE}calendar/?month=2026-12", f"{PAGE}shares/?of={grid.uid('/biomed')}"):
        assert "<img" not in admin.get(path).content.decode(), path


@pytest.mark.parametrize("query", ["from=never", "to=x", "from=2027-01-01&to=2026-01-01", "from=0001-01-01"])
def test_days_that_make_no_period_are_told_and_this_year_is_shown(grid: Grid, admin: Client, query: str) -> None:
    page = admin.get(f"{PAGE}?{query}")
    assert page.status_code == 200
    assert "A period goes from one day" in text(page)
    assert "Core-hours in 2026" in text(page)


@pytest.mark.parametrize("query", ["of=nothing", f"of={UUID(int=5)}"])
def test_a_group_that_is_none_is_not_found(grid: Grid, admin: Client, query: str) -> None:
    for path in (PAGE, f"{PAGE}shares/"):
        answer: Any = admin.get(f"{path}?{query}")
        assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found"), path
        assert admin.get(f"{path}?of={grid.uid('/atlas')}").status_code == 200, path


def test_who_may_only_look_finds_no_forms(grid: Grid) -> None:
    made = promise(grid, "/atlas", 1000)
    alice = signed_in(grid.alice)
    page = alice.get(PAGE).content.decode()
    assert "atlas" in page
    assert 'method="post" action="/policy' not in page
    assert alice.post(PAGE, {"entry": "/atlas", "core_h": "5", "reason": "mine", **YEAR}).status_code == 403
    one = alice.get(f"{PAGE}{made.uid}/").content.decode()
    assert 'name="tag"' not in one
    refused = alice.post(f"{PAGE}{made.uid}/", {"tag": "x", "step": "withdraw", "reason": "mine"})
    assert refused.status_code == 403
    assert Allocation.objects.get().withdrawn_at is None
    dates = {"ends_on": "2027-01-01", "reason": "x", "base_revision": "2"}
    assert alice.post(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/_dates", dates).status_code == 403


def test_fragments_opened_directly_lead_to_their_page(grid: Grid, admin: Client) -> None:
    node = f"/policy/{SLUG}/n/{grid.uid('/atlas')}/"
    core_hours = f"{node}atlas/core-hours/"
    leads = {
        f"{PAGE}_table": PAGE,
        f"{PAGE}_soon": PAGE,
        f"{PAGE}_trial": PAGE,
        f"{PAGE}calendar/_month": f"{PAGE}calendar/",
        f"{node}_core-hours": core_hours,
        f"{node}_promise": core_hours,
        f"{node}_dates": f"{core_hours}#dates",
        f"{node}wrong-name/core-hours/": core_hours,
    }
    for part, page in leads.items():
        answer = admin.get(part)
        assert (answer.status_code, answer["Location"]) == (303, page), part


def test_shares_changed_meanwhile_show_in_what_they_come_to(grid: Grid, admin: Client) -> None:
    cores(grid, 100)
    change_shares(
        policy_slug=SLUG, entry_uid=grid.uid("/atlas"), shares=160, reason="x", at=AT,
        actor=Actor(user=grid.admin, via="page"),
    )  # fmt: skip
    assert "160 of 200 shares" in text(admin.get(tab(grid, "/atlas", "atlas")))
