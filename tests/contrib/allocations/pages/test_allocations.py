"""Pages of core-hours, by request: what they say, what forms do, and what they refuse."""

from __future__ import annotations

import csv
import re
from datetime import date
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import User
from apps.contrib.allocations.capacities import CapacityTerms, add_capacity
from apps.contrib.allocations.pages.forms import typed_amount
from apps.contrib.allocations.services import AllocationTerms, create_allocation
from apps.core.typed_numbers import read_amount
from apps.mapping.services import set_rules
from apps.policies.models import Allocation, Capacity, ChangeSet, Policy
from apps.policies.records import NewChangeSet
from apps.policies.services import change_shares
from apps.policies.tree.stored import load_tree
from tests.examples import first
from tests.instants import AT
from tests.pages.grid import SLUG, TRICKY, Grid, make_grid
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in

PAGE = f"/policy/{SLUG}/allocations/"
PERIODS = f"{PAGE}periods/"
YEAR = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
HTMX = {"HX-Request": "true"}


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


@pytest.fixture
def admin(grid: Grid) -> Client:
    return signed_in(grid.admin)


def signed_in(user: User) -> Client:
    return sign_in(Client(), user)


def allocate(grid: Grid, path: str, amount: float, **days: date) -> Allocation:
    whole: dict[str, Any] = {"starts_on": date(2026, 1, 1), "ends_on": date(2026, 12, 31), **days}
    return create_allocation(
        policy_slug=SLUG,
        entry_uid=grid.uid(path),
        terms=AllocationTerms(amount=amount, reason="Round 7.", **whole),
        at=AT,
        actor=Actor(user=grid.admin, via="page"),
    )


def cores(grid: Grid, n: float) -> Capacity:
    actor = Actor(user=grid.admin, via="page")
    return add_capacity(
        policy_slug=SLUG, terms=CapacityTerms(starts_on=date(2026, 1, 1), per_hour=n, reason="x"), at=AT, actor=actor
    )


def verdict(page: Page) -> str | None:
    return page.one("#verdict").attributes["data-key"]


def cell(grid: Grid, page: Page, path: str, testid: str) -> str:
    return page.text(f'#row-{grid.uid(path)} [data-testid="{testid}"]')


def shown_month(page: Page) -> str:
    """The month of a calendar, by where its arrow back leads."""
    before = str(page.one("#month-before").attributes["href"]).partition("month=")[2][:7]
    year, month = (int(part) for part in before.split("-"))
    return f"{year + month // 12}-{month % 12 + 1:02}"


def refused(answer: Any, form: str = "form") -> dict[str, list[str | None]]:
    """Codes of what a form refused, by field."""
    found = answer.context[form].errors.as_data().items()
    return {name: [error.code for error in errors] for name, errors in found}


def tab(grid: Grid, path: str, name: str) -> str:
    return f"/policy/{SLUG}/n/{grid.uid(path)}/{name}/core-hours/"


def test_without_capacity_and_allocations_the_page_offers_the_next_step(db: None) -> None:
    grid = make_grid(AT, with_usage=False)
    page = read(signed_in(grid.admin).get(PAGE))
    assert verdict(page) == "none"
    assert page.has(f'[data-testid="no-capacity"] a[href="{PAGE}capacity/"]')
    assert page.has('[data-testid="no-usage"] a')
    assert page.has('[data-testid="no-allocations"]')
    calendar = read(signed_in(grid.admin).get(f"{PAGE}calendar/"))
    assert calendar.one("#soon [aria-current]").attributes["id"] == "soon-30"
    assert calendar.has('[data-testid="nothing-ends-soon"]')


def test_the_table_lists_allocated_suballocated_unallocated_and_delivered(grid: Grid, admin: Client) -> None:
    cores(grid, 1000)  # 8,760,000 core-hours in the year
    allocate(grid, "/atlas", 4_000_000)
    allocate(grid, "/atlas/alice", 3_000_000)
    page = read(admin.get(PERIODS))
    assert verdict(page) == "fits"
    for number in ("4,000,000", "8,760,000", "4,760,000"):  # sub-allocated, of, reserved
        assert number in text_of(page.item("verdict-text")), number
    assert not page.has('[data-testid="no-capacity"], [data-testid="no-usage"]')
    assert cell(grid, page, "/atlas", "share") == "45.7 %"  # of the whole
    assert cell(grid, page, "/atlas", "sub-allocated") == "75 % 1,000,000 unallocated"
    assert cell(grid, page, "/atlas", "delivered") == "9,600"  # 400 cores for a day
    pace = page.one(f'#row-{grid.uid("/atlas")} [data-testid="pace"]')
    assert (pace.attributes["data-state"], pace.css_matches(".bal.under")) == ("behind", True)


def test_an_overallocation_is_the_headline_of_the_page(grid: Grid, admin: Client) -> None:
    allocate(grid, "/atlas", 1000)
    allocate(grid, "/atlas/alice", 700)
    allocate(grid, "/atlas/bob", 500)
    page = read(admin.get(PERIODS))
    assert verdict(page) == "over"
    assert "atlas" in page.text("#verdict")
    for number in ("1,200", "200"):
        assert number in text_of(page.item("verdict-text")).split(), number
    over = page.one(f'#row-{grid.uid("/atlas")} [data-testid="over"]')
    assert over.attributes["data-value"] == "200.0"


def test_core_hours_are_allocated_by_path_and_invalid_input_is_kept(grid: Grid, admin: Client) -> None:
    form = {"entry": "/biomed", "amount": "4,200,000", "reason": "Round 7.", **YEAR}
    done = admin.post(PAGE, form, follow=True)
    notice = read(done).text("#problem .note.success")
    for part in ("4,200,000", "/biomed"):
        assert part in notice
    assert Allocation.objects.get().amount == 4_200_000
    again = admin.post(PAGE, form)
    assert (again.status_code, refused(again)) == (422, {"__all__": ["allocation_exists"]})
    for field, wrong, code in (
        ("amount", "many", "number"),
        ("amount", "-5", "number"),
        ("entry", "/nowhere", "invalid"),
        ("ends_on", "2025-01-01", "invalid"),
        ("reason", "", "required"),
        ("entry", "/", "invalid"),
    ):
        answer = admin.post(PAGE, {**form, field: wrong})
        page = read(answer, 422)
        assert refused(answer) == {field: [code]}
        assert page.text(f"#id_{field}_error"), field
        assert (page.one(f"#id_{field}").attributes.get("value") or "") == wrong
    assert Allocation.objects.count() == 1


def test_the_form_of_the_board_warns_of_what_the_form_of_an_entry_does(grid: Grid, admin: Client) -> None:
    """An allocation above that ends first, one that is about to end, and more than there is; nothing for no entry."""
    allocate(grid, "/atlas", 100, ends_on=AT.date())
    typed = {"amount": "500", "unit": "core-h", "starts_on": "2026-01-01", "ends_on": "2026-12-31"}
    for path in ("/atlas", grid.tree.path(grid.tree.children(grid.tree.index_of_path("/atlas") or 0)[0])):
        by_path = admin.get(f"{PAGE}_warnings", {**typed, "entry": path}, headers=HTMX)
        by_entry = admin.get(f"/policy/{SLUG}/n/{grid.uid(path)}/_warnings", typed, headers=HTMX)
        assert warned(by_path) == warned(by_entry) != []
    assert warned(admin.get(f"{PAGE}_warnings", {**typed, "entry": "/nowhere"}, headers=HTMX)) == []
    assert warned(admin.get(f"{PAGE}_warnings", headers=HTMX)) == []
    refused = admin.post(PAGE, {**typed, "entry": "/atlas", "reason": ""})
    assert refused.status_code == 422
    assert warned(refused) == warned(admin.get(f"{PAGE}_warnings", {**typed, "entry": "/atlas"}, headers=HTMX))


def warned(answer: Any) -> list[str]:
    return [text_of(each) for each in read(answer, answer.status_code).all("[data-testid=form-warning]")]


@given(value=st.floats(0, 1e15) | st.integers(0, 10**9).map(lambda n: n / 1000))
def test_initial_amounts_of_forms_parse_to_the_same_amount(value: float) -> None:
    assert read_amount(typed_amount(value)) == value


def test_an_allocation_is_changed_and_withdrawn_in_its_latest_version(grid: Grid, admin: Client) -> None:
    made = allocate(grid, "/atlas", 1000)
    url = f"{PAGE}{made.uid}/"
    tag = re.search(r'name="tag" value="([^"]+)"', admin.get(url).content.decode())
    assert tag
    form = {"tag": tag[1], "step": "change", "amount": "900", "reason": "Cut.", **YEAR}
    assert admin.post(url, form).status_code == 303
    assert Allocation.objects.get().amount == 900
    stale = admin.post(url, {**form, "amount": "800"})
    assert (stale.status_code, refused(stale)) == (412, {"__all__": ["stale"]})
    fresh = re.search(r'name="tag" value="([^"]+)"', admin.get(url).content.decode())
    assert fresh
    gone = admin.post(url, {"tag": fresh[1], "step": "withdraw", "reason": "A mistake."})
    assert gone.status_code == 303
    assert admin.get(url).status_code == 404


def test_capacity_is_recorded_changed_and_removed(grid: Grid, admin: Client) -> None:
    url = f"{PAGE}capacity/"
    wrong = admin.post(url, {"per_hour": "-1", "starts_on": "2026-01-01", "reason": "x"})
    assert wrong.status_code == 422
    done = admin.post(
        url, {"per_hour": "1,000", "site": "hpc", "starts_on": "2026-01-01", "reason": "New."}, follow=True
    )
    for part in ("8,760,000", "2026"):
        assert part in read(done).text("h1")
    made = Capacity.objects.get()
    one = f"{url}{made.pk}/"
    tag = re.search(r'name="tag" value="([^"]+)"', admin.get(one).content.decode())
    assert tag
    changed = {"tag": tag[1], "step": "change", "per_hour": "500", "starts_on": "2026-01-01", "reason": "Half."}
    assert admin.post(one, changed).status_code == 303
    assert admin.post(one, changed).status_code == 412
    fresh = re.search(r'name="tag" value="([^"]+)"', admin.get(one).content.decode())
    assert fresh
    assert admin.post(one, {"tag": fresh[1], "step": "remove", "reason": "Never was."}).status_code == 303
    assert not Capacity.objects.exists()


def test_the_csv_of_allocations_contains_no_formulas(grid: Grid, admin: Client) -> None:
    policy = Policy.objects.get(slug=SLUG)
    tree = load_tree(policy)
    from apps.policies.services import make_change_set, publish_change_set

    actor = Actor(user=grid.admin, via="page")
    operations = [{"op": "add", "parent": str(tree.uuid(0)), "name": "=1+1", "kind": "@x", "shares": 1}]
    draft = make_change_set(policy_slug=SLUG, new=NewChangeSet(operations=operations, reason="x"), at=AT, actor=actor)
    publish_change_set(id=draft.pk, version=1, at=AT, actor=actor)
    allocate(grid, "/=1+1", 50)
    answer = admin.get(f"{PAGE}table.csv?from=2026-01-01&to=2026-12-31")
    assert "attachment" in answer["Content-Disposition"]
    rows = list(csv.DictReader(answer.getvalue().decode().splitlines()))
    found = {row["path"]: row for row in rows}
    assert found["/=1+1"]["kind"] == "'@x"
    assert found["/=1+1"]["allocated"] == "50.0"
    assert all(not cell.startswith(("=", "+", "@")) for row in rows for cell in row.values())


def test_dates_of_shares_are_published_with_a_reason_and_removed(grid: Grid, admin: Client) -> None:
    url, page = f"/policy/{SLUG}/n/{grid.uid('/atlas')}/_dates", tab(grid, "/atlas", "atlas")
    base = Policy.objects.get(slug=SLUG).head_number
    form = {
        "ends_on": "2027-03-31",
        "at_end": "number",
        "shares_then": "12,5",
        "reason": "Until spring.",
        "base_revision": str(base),
        "step": "publish",
    }
    done = admin.post(url, form, follow=True)
    shown = read(done).item("dates")
    assert shown.attributes["data-state"] == "dated"
    for part in ("31 Mar 2027", "12.5"):
        assert part in text_of(shown)
    for field, wrong, code in (
        ("ends_on", "", "no_day"),
        ("shares_then", "", "no_shares_then"),
        ("reason", "", "required"),
        ("shares_then", "lots", "number"),
    ):
        answer = admin.post(url, {**form, field: wrong})
        assert read(answer, 422).text(f"#dates_{field}_error"), field
        assert refused(answer, "dates_form")[field][0] == code
    stale = admin.post(url, {**form, "ends_on": "2027-06-30"})
    assert stale.status_code == 409
    now = {**form, "base_revision": str(base + 1), "step": "remove", "ends_on": "", "reason": "For good."}
    assert read(admin.post(url, now, follow=True)).item("dates").attributes["data-state"] == "endless"
    assert read(admin.get(page)).item("dates").attributes["data-state"] == "endless"
    assert load_tree(Policy.objects.get(slug=SLUG)).node(grid.tree.index_of_path("/atlas") or 0).dates is None


def test_the_calendar_is_a_month_with_its_events_below(grid: Grid, admin: Client) -> None:
    allocate(grid, "/atlas", 1000, ends_on=date(2026, 11, 25))
    page = read(admin.get(f"{PAGE}calendar/?month=2026-11"))
    assert shown_month(page) == "2026-11"
    assert len(page.all(".agenda li")) == 1
    assert page.has('a[href="#d-2026-11-25"]')
    assert "atlas" in page.text("#d-2026-11-25")
    assert not page.has('[data-testid="no-events"]')
    empty = read(admin.get(f"{PAGE}calendar/?month=2026-12"))
    assert (shown_month(empty), empty.has('[data-testid="no-events"]')) == ("2026-12", True)
    for wrong in ("never", "0000-01", "9999-99", "3001-01"):
        assert shown_month(read(admin.get(f"{PAGE}calendar/?month={wrong}"))) == "2026-11"


def test_an_allocation_ending_soon_can_be_renewed_for_the_same_length(grid: Grid, admin: Client) -> None:
    allocate(grid, "/atlas", 4_200_000.125)
    allocate(grid, "/biomed", 500, ends_on=date(2026, 12, 1))
    near = read(admin.get(f"{PAGE}_soon?soon=30", headers=HTMX))
    assert near.values("data-path") == ["/biomed"]
    far = read(admin.get(f"{PAGE}_soon?soon=90", headers=HTMX))
    assert set(far.values("data-path")) == {"/atlas", "/biomed"}
    link = str(far.one('[data-path="/atlas"] a.btn').attributes["href"])
    assert link.endswith("#allocate")
    form = read(admin.get(link.removesuffix("#allocate")))
    for name, value in (("starts_on", "2027-01-01"), ("ends_on", "2027-12-31"), ("amount", "4200000.1250")):
        assert form.one(f"#allocate [name={name}]").attributes["value"] == value


def test_allocations_are_converted_to_shares_and_become_a_draft(grid: Grid, admin: Client) -> None:
    cores(grid, 100)
    allocate(grid, "/atlas", 438_000)
    page = read(admin.get(f"{PAGE}shares/?rest=reserve"))
    assert "438,000 ÷ 876,000 × 100 = 50 50.00 %" in page.text('.sums tr[data-key="allocated"]')
    assert {text_of(row.css_first(".break")) for row in page.all('.sums tr[data-key="none"]')} == {"biomed", "cms"}
    done = admin.post(f"{PAGE}shares/?rest=reserve", {"reason": "As agreed.", "at_end": "zero"})
    draft = ChangeSet.objects.latest("pk")
    assert (done.status_code, f"/changes/{draft.pk}/" in done["Location"]) == (303, True)
    assert {operation["op"] for operation in draft.operations} == {"set_shares", "set_dates", "add"}
    assert admin.post(f"{PAGE}shares/", {"reason": ""}).status_code == 422
    assert read(admin.get(f"{PAGE}shares/?from=2020-01-01&to=2020-12-31")).error_codes() == ["no_allocation"]


def test_an_entry_shows_its_shares_as_core_hours(grid: Grid, admin: Client) -> None:
    cores(grid, 100)
    page = read(admin.get(tab(grid, "/atlas/alice", "alice")))
    assert [text_of(one) for one in page.items("step")] == ["× 60.0 % = 525,600", "× 50.0 % = 262,800"]
    assert [re.findall(r"\d+", text_of(one)) for one in page.items("step-shares")] == [["60", "100"], ["1", "2"]]
    part = read(admin.get(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/_core-hours", headers=HTMX))
    assert part.item("dates").attributes["data-state"] == "endless"


def test_names_with_markup_stay_names(grid: Grid, admin: Client) -> None:
    allocate(grid, f"/biomed/{TRICKY}", 10, ends_on=date(2026, 12, 1))
    for path in (PAGE, f"{PAGE}calendar/?month=2026-12", f"{PAGE}shares/?of={grid.uid('/biomed')}"):
        page = read(admin.get(path))
        assert TRICKY in page.text("main"), path
        assert not page.has("img"), path


@pytest.mark.parametrize("query", first(2, ["from=never", "to=x", "from=2027-01-01&to=2026-01-01", "from=0001-01-01"]))
def test_an_invalid_period_is_reported_and_this_year_is_shown(grid: Grid, admin: Client, query: str) -> None:
    page = read(admin.get(f"{PERIODS}?{query}"))
    assert text_of(page.item("period-problem"))
    assert [page.one(f"#id_{name}").attributes["value"] for name in ("from", "to")] == ["2026-01-01", "2026-12-31"]
    assert not read(admin.get(PERIODS)).has('[data-testid="period-problem"]')


@pytest.mark.parametrize("query", ["of=nothing", f"of={UUID(int=5)}"])
def test_an_unknown_group_is_not_found(grid: Grid, admin: Client, query: str) -> None:
    for path in (PAGE, f"{PAGE}shares/"):
        answer: Any = admin.get(f"{path}?{query}")
        assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found"), path
        assert admin.get(f"{path}?of={grid.uid('/atlas')}").status_code == 200, path


def test_a_reader_without_rights_sees_no_forms(grid: Grid) -> None:
    made = allocate(grid, "/atlas", 1000)
    alice = signed_in(grid.alice)
    page = read(alice.get(PAGE))
    assert "atlas" in page.text(f"#row-{grid.uid('/atlas')} th")
    assert not page.has('form[method="post"][action^="/policy"]')
    assert alice.post(PAGE, {"entry": "/atlas", "amount": "5", "reason": "mine", **YEAR}).status_code == 403
    assert not read(alice.get(f"{PAGE}{made.uid}/")).has('[name="tag"]')
    refused = alice.post(f"{PAGE}{made.uid}/", {"tag": "x", "step": "withdraw", "reason": "mine"})
    assert refused.status_code == 403
    assert Allocation.objects.get().withdrawn_at is None
    dates = {"ends_on": "2027-01-01", "reason": "x", "base_revision": "2"}
    assert alice.post(f"/policy/{SLUG}/n/{grid.uid('/atlas')}/_dates", dates).status_code == 403


def test_core_hours_of_no_entry_link_to_the_accounts_if_the_user_may_read_them(grid: Grid, admin: Client) -> None:
    set_rules(policy_slug=SLUG, rules=[], at=AT, actor=COMMAND)
    link = f'#allocations a[href="/policy/{SLUG}/mappings/"]'
    alice = signed_in(grid.alice)
    assert [read(client.get(PERIODS)).has(link) for client in (admin, alice)] == [True, False]
    assert [client.get(f"/policy/{SLUG}/mappings/").status_code for client in (admin, alice)] == [200, 403]


def test_fragments_opened_directly_lead_to_their_page(grid: Grid, admin: Client) -> None:
    node = f"/policy/{SLUG}/n/{grid.uid('/atlas')}/"
    core_hours = f"{node}atlas/core-hours/"
    leads = {
        f"{PAGE}_table": PERIODS,
        f"{PAGE}_soon": f"{PAGE}calendar/",
        f"{PAGE}calendar/_month": f"{PAGE}calendar/",
        f"{node}_core-hours": core_hours,
        f"{node}_allocation": core_hours,
        f"{node}_dates": f"{core_hours}#dates",
        f"{node}wrong-name/core-hours/": core_hours,
    }
    for part, page in leads.items():
        answer = admin.get(part)
        assert (answer.status_code, answer["Location"]) == (303, page), part


def test_shares_changed_meanwhile_change_the_converted_core_hours(grid: Grid, admin: Client) -> None:
    cores(grid, 100)
    change_shares(
        policy_slug=SLUG,
        entry_uid=grid.uid("/atlas"),
        shares=160,
        reason="x",
        at=AT,
        actor=Actor(user=grid.admin, via="page"),
    )
    (shares,) = read(admin.get(tab(grid, "/atlas", "atlas"))).texts('[data-testid="step-shares"]')
    assert re.findall(r"\d+", shares) == ["160", "200"]
