"""My group: a lead's page, in a browser without scripts, and its fragments."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.policies.models import ChangeSet, Grant, Policy, Revision
from apps.policies.roles import VERBS_OF_ROLE
from apps.priorities import served
from tests.dashboard.grid import PASSWORD, SLUG, Grid, make_grid

HTMX = {"HX-Request": "true"}


@pytest.fixture
def grid(db: None) -> Iterator[Grid]:
    served.forget()
    yield make_grid(datetime.now(UTC), visibility="path")
    served.forget()


def give(grid: Grid, path: str, user: User, role: str = "lead", **more: Any) -> Grant:
    policy = Policy.objects.get(slug=SLUG)
    return Grant.objects.create(
        policy=policy, entry_uid=grid.uid(path), user=user, role=role, verbs=list(VERBS_OF_ROLE[role]),
        created_at=grid.at, **more,
    )  # fmt: skip


@pytest.fixture
def lead(grid: Grid, client: Client) -> Client:
    """alice leads atlas."""
    give(grid, "/atlas", grid.alice)
    client.force_login(grid.alice)
    return client


@pytest.fixture
def manager(grid: Grid) -> Client:
    maria = User.objects.create_user("maria", "", PASSWORD)
    give(grid, "/", maria, "manager")
    found = Client()
    found.force_login(maria)
    return found


def page(grid: Grid, path: str = "/atlas") -> str:
    return f"/policy/{SLUG}/group/{grid.uid(path)}/"


def typed(grid: Grid, **more: Any) -> dict[str, Any]:
    shares = {f"shares-{grid.uid(f'/atlas/{name}')}": "1" for name in ("alice", "bob")}
    head = Policy.objects.get(slug=SLUG).head_number
    return {**shares, "base_revision": head, "reason": "", "names": "", "names_shares": "1", **more}


def key(grid: Grid, name: str, what: str = "shares") -> str:
    return f"{what}-{grid.uid(f'/atlas/{name}')}"


def in_force(grid: Grid, path: str) -> Any:
    tree = grid.tree
    return tree.node(tree.index_of_path(path) or 0)


def test_a_lead_is_sent_to_the_own_group_and_others_to_the_overview(grid: Grid, lead: Client) -> None:
    assert lead.get("/start/")["Location"] == "/group/"
    assert lead.get("/group/")["Location"] == page(grid)
    other = Client()
    other.force_login(User.objects.create_user("zoe"))
    assert other.get("/start/")["Location"] == "/"
    assert "You lead no group" in other.get("/group/").content.decode()
    assert "My group" not in other.get("/").content.decode()
    assert "My group" in lead.get("/").content.decode()


def test_the_page_shows_each_member_with_shares_use_and_balance_in_words(grid: Grid, lead: Client) -> None:
    text = lead.get(page(grid)).content.decode()
    assert "2 members" in text
    for words in ("alice", "bob", "25.0 over", "25.0 under", "75.0", "decided by whoever divides SweGrid"):
        assert words in text.replace("\N{NO-BREAK SPACE}", " "), words


def test_typed_shares_show_their_effect_and_publish_nothing(grid: Grid, lead: Client) -> None:
    answer = lead.post(page(grid), typed(grid, step="effect", **{key(grid, "bob"): "3"}))
    text = answer.content.decode().replace("\N{NO-BREAK SPACE}", " ")
    assert answer.status_code == 200
    assert "1 change in atlas, not in force yet" in text
    assert "75.0 %" in text
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_several_changes_are_published_with_one_reason_and_undone(grid: Grid, lead: Client) -> None:
    until = (grid.at + timedelta(days=9)).date().isoformat()
    wanted = {key(grid, "bob"): "3,5", key(grid, "alice"): "2", key(grid, "alice", "until"): until}
    answer = lead.post(page(grid), typed(grid, step="publish", reason="Referee runs.", **wanted), follow=True)
    assert "Published as revision 3" in answer.content.decode()
    assert "Referee runs." in answer.content.decode()
    assert (in_force(grid, "/atlas/bob").shares, in_force(grid, "/atlas/alice").shares) == (3.5, 2.0)
    assert in_force(grid, "/atlas/alice").dates.at_end == 1.0
    undone = lead.post(f"{page(grid)}undo/", {"number": 3}, follow=True)
    assert "Revision 3 is taken back, as revision 4" in undone.content.decode()
    assert (in_force(grid, "/atlas/bob").shares, in_force(grid, "/atlas/alice").dates) == (1.0, None)
    assert lead.post(f"{page(grid)}undo/", {"number": 1}).status_code == 404


def test_publishing_needs_a_reason_and_keeps_what_was_typed(grid: Grid, lead: Client) -> None:
    answer = lead.post(page(grid), typed(grid, step="publish", **{key(grid, "bob"): "7"}))
    assert answer.status_code == 422
    assert 'value="7"' in answer.content.decode()
    assert "Say why" in answer.content.decode()
    assert Policy.objects.get(slug=SLUG).head_number == 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("shares", "many", "Write a number"),
        ("shares", "-1", "below zero"),
        ("until", "soon", "Write a day"),
        ("until", "2020-01-01", "past"),
    ],
)
def test_what_can_not_be_read_is_told_in_its_place(
    grid: Grid, lead: Client, name: str, value: str, message: str
) -> None:
    more = {key(grid, "bob", name): value, key(grid, "bob", "open"): "1"}
    answer = lead.post(page(grid), typed(grid, step="publish", reason="r", **more))
    assert answer.status_code == 422
    assert message in answer.content.decode()
    assert f'value="{value}"' in answer.content.decode()
    assert 'aria-invalid="true"' in answer.content.decode()
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_the_boost_button_proposes_twice_the_shares_for_two_weeks(grid: Grid, lead: Client) -> None:
    step = f"open:{grid.uid('/atlas/bob')}"
    text = lead.post(page(grid), typed(grid, step=step)).content.decode()
    assert "the shares return to 1 by themselves" in text
    assert f'id="{key(grid, "bob")}" name="{key(grid, "bob")}" inputmode="decimal"' in text
    assert (datetime.now(UTC).date() + timedelta(days=14)).isoformat() in text
    assert "1 change in atlas" in text
    closed = lead.post(page(grid), typed(grid, step=f"close:{grid.uid('/atlas/bob')}", **{key(grid, "bob"): "2"}))
    assert "No change yet" in closed.content.decode()


def test_equalise_fills_in_one_number_for_everybody(grid: Grid, lead: Client) -> None:
    lead.post(page(grid), typed(grid, step="publish", reason="r", **{key(grid, "bob"): "5"}))
    text = lead.post(page(grid), typed(grid, step="equalise", **{key(grid, "bob"): "5"})).content.decode()
    assert "1 change in atlas" in text
    shown = typed(grid, step="publish", reason="r", **{key(grid, name): "5" for name in ("alice", "bob")})
    lead.post(page(grid), shown)
    assert in_force(grid, "/atlas/alice").shares == in_force(grid, "/atlas/bob").shares == 5.0


def test_a_boost_is_ended_before_its_day(grid: Grid, lead: Client) -> None:
    until = (grid.at + timedelta(days=9)).date().isoformat()
    boost = {key(grid, "bob"): "4", key(grid, "bob", "until"): until}
    lead.post(page(grid), typed(grid, step="publish", reason="r", **boost))
    opened = lead.post(page(grid), typed(grid, step=f"open:{grid.uid('/atlas/bob')}", **boost)).content.decode()
    assert "End the boost now" in opened
    ended = lead.post(page(grid), typed(grid, step=f"end:{grid.uid('/atlas/bob')}", **boost)).content.decode()
    assert "1 change in atlas" in ended
    lead.post(page(grid), typed(grid, step="publish", reason="r"))
    assert (in_force(grid, "/atlas/bob").shares, in_force(grid, "/atlas/bob").dates) == (1.0, None)


def test_who_joins_or_leaves_is_sent_upward_by_a_lead_and_done_at_once_by_a_manager(
    grid: Grid, lead: Client, manager: Client
) -> None:
    answer = lead.post(page(grid), typed(grid, step="publish", reason="A student.", names="ada, grace"), follow=True)
    assert "Sent to whoever may put it in force" in answer.content.decode()
    assert ChangeSet.objects.latest("pk").state == "proposed"
    assert in_force(grid, "/atlas").uid
    more = {key(grid, "bob", "leave"): "1", key(grid, "bob", "open"): "1"}
    done = manager.post(page(grid), typed(grid, step="publish", reason="r", names="ada", **more), follow=True)
    assert "Published as revision 3" in done.content.decode()
    tree = grid.tree
    assert [tree.name[j] for j in tree.children(tree.index_of_path("/atlas") or 0)] == ["ada", "alice"]


def test_a_lead_who_may_not_publish_sends_it_for_a_decision(grid: Grid, client: Client, manager: Client) -> None:
    grant = give(grid, "/atlas", grid.alice)
    grant.verbs = ["view_members", "edit_shares"]
    grant.save()
    client.force_login(grid.alice)
    assert "Send for a decision" in client.get(page(grid)).content.decode()
    client.post(page(grid), typed(grid, step="publish", reason="Bob first.", **{key(grid, "bob"): "3"}))
    assert in_force(grid, "/atlas/bob").shares == 1.0
    assert "Bob first." in manager.get("/inbox/").content.decode()


def test_a_name_that_is_taken_is_told_at_the_names(grid: Grid, manager: Client) -> None:
    answer = manager.post(page(grid), typed(grid, step="publish", reason="r", names="bob"))
    assert answer.status_code == 422
    assert "siblings need different names" in answer.content.decode()


def test_somebody_elses_publish_meanwhile_shows_both_numbers(grid: Grid, lead: Client, manager: Client) -> None:
    stale = typed(grid, step="publish", reason="r", **{key(grid, "bob"): "3"})
    manager.post(page(grid), typed(grid, step="publish", reason="r", **{key(grid, "bob"): "9"}))
    answer = lead.post(page(grid), stale)
    assert answer.status_code == 409
    assert "changed while you were at it" in answer.content.decode()
    assert 'value="3"' in answer.content.decode()
    again = lead.post(page(grid), {**stale, "base_revision": "3"}, follow=True)
    assert "Published as revision 4" in again.content.decode()


def test_fragments_answer_to_scripts_and_lead_back_without_them(grid: Grid, lead: Client) -> None:
    for name in ("_form", "_effect", "_ask_effect"):
        assert lead.get(f"{page(grid)}{name}")["Location"] == page(grid)
    data = typed(grid, step="", **{key(grid, "bob"): "3"})
    effect = lead.post(f"{page(grid)}_effect", data, headers=HTMX)
    assert 'hx-swap-oob="true"' in effect.content.decode()
    assert "1 change" in effect.headers["HX-Trigger"]
    form = lead.post(f"{page(grid)}_form", {**data, "step": "equalise"}, headers=HTMX)
    assert form.content.decode().lstrip().startswith('<form class="card members" id="group-form"')
    assert Policy.objects.get(slug=SLUG).head_number == 2


def test_a_group_of_many_comes_in_pages_and_is_equalised_whole(db: None, client: Client) -> None:
    served.forget()
    grid = make_grid(datetime.now(UTC), with_usage=False, extra_users=230)
    client.force_login(grid.admin)
    text = client.get(page(grid, "/cms")).content.decode()
    assert "232 members" in text
    assert text.count('<input class="input cell"') == 100
    assert "cursor=100" in text
    assert client.get(f"{page(grid, '/cms')}?cursor=200").content.decode().count('<input class="input cell"') == 32
    served.forget()


def test_only_whoever_leads_a_group_opens_it(grid: Grid, lead: Client) -> None:
    stranger = Client()
    stranger.force_login(User.objects.create_user("zoe"))
    asked = ((lead, "/biomed", 404, "not_found"), (lead, "/", 403, "not_your_group"),
             (stranger, "/atlas", 404, "not_found"))  # fmt: skip
    for client, path, status, code in asked:
        answer: Any = client.get(page(grid, path))
        assert (answer.status_code, answer.context["refusal"].code) == (status, code), path
    assert lead.get(page(grid, "/atlas")).status_code == 200


def test_more_is_asked_for_and_shown_with_its_state(grid: Grid, lead: Client) -> None:
    ask = {"amount": "75", "unit": "shares", "until": "2099-06-30", "reason": "Two new postdocs."}
    answer = lead.post(f"{page(grid)}ask/", ask, follow=True)
    text = answer.content.decode().replace("\N{NO-BREAK SPACE}", " ")
    for words in (
        "Sent to whoever decides above",
        "atlas asks for 75 shares until 30 June 2099 instead of 60",
        "60.0 %",
    ):
        assert words in text, words
    assert "Withdraw" in text
    assert 'name="amount"' not in text  # one request at a time
    assert Revision.objects.filter(policy__slug=SLUG).count() == 2


@pytest.mark.parametrize(
    ("ask", "status", "message"),
    [
        ({"amount": "60", "reason": "r"}, 422, "has these shares already"),
        ({"amount": "10", "reason": "r"}, 422, "ask for a larger share"),
        ({"amount": "", "reason": "r"}, 422, "How much?"),
        ({"amount": "70", "reason": ""}, 422, "Say why"),
        ({"amount": "100", "unit": "percent", "reason": "r"}, 422, "between 0 and 100"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_in_place(
    grid: Grid, lead: Client, ask: dict[str, str], status: int, message: str
) -> None:
    answer = lead.post(f"{page(grid)}ask/", ask)
    assert answer.status_code == status
    assert message in answer.content.decode()
    assert not ChangeSet.objects.filter(origin="request").exists()


def test_what_an_amount_would_make_is_told_while_it_is_typed(grid: Grid, lead: Client) -> None:
    asked = lead.get(f"{page(grid)}_ask_effect?amount=70&unit=percent", headers=HTMX)
    assert "70.0" in asked.content.decode()
    assert "Write a number" in lead.get(f"{page(grid)}_ask_effect?amount=x", headers=HTMX).content.decode()


def test_groups_of_one_lead_are_a_switch(grid: Grid, lead: Client) -> None:
    assert "Groups you lead" not in lead.get(page(grid)).content.decode()
    give(grid, "/cms", grid.alice)
    text = lead.get(page(grid)).content.decode()
    assert "Groups you lead" in text
    assert page(grid, "/cms") in text


def test_names_of_members_are_text_and_nothing_else(grid: Grid, client: Client) -> None:
    give(grid, "/biomed", grid.alice)
    client.force_login(grid.alice)
    assert "<img src=x" not in client.get(page(grid, "/biomed")).content.decode()
