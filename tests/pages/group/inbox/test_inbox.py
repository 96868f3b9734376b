"""The inbox: what waits for whom, with its effect, and every answer to a request."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.policies import services
from apps.policies.changesets import lifecycle
from apps.policies.models import ChangeSet, Comment, Grant
from apps.policies.records import NewChangeSet
from apps.policies.requests.share_requests import RequestTerms, request_shares
from apps.priorities.request_evidence import get_request_evidence
from apps.series.convergence.selectors import list_weeks
from tests.examples import first
from tests.pages.grid import SLUG, Grid
from tests.pages.group.test_group import HTMX, active, give, head, lead, manager, note_of, page  # noqa: F401 - fixtures
from tests.pages.page import read, text_of
from tests.series_by_hand import HandMade, put_in_place
from tests.sign_in import sign_in

INBOX = "/inbox/"


@pytest.fixture
def grid(closed_grid: Grid) -> Grid:
    return closed_grid


@pytest.fixture
def asked(grid: Grid, lead: Client) -> ChangeSet:  # noqa: F811
    """alice asks for 75 instead of 60 shares for atlas."""
    return request_shares(
        policy_slug=SLUG,
        entry_uid=grid.uid("/atlas"),
        terms=RequestTerms(shares=75.0),
        reason="Two new postdocs.",
        at=grid.at,
        actor=Actor(user=grid.alice, via="page"),
    )


def answer(client: Client, asked: ChangeSet, step: str, **more: Any) -> Any:
    return client.post(f"/inbox/{asked.pk}/answer/", {"version": asked.version, "step": step, **more}, follow=True)


def line_of(response: Any, change_set: ChangeSet) -> Any:
    return read(response).one(f"#change-{change_set.pk}")


def test_a_request_is_listed_with_usage_and_effect(grid: Grid, asked: ChangeSet, manager: Client) -> None:  # noqa: F811
    found = manager.get(INBOX)
    shown, mine = read(found), f"#request-{asked.pk}"
    assert found.context["inbox"].n_waiting == 1
    assert not shown.has('[data-testid="nothing-waits"]')
    for part in ("atlas", "75", "60"):
        assert part in shown.text(f"{mine} h3"), part
    for testid, parts in (
        ("reason", ("Two new postdocs.",)),
        ("target", ("SweGrid", "60.0 %", "65.2 %")),
        ("used", ("43.5 %",)),
        ("givers", ("biomed −3.9", "cms −1.3")),
    ):
        for part in parts:
            assert part in shown.text(f'{mine} [data-testid="{testid}"]'), part
    for testid in ("used", "used-if-granted"):
        assert shown.has(f'{mine} [data-testid="{testid}"] .bal.under')
    assert shown.item("weeks").attributes["data-key"] == "now.under"
    assert shown.values("data-value", '#nav a[href="/inbox/"]') == ["1"]


def test_weeks_come_from_the_daily_series_and_now(
    grid: Grid,
    asked: ChangeSet,
    manager: Client,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    days = 40
    used = {"/atlas/alice": [3600.0] * days, "/biomed/carol": [0.0] * (days - 12) + [36000.0] * 12}
    put_in_place(HandMade(grid.at.date() - timedelta(days=1), used, decay=0.0), monkeypatch)
    shown = read(manager.get(INBOX))
    lines = [text_of(each) for each in shown.all("ul.weeks li")]
    assert [line.split()[-1] for line in lines] == ["over", "over", "over", "under", "under"]
    assert ["100.0 %" in line for line in lines[:3]] == [True] * 3, "carol used nothing then"
    assert "9.1 %" in lines[3], "1 of 11 core-hours a day"
    assert shown.item("weeks").attributes["data-key"] == "weeks.over"
    assert text_of(shown.item("weeks")).startswith("Over in 3 of 5")


def test_weeks_without_a_daily_series_are_empty(asked: ChangeSet, manager: Client) -> None:  # noqa: F811
    shown = read(manager.get(INBOX))
    assert shown.item("weeks").attributes["data-key"] == "now.under"
    actor = Actor(user=User.objects.get(username="maria"), via="page")
    evidence = get_request_evidence(asked, actor=actor)
    assert list_weeks(evidence, actor=actor) == [evidence.now]
    assert (evidence.n_sooner is None) == (evidence.n_later is None)


def test_rank_changes_are_computed_in_a_fragment(grid: Grid, asked: ChangeSet, manager: Client) -> None:  # noqa: F811
    path = f"/inbox/{asked.pk}/_ranks"
    ranks = read(manager.get(path, headers=HTMX)).one(f"#ranks-{asked.pk}").attributes
    assert (ranks["data-key"], ranks["data-value"]) == ("unmoved", "0 0")
    assert manager.get(path)["Location"] == INBOX


def test_granting_publishes_and_notifies_the_requester(
    grid: Grid,
    asked: ChangeSet,
    lead: Client,  # noqa: F811
    manager: Client,  # noqa: F811
) -> None:
    done = answer(manager, asked, "grant")
    assert "3" in note_of(done)
    toast = read(done).one("#problem .note.success")
    assert [each.attributes["href"] for each in toast.css("a")] == [f"/changes/{asked.pk}/"], "who moves"
    assert [each.attributes["value"] for each in toast.css("input[name=number]")] == ["3"], "Undo"
    assert head() == 3
    assert active(grid, "/atlas").shares == 75.0
    assert read(manager.get(INBOX)).has('[data-testid="nothing-waits"]')
    assert line_of(lead.get(INBOX), asked).attributes["data-state"] == "granted"
    assert read(lead.get(page(grid))).item("request").attributes["data-state"] == "granted"


def test_another_amount_is_granted_with_a_comment(grid: Grid, asked: ChangeSet, lead: Client, manager: Client) -> None:  # noqa: F811
    done = answer(manager, asked, "grant-other", shares="66,5", until="2099-01-31", text="Half, for now.")
    assert (head(), "3" in note_of(done)) == (3, True)
    assert active(grid, "/atlas").shares == 66.5
    seen = read(lead.get(page(grid)))
    assert seen.item("request").attributes["data-state"] == "granted_other"
    for testid, parts in (
        ("request-title", ("atlas", "75")),
        ("offered", ("66.5", "31 January 2099")),
        ("comment", ("Half, for now.",)),
    ):
        for part in parts:
            assert part in text_of(seen.item(testid)), part


@pytest.mark.parametrize(
    ("step", "more", "status", "code", "where"),
    first(
        3,
        [
            ("grant-other", {"shares": ""}, 422, "invalid", "shares"),
            ("grant-other", {"shares": "lots"}, 422, "invalid", "shares"),
            ("grant-other", {"shares": "70", "until": "2020-01-01"}, 422, "invalid", "until"),
            ("decline", {"text": " "}, 422, "invalid", "text"),
            ("say", {"text": ""}, 422, "invalid", "text"),
            ("dance", {}, 422, "invalid", "step"),
            ("grant", {"version": 99}, 412, "stale", ""),
        ],
    ),
)
def test_invalid_decisions_are_reported_at_the_request_and_kept(
    grid: Grid,
    asked: ChangeSet,
    manager: Client,  # noqa: F811
    step: str,
    more: dict[str, Any],
    status: int,
    code: str,
    where: str,
) -> None:
    response = answer(manager, asked, step, **more)
    shown, refusal = read(response, status), response.context["refusal"]
    assert [problem.where for problem in refusal.fields] == ([where] if where else [])
    assert shown.one(f"#problem-{asked.pk}").attributes["data-code"] == code
    for name in {"shares", "until", "text"} & set(more):
        assert shown.one(f"#{name}-{asked.pk}").attributes["value"] == more[name]
    assert head() == 2


def test_requests_are_declined_or_returned(grid: Grid, asked: ChangeSet, lead: Client, manager: Client) -> None:  # noqa: F811
    back = answer(manager, asked, "say", text="Is half enough?")
    assert (bool(note_of(back)), back.context["inbox"].n_waiting) == (True, 1)
    seen = read(lead.get(page(grid)))
    assert "Is half enough?" in text_of(seen.item("comment"))
    assert seen.item("request").attributes["data-state"] == "open"
    answer(lead, asked, "say", text="Until January, yes.")
    assert "Until January, yes." in text_of(read(manager.get(INBOX)).items("comment")[-1])
    assert note_of(answer(manager, asked, "decline", text="Not this year."))
    line = line_of(lead.get(INBOX), asked)
    assert line.attributes["data-state"] == "declined"
    assert "Not this year." in text_of(line)


def test_the_requester_can_withdraw_but_not_grant(grid: Grid, asked: ChangeSet, lead: Client) -> None:  # noqa: F811
    for step in ("grant", "decline"):
        assert answer(lead, asked, step, text="x").status_code == 403
    assert active(grid, "/atlas").shares == 60.0
    assert note_of(answer(lead, asked, "withdraw"))
    asked.refresh_from_db()
    assert asked.state == "withdrawn"


def test_a_request_based_on_old_shares_is_granted_with_a_new_amount(
    grid: Grid,
    asked: ChangeSet,
    manager: Client,  # noqa: F811
) -> None:
    services.change_shares(
        policy_slug=SLUG,
        entry_uid=grid.uid("/atlas"),
        shares=62,
        reason="r",
        at=grid.at,
        actor=Actor(user=grid.admin, via="page"),
    )
    assert answer(manager, asked, "grant").status_code == 409
    assert answer(manager, asked, "grant-other", shares="70").status_code == 200
    assert active(grid, "/atlas").shares == 70.0


def test_changes_of_others_and_own_drafts_are_listed(grid: Grid, lead: Client, manager: Client) -> None:  # noqa: F811
    alice = Actor(user=grid.alice, via="page")
    operations = [{"op": "set_shares", "entry": "/atlas/bob", "shares": 4}]
    draft = services.make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=operations, reason="Bob."), at=grid.at, actor=alice
    )
    row = f"#change-{draft.pk}"
    assert "Bob." in read(lead.get(INBOX)).text(f'section[aria-labelledby="drafts"] {row}')
    assert not read(manager.get(INBOX)).has(row)
    assert "Bob." not in manager.get(INBOX).content.decode()
    services.propose_change_set(id=draft.pk, version=draft.version, at=grid.at, actor=alice)
    line = line_of(manager.get(INBOX), draft)
    assert line.attributes["data-state"] == "review"
    assert "Bob." in text_of(line)
    ChangeSet.objects.filter(pk=draft.pk).update(effective_at=grid.at + timedelta(days=1))
    assert lead.get(INBOX).content.decode().count(f'id="change-{draft.pk}"') == 1
    ChangeSet.objects.filter(pk=draft.pk).update(held_for="Somebody archived bob.", effective_at=None)
    line = line_of(manager.get(INBOX), draft)
    assert line.attributes["data-state"] == "held"
    assert "Somebody archived bob." in text_of(line)


def test_what_ends_soon_is_listed(grid: Grid, lead: Client, manager: Client) -> None:  # noqa: F811
    Grant.objects.filter(user=grid.alice).update(expires_at=grid.at + timedelta(days=10))
    operations = [
        {
            "op": "set_dates",
            "entry": "/atlas/bob",
            "dates": {"ends_on": (grid.at + timedelta(days=5)).date().isoformat(), "at_end": 1},
        }
    ]
    admin = Actor(user=grid.admin, via="page")
    draft = services.make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=operations, reason="r"), at=grid.at, actor=admin
    )
    services.publish_change_set(id=draft.pk, version=1, at=grid.at, actor=admin)
    shown = read(lead.get(INBOX))
    assert shown.values("data-key", 'section[aria-labelledby="ends"]') == ["role", "shares"]
    role, shares = shown.items("ends")
    assert "atlas" in text_of(role)
    for part in ("bob", "1", str((grid.at + timedelta(days=5)).day)):
        assert part in text_of(shares), part
    (same,) = read(manager.get(INBOX)).all('[data-testid="ends"][data-key="shares"]')
    assert "bob" in text_of(same)


def alice_drafts(grid: Grid, operation: dict[str, Any]) -> ChangeSet:
    actor = Actor(user=grid.alice, via="page")
    new = NewChangeSet(operations=[operation], reason="Bob.")
    return services.make_change_set(policy_slug=SLUG, new=new, at=grid.at, actor=actor)


BOB = {"op": "set_shares", "entry": "/atlas/bob", "shares": 4}


def test_an_approved_change_is_marked_for_both_sides(grid: Grid, lead: Client, manager: Client) -> None:  # noqa: F811
    draft, maria = alice_drafts(grid, BOB), Actor(user=User.objects.get(username="maria"), via="page")
    services.propose_change_set(id=draft.pk, version=1, at=grid.at, actor=Actor(user=grid.alice, via="page"))
    lifecycle.approve_change_set(id=draft.pk, version=2, at=grid.at, actor=maria)
    for client in (lead, manager):
        page = client.get(INBOX)
        assert page.content.decode().count(f'id="change-{draft.pk}"') == 1
        (line,) = [each for each in page.context["reviews"] if each.change_set == draft]
        assert line.state == "approved"
    ChangeSet.objects.filter(pk=draft.pk).update(held_for="Somebody archived bob.")
    (line,) = lead.get(INBOX).context["reviews"]
    assert (line.state, "Somebody archived bob." in line.text) == ("held", True)


def test_a_draft_that_was_sent_back_shows_what_the_other_wrote(grid: Grid, lead: Client, manager: Client) -> None:  # noqa: F811
    draft, alice = alice_drafts(grid, BOB), Actor(user=grid.alice, via="page")
    lifecycle.comment_on(id=draft.pk, text="A note to myself.", at=grid.at, actor=alice)
    assert "A note to myself." not in text_of(line_of(lead.get(INBOX), draft))
    services.propose_change_set(id=draft.pk, version=1, at=grid.at, actor=alice)
    maria = Actor(user=User.objects.get(username="maria"), via="page")
    later = grid.at + timedelta(minutes=1)
    lifecycle.request_changes(id=draft.pk, version=2, text="Until when?", at=later, actor=maria)
    assert "Until when?" in text_of(line_of(lead.get(INBOX), draft))


@pytest.mark.parametrize(("at_end", "numbers"), [("keep", []), ("archive", []), ("zero", ["1", "0"]), (3, ["1", "3"])])
def test_shares_that_end_tell_what_follows(
    grid: Grid,
    manager: Client,  # noqa: F811
    at_end: str | int,
    numbers: list[str],
) -> None:
    ends_on = (grid.at + timedelta(days=5)).date()
    operation = {
        "op": "set_dates",
        "entry": "/atlas/bob",
        "dates": {"ends_on": ends_on.isoformat(), "at_end": at_end},
    }
    admin = Actor(user=grid.admin, via="page")
    new = NewChangeSet(operations=[operation], reason="r")
    draft = services.make_change_set(policy_slug=SLUG, new=new, at=grid.at, actor=admin)
    services.publish_change_set(id=draft.pk, version=1, at=grid.at, actor=admin)
    (line,) = manager.get(INBOX).context["ends"]
    then = line.text.partition(": ")[2]
    assert re.findall(r"\d+", then) == numbers
    assert then
    assert (line.key, line.is_over) == ("shares", False)


def test_an_invalid_answer_of_the_requester_leads_back_with_a_warning(
    grid: Grid,
    asked: ChangeSet,
    lead: Client,  # noqa: F811
) -> None:
    done = answer(lead, asked, "say", text=" ")
    assert done.redirect_chain == [(f"{page(grid)}#ask", 303)]
    assert note_of(done, "warn")
    assert answer(lead, asked, "withdraw", version=99).redirect_chain == [(f"{page(grid)}#ask", 303)]
    asked.refresh_from_db()
    assert asked.state == "proposed"


def test_new_items_are_announced_without_moving_the_list(grid: Grid, asked: ChangeSet, manager: Client) -> None:  # noqa: F811
    mark = f"{asked.pk}.{asked.version}"
    changed = '[data-testid="inbox-changed"]'
    assert read(manager.get(INBOX)).one("#inbox-news").attributes["hx-get"] == f"/inbox/_news?seen={mark}"
    assert not read(manager.get(f"/inbox/_news?seen={mark}", headers=HTMX)).has(changed)
    assert read(manager.get("/inbox/_news?seen=none", headers=HTMX)).has(changed)


def test_a_user_without_decisions_has_an_empty_inbox(grid: Grid, asked: ChangeSet) -> None:
    stranger = sign_in(Client(), User.objects.create_user("zoe"))
    shown = read(stranger.get(INBOX))
    assert shown.has('[data-testid="nothing-waits"]')
    assert "atlas" not in shown.text("html")
    assert stranger.post(f"/inbox/{asked.pk}/answer/", {"step": "grant", "version": 2}).status_code == 404
    assert stranger.get(f"/inbox/{asked.pk}/_ranks", headers=HTMX).status_code == 404


def test_a_change_set_without_a_request_is_not_in_the_inbox(grid: Grid, manager: Client) -> None:  # noqa: F811
    admin = Actor(user=grid.admin, via="page")
    operations = [{"op": "set_shares", "entry": "/atlas/bob", "shares": 4}]
    other = services.make_change_set(
        policy_slug=SLUG, new=NewChangeSet(operations=operations, reason="r"), at=grid.at, actor=admin
    )
    services.propose_change_set(id=other.pk, version=1, at=grid.at, actor=admin)
    assert manager.post(f"/inbox/{other.pk}/answer/", {"step": "grant", "version": 2}).status_code == 404
    assert not Comment.objects.exists()
