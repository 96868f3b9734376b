"""The home of a lead: children of the own group, what can be done about each, and requests answered together."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent, User
from apps.core import clock
from apps.pages.overview import cards
from apps.policies.models import ChangeSet, Policy
from apps.policies.publishing.revert import revisions_reverted
from apps.policies.records import NewChangeSet
from apps.policies.requests.share_requests import RequestTerms, request_shares
from apps.policies.services import make_change_set, publish_change_set
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from apps.series.runs import enqueue_series_build
from apps.usage.models import Source
from tests.grants import make_grant
from tests.pages.grid import SLUG, TRICKY, Grid, send_mixed_days, send_mixed_hours
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in

HTMX = {"HX-Request": "true"}
KIDS = "#children tbody tr"


@pytest.fixture
def grid(closed_grid: Grid) -> Grid:
    cards.last_good.clear()
    return closed_grid


def lead(grid: Grid, *paths: str, name: str = "lea", role: str = "manager") -> Client:
    """A user with this role at these entries, without an account of her own."""
    user = User.objects.create_user(name)
    for path in paths:
        make_grant(user, grid.uid(path), role)
    return sign_in(Client(), user)


def home(client: Client, **query: Any) -> Page:
    return read(client.get("/", query))


def names(page: Page) -> list[str]:
    return page.texts(f"{KIDS} th a")


def publish(grid: Grid, *operations: dict[str, Any]) -> None:
    actor = Actor(grid.admin, "page")
    new = NewChangeSet(operations=list(operations), reason="As agreed.")
    draft = make_change_set(policy_slug=SLUG, new=new, at=clock.now(), actor=actor)
    publish_change_set(id=draft.pk, version=draft.version, at=clock.now(), actor=actor)


def test_a_lead_sees_the_children_of_the_own_group_and_no_other_names(grid: Grid) -> None:
    client = lead(grid, "/atlas")
    answer = client.get("/")
    page = read(answer)
    assert sorted(names(page)) == ["alice", "bob"]
    assert page.one("#verdict-title").attributes["data-value"] == "0 2"
    html = answer.content.decode()
    for hidden in ("biomed", "cms", "carol", "dave", TRICKY):
        assert hidden not in html, hidden
    for selector in ('[data-testid="unmapped"]', '[data-key="unmapped"]'):
        assert not page.has(selector)


def test_what_is_fixed_is_the_field_of_the_child_in_the_shares_of_its_group(grid: Grid) -> None:
    page = home(lead(grid, "/atlas"))
    links = page.each('[data-testid="fix"]', "href")
    group = f"/policy/{SLUG}/n/{grid.uid('/atlas')}/atlas/"
    assert sorted(links) == sorted(
        f"{group}?panel=shares&focus={grid.uid(path)}" for path in ("/atlas/alice", "/atlas/bob")
    )
    anew = f"/policy/{SLUG}/group/{grid.uid('/atlas')}/"
    assert page.has(f'#children a[href="{anew}"]'), "all of them can be divided anew"


def test_without_demand_there_is_nothing_to_fix_but_a_reason(grid: Grid) -> None:
    page = home(lead(grid, "/"))
    row = page.one(f'{KIDS}[data-uid="{grid.uid("/cms")}"]')
    assert row.css_first('[data-state="idle"]') is not None
    assert (row.css_first('[data-testid="fix"]'), row.css_first('[data-testid="why"]') is None) == (None, False)


def test_a_reader_without_rights_to_set_shares_gets_no_fix(grid: Grid) -> None:
    page = home(lead(grid, "/", role="viewer"))
    assert page.has(KIDS)
    assert not page.has('[data-testid="fix"], #children header a')


def test_a_locked_child_can_be_explained_but_not_fixed(grid: Grid) -> None:
    publish(grid, {"op": "lock", "entry": "/atlas/bob", "locked": True})
    page = home(lead(grid, "/atlas"))
    assert len(page.items("fix")) == len(page.items("why")) == 1


def test_several_groups_are_levels_of_one_page(grid: Grid) -> None:
    client = lead(grid, "/atlas", "/biomed")
    page = home(client)
    assert page.texts("#level option") == ["All of SweGrid", "atlas", "biomed"]
    assert sorted(names(page)) == ["alice", "bob"], "the first group"
    other = home(client, level=str(grid.uid("/biomed")))
    assert (sorted(names(other)), other.text("#level option[selected]")) == (sorted(["carol", TRICKY]), "biomed")
    whole = home(client, level=str(grid.uid("/")))
    assert sorted(names(whole)) == ["atlas", "biomed"]


def test_a_level_that_is_hidden_or_malformed_is_not_found(grid: Grid) -> None:
    client = lead(grid, "/atlas")
    for level in (str(grid.uid("/biomed")), str(grid.uid("/cms/dave")), "climate"):
        assert client.get("/", {"level": level}).status_code == 404, level
        assert client.get("/_children", {"level": level}, headers=HTMX).status_code == 404, level


def test_the_home_agrees_with_the_tree_and_the_page_of_the_group(grid: Grid) -> None:
    """State, difference and share of each child are those of the other pages about it."""
    send_mixed_days(grid)
    for path in ("/", "/atlas", "/biomed"):
        client = lead(grid, path, name=f"lead{len(path)}{path[1:]}")
        page = home(client)
        tree = read(client.get(f"/policy/{SLUG}/"))
        group = read(client.get(f"/policy/{SLUG}/group/{grid.uid(path)}/"))
        entry = read(client.get(f"/policy/{SLUG}/n/{grid.uid(path)}/x/", follow=True))
        assert names(page)
        for row in page.all(KIDS):
            name, uid = text_of(row.css_first("th a")), row.attributes["data-uid"]
            shown = balance_of(row)
            assert balance_of(group.one(f"#m-{uid}")) == shown, name
            assert balance_of(row_named(entry, "#children tbody tr", name)) == shown, name
            if path == "/":
                assert balance_of(row_named(tree, "tr[role=row]", name)) == shown, name
            assert text_of(row.css_first(".c-use .num")) == text_of(group.one(f"#m-{uid} td .num:not(.row)")), name


def balance_of(row: Any) -> tuple[str | None, str]:
    node = row.css_first('[data-testid="balance"]')
    return node.attributes["data-state"], text_of(node)


def why_keys(row: Any) -> list[str]:
    return (row.css_first(".c-why").attributes["data-key"] or "").split()


def row_named(page: Page, selector: str, name: str) -> Any:
    rows = [row for row in page.all(selector) if row.css_first("th a, a.label") is not None]
    return next(row for row in rows if text_of(row.css_first("th a, a.label")) == name)


def test_reasons_name_the_user_who_ran_most_and_since_when(grid: Grid) -> None:
    send_mixed_days(grid)
    work_run_now(enqueue_series_build(Policy.objects.get(slug=SLUG), at=clock.now()).pk)
    page = home(lead(grid, "/"))
    keys = {text_of(row.css_first("th a")): why_keys(row) for row in page.all(KIDS)}
    assert keys["biomed"] == ["one_user", "off_since"]
    why = text_of(row_named(page, KIDS, "biomed").css_first(".c-why"))
    assert ("carol" in why, "%" in why) == (True, True)
    assert page.has('[data-testid="longest"]')


def test_a_reader_of_sums_learns_no_name_from_a_reason(grid: Grid) -> None:
    send_mixed_days(grid)
    html = lead(grid, "/", role="viewer").get("/").content.decode()
    for name in ("carol", "alice", "dave"):
        assert name not in html, name


def test_a_boost_and_a_request_are_among_the_reasons(grid: Grid) -> None:
    ends_on = (clock.now() + timedelta(days=5)).date().isoformat()
    publish(
        grid,
        {"op": "set_dates", "entry": "/atlas/alice", "dates": {"ends_on": ends_on, "at_end": 1}},
        {"op": "set_shares", "entry": "/atlas/alice", "shares": 9},
    )
    grid.recompute()
    client = lead(grid, "/atlas")
    page = home(client)
    assert "boosted" in why_keys(row_named(page, KIDS, "alice"))
    assert page.texts('[data-testid="end"] a') == ["Boost of alice"]


def test_a_group_without_children_says_what_to_do(grid: Grid) -> None:
    publish(grid, {"op": "add", "parent": "/", "name": "new", "kind": "project", "shares": 5})
    grid.recompute()
    page = home(lead(grid, "/new"))
    assert page.has('[data-testid="no-children"] a.btn.primary')
    assert not page.has(KIDS)
    assert page.one("#verdict-title").attributes["data-value"] == "0 0"


def test_a_late_source_is_named_above_with_its_age(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    client = lead(grid, "/atlas")
    assert not home(client).has('[data-testid="stale"]')
    Source.objects.update(expected_every_s=60)
    monkeypatch.setenv(clock.VARIABLE, (clock.now() + timedelta(hours=3)).isoformat())
    store.forget()
    text = text_of(home(client).item("stale"))
    assert ("Cluster A" in text, "h" in text) == (True, True)


@pytest.fixture
def asked(grid: Grid) -> list[ChangeSet]:
    """alice asks for atlas and biomed."""
    make_grant(grid.alice, grid.uid("/atlas"))
    make_grant(grid.alice, grid.uid("/biomed"))
    return [
        request_shares(
            policy_slug=SLUG,
            entry_uid=grid.uid(path),
            terms=RequestTerms(shares=shares),
            reason="Two new postdocs.",
            at=grid.at,
            actor=Actor(user=grid.alice, via="page"),
        )
        for path, shares in (("/atlas", 75.0), ("/biomed", 45.0))
    ]


def decide(client: Client, chosen: list[ChangeSet], step: str, **more: str) -> Any:
    ids = [f"{each.pk}:{each.version}" for each in chosen]
    return client.post(f"/overview/decide/?policy={SLUG}", {"request": ids, "step": step, **more})


def test_chosen_requests_are_granted_together(grid: Grid, asked: list[ChangeSet]) -> None:
    client = sign_in(Client(), grid.admin)
    page = home(client)
    assert page.values("data-key", "#attention").count("requests") == 1, "no group twice"
    assert len(page.all('#attention [name="request"]')) == 2
    answer = decide(client, asked, "grant")
    assert (answer.status_code, answer["Location"]) == (303, f"/?policy={SLUG}")
    tree = load_tree(Policy.objects.get(slug=SLUG))
    shares = [float(tree.shares[tree.index_of_path(path) or 0]) for path in ("/atlas", "/biomed")]
    assert shares == [75.0, 45.0]
    assert {each.state for each in ChangeSet.objects.filter(origin="request")} == {"published"}
    published = AuditEvent.objects.filter(verb="policy.published", reason="Two new postdocs.")
    assert published.count() == 2, "each is a revision and a row of its own"
    assert not home(client).has('#attention [name="request"]')


def test_one_granted_request_leads_to_who_moves_and_is_undone_at_once(grid: Grid, asked: list[ChangeSet]) -> None:
    client = sign_in(Client(), grid.admin)
    decide(client, asked[:1], "grant")
    shown = home(client)
    assert shown.has(f"#problem .note.success a[href='/changes/{asked[0].pk}/']")
    assert shown.has("#problem .note.success input[name=number]")


def test_requests_granted_together_lead_to_who_moves_and_are_undone_together(
    grid: Grid, asked: list[ChangeSet]
) -> None:
    client = sign_in(Client(), grid.admin)
    policy = Policy.objects.get(slug=SLUG)
    before, first = load_tree(policy), policy.head_number + 1
    decide(client, asked, "grant")
    shown = home(client)
    note = "#problem .note.success"
    assert shown.has(f"{note}[class~='published-{first + 1}'] a[href='/changes/{asked[1].pk}/']")
    numbers = shown.each(f"{note} input[name=number]", "value")
    assert numbers == [str(first), str(first + 1)]
    (undo,) = shown.each(f"{note} form", "action")
    answer = client.post(undo, {"number": numbers}, headers={"referer": f"http://testserver/?policy={SLUG}"})
    assert (answer.status_code, answer["Location"]) == (303, f"http://testserver/?policy={SLUG}")
    policy.refresh_from_db()
    assert policy.head_number == first + 3
    assert load_tree(policy).shares.tolist() == before.shares.tolist()
    undone = revisions_reverted(policy, [first, first + 1])
    assert undone == {first: first + 3, first + 1: first + 2}, "the newest first, each by one of its own"


def test_requests_granted_together_stay_if_one_of_them_was_changed_since(grid: Grid, asked: list[ChangeSet]) -> None:
    client = sign_in(Client(), grid.admin)
    decide(client, asked, "grant")
    numbers = home(client).each("#problem .note.success input[name=number]", "value")
    publish(grid, {"op": "set_shares", "entry": str(grid.uid("/atlas")), "shares": 80})
    answer = client.post(f"/policy/{SLUG}/undo", {"number": numbers})
    assert (answer.status_code, answer["Location"]) == (303, f"/policy/{SLUG}/history/")
    tree = load_tree(Policy.objects.get(slug=SLUG))
    shares = [float(tree.shares[tree.index_of_path(path) or 0]) for path in ("/atlas", "/biomed")]
    assert shares == [80.0, 45.0], "neither is undone"
    assert read(client.get(answer["Location"])).has("#problem .note.warn")
    assert not ChangeSet.objects.filter(origin="revert").exists(), "no draft is left"


@pytest.mark.parametrize("numbers", [[], ["x"], ["2", "x"], ["999999"], ["999998", "999999"]])
def test_undoing_what_is_no_revision_is_refused(grid: Grid, numbers: list[str]) -> None:
    assert sign_in(Client(), grid.admin).post(f"/policy/{SLUG}/undo", {"number": numbers}).status_code == 404


def test_either_all_chosen_requests_are_answered_or_none(grid: Grid, asked: list[ChangeSet]) -> None:
    client = sign_in(Client(), grid.admin)
    asked[1].version += 1
    answer = decide(client, asked, "grant")
    assert answer.status_code in (409, 412)
    assert read(answer, answer.status_code).has("#decide-problem")
    assert {each.state for each in ChangeSet.objects.filter(origin="request")} == {"proposed"}


def test_declining_needs_a_reason_which_each_requester_reads(grid: Grid, asked: list[ChangeSet]) -> None:
    client = sign_in(Client(), grid.admin)
    refused = decide(client, asked, "decline", text=" ")
    assert refused.status_code == 422
    assert read(refused, 422).has("#decide-problem")
    assert decide(client, asked, "decline", text="Not this year.").status_code == 303
    for each in asked:
        each.refresh_from_db()
        assert (each.state, each.decided_name) == ("withdrawn", "admin")
        assert [comment.text for comment in each.comments.all()] == ["Not this year."]


@pytest.mark.parametrize("chosen", [[], ["x:1"], ["1"], ["1:999999999999"]])
def test_nothing_chosen_is_refused_at_the_requests(grid: Grid, asked: list[ChangeSet], chosen: list[str]) -> None:
    client = sign_in(Client(), grid.admin)
    answer = client.post(f"/overview/decide/?policy={SLUG}", {"request": chosen, "step": "grant"})
    assert answer.status_code == 422
    assert read(answer, 422).has("#attention #decide-problem")


def test_those_who_may_not_decide_are_refused(grid: Grid, asked: list[ChangeSet]) -> None:
    assert decide(sign_in(Client(), grid.alice), asked, "grant").status_code == 403
    assert decide(lead(grid, "/cms"), asked, "grant").status_code == 404


def test_the_home_of_a_group_ends_with_its_fair_line_and_that_of_the_policy_with_its_deviation(
    grid: Grid,
) -> None:
    send_mixed_days(grid)
    work_run_now(enqueue_series_build(Policy.objects.get(slug=SLUG), at=clock.now()).pk)
    client = lead(grid, "/atlas")
    (address,) = home(client).each(".home-trend", "hx-get")
    assert address == f"/policy/{SLUG}/convergence/_latest?level={grid.uid('/atlas')}"
    card = read(client.get(address, headers=HTMX))
    assert sorted(card.each(".fair-group", "data-name")) == ["alice", "bob"]
    assert read(client.get("/", {"level": str(grid.uid("/"))})).each(".home-trend", "hx-get") == [
        f"/_deviation?policy={SLUG}"
    ]


def test_the_home_of_a_group_counts_its_own_entries_and_users(grid: Grid) -> None:
    """Not those of the policy, of which she sees a part."""
    page = home(lead(grid, "/atlas"))
    assert page.text('[data-testid="counts"]') == "2 entries · 2 users"
    assert "visible entries" not in page.text("main")


@pytest.mark.parametrize(("role", "is_drawn"), [("manager", True), ("viewer", False)])
def test_the_first_hours_are_drawn_for_those_who_see_more_than_sums(grid: Grid, role: str, is_drawn: bool) -> None:
    """Two sums an hour apart may differ by one person's usage."""
    send_mixed_hours(grid)
    work_run_now(enqueue_series_build(Policy.objects.get(slug=SLUG), at=clock.now()).pk)
    card = read(lead(grid, "/", role=role).get(f"/_deviation?policy={SLUG}", headers=HTMX))
    assert card.has(".fig-state") != is_drawn
