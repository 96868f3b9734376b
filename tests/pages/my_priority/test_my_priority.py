"""My priority as a page: the accounts, the walk, what to do, why them first, the past, and who sees what of me."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import Account, User
from apps.core import clock
from apps.explain.my_priority import get_my_priority
from apps.pages.my_priority.facts import facts_about
from apps.policies.models import Grant
from apps.priorities.recompute.totals import compute_from_totals
from apps.priorities.selectors.rows import open_view
from apps.priorities.serving import store
from apps.priorities.tried_settings import TriedPolicy, TriedVector
from apps.usage.models import Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from tests.grants import make_grant
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read, text_of, with_cards
from tests.sign_in import sign_in

PAGE = "/me/priority/"
WHY = "/me/priority/_why"
# When and what changes it, newest jobs, what others see, and accounts: of now alone.
OF_NOW = (
    '[data-testid="when"]',
    '[data-testid="changes"]',
    "#charges",
    ".seen",
    "#accounts",
    "#back",
)
pytestmark = pytest.mark.django_db


def signed_in(user: User) -> Client:
    return sign_in(Client(), user)


def get(client: Client, path: str = PAGE, htmx: bool = False, **query: Any) -> Any:
    return client.get(path, query, headers={"HX-Request": "true"} if htmx else {})


def page_of(client: Client, path: str = PAGE, htmx: bool = False, **query: Any) -> Page:
    """With the cards that follow it."""
    return with_cards(client, read(get(client, path, htmx, **query)))


def seen(client: Client) -> list[tuple[str, dict[str, Any]]]:
    """What others see: the key of each sentence and what it names; the page shows the same."""
    answer = get(client, "/me/priority/_viewers", htmx=True)
    collected = [(each.key, dict(each.values)) for each in answer.context["seen"]]
    assert page_of(client).values("data-key", ".seen") == [key for key, _values in collected]
    return collected


def give(grid: Grid, user: User, path: str, role: str) -> None:
    make_grant(user, grid.uid(path), role, at=grid.at, reason="test")


def second_account(grid: Grid, user: str, vo: str, cores: int) -> None:
    """Another account of alice's, with a job of its own."""
    row = RecordRow(
        job=f"second-{user}",
        user=user,
        group=vo,
        start_at=grid.at - timedelta(hours=5),
        end_at=grid.at - timedelta(hours=4),
        cpus=cores,
    )
    ingest_batch(source=Source.objects.get(slug="cluster-a"), rows=[row], at=grid.at)
    Account.objects.filter(user_name=user).update(person=grid.alice)
    grid.recompute()


@pytest.mark.paper("4.72")
def test_the_page_shows_rank_reason_and_advice(grid: Grid) -> None:
    page = page_of(signed_in(grid.alice))
    assert page.text(".lv li.decides")  # the level that explains the rank
    for part in (*OF_NOW, '[data-testid="scheduler-number"]', '[data-testid="only-fairshare"]', "#back-day"):
        assert page.has(part), part
    answers = page.values("data-key", ".qa")
    assert list(dict.fromkeys(key.split(".")[0] for key in answers)) == ["reason", "when", "change"]


@pytest.mark.product
def test_every_account_can_be_chosen_from_the_list_of_the_page(grid: Grid) -> None:
    second_account(grid, "bob", "atlas", 1)
    client = signed_in(grid.alice)
    page = page_of(client)
    assert page.texts("[data-testid=accounts] option") == ["atlas / bob", "atlas / alice"]
    assert page.text("[data-testid=accounts] option[selected]") == "atlas / bob"
    other = page.each("[data-testid=accounts] option", "value")[1]
    answer = get(client, shown=other)
    assert answer.status_code == 303
    assert page_of(client, answer["Location"]).text("[data-testid=accounts] option[selected]") == "atlas / alice"
    assert page.texts("#submit tbody th small") == ["cluster-a:bob, shown on this page", "cluster-a:alice"]


@pytest.mark.product
def test_an_unmapped_account_says_what_to_do_and_has_no_rank(grid: Grid) -> None:
    Account.objects.create(namespace="cluster-a", user_name="kberg2", person=grid.alice, first_seen_at=grid.at)
    client = signed_in(grid.alice)
    page = page_of(client)
    assert page.texts("[data-testid=accounts] option")[-1] == "cluster-a:kberg2 (not mapped)"
    page = page_of(client, account="kberg2", namespace="cluster-a")
    assert page.one("#verdict").attributes["data-key"] == "verdict.unmapped"
    assert page.values("data-key", ".qa") == [
        "rank.unmapped",
        "when.unmapped",
        "change.unmapped",
        "change.until_mapped",
    ]
    assert page.texts("#submit tbody th small") == ["cluster-a:alice"]
    assert page.has("#waiting-jobs")
    assert page.has("#accounts")
    assert not page.has('[data-testid="other-numbers"]'), "it has no numbers that could differ"
    for part in ("#path", "#forecast", "#trend", "[data-testid=strip]"):
        assert not page.has(part), part


def test_secondary_cards_are_closed_and_each_is_one_fragment(grid: Grid) -> None:
    page = read(get(signed_in(grid.alice)))
    closed = page.all("#more li > details")
    assert len(closed) >= 6
    for each in closed:
        assert "open" not in each.attributes
        assert len(each.css("[data-card]")) == 1
    triggers = page.each("#more [data-card]", "hx-trigger")
    assert not [trigger for trigger in triggers if "load" in str(trigger)]


def test_a_past_instant_has_its_time_bar_and_no_current_numbers(grid: Grid) -> None:
    client = signed_in(grid.alice)
    then = (clock.now() + timedelta(minutes=5)).isoformat()
    answer = get(client, at=then)
    page = with_cards(client, read(answer))
    assert page.has(".timebar")
    assert answer.context["time_bar"].moment.revision == 2
    for part in OF_NOW:
        assert not page.has(part), part
    long_ago = page_of(client, at="2001-01-01T00:00:00Z")
    assert long_ago.one("#verdict").attributes["data-key"] == "not_kept"


def test_a_typed_day_is_an_instant_in_the_zone_of_the_site(grid: Grid) -> None:
    answer = signed_in(grid.alice).get(PAGE, {"day": "2026-01-31T12:00", "account": "alice"})
    assert answer.status_code == 303
    assert "at=2026-01-31T" in answer["Location"]
    assert "account=alice" in answer["Location"]


@pytest.mark.parametrize("at", ["yesterday", "2026-01-01T00:00:00", "9999-99-99"])
def test_an_invalid_instant_is_refused(grid: Grid, at: str) -> None:
    answer: Any = signed_in(grid.alice).get(PAGE, {"at": at})
    assert answer.status_code == 422
    assert [field.where for field in answer.context["refusal"].fields] == ["at"]


def test_another_user_is_compared_with_what_would_reverse_the_order(grid: Grid) -> None:
    client = signed_in(grid.alice)
    assert page_of(client).has("#why")
    found = page_of(client, WHY, htmx=True, who="carol")
    assert found.texts("#why .who a .break:first-child") == ["carol"]
    answer = get(client, WHY, htmx=True, other="/biomed/carol", who="carol")
    shown = read(answer)
    keys = [result.key for result in answer.context["why"]["comparison"].sentences]
    assert keys[0].startswith("contrast.ahead")
    assert any(key.startswith("contrast.level") for key in keys)
    n_turns = sum(key.startswith("turn.") for key in keys)
    assert n_turns
    assert len(shown.all(".contrast .turns li")) == n_turns
    assert len(shown.all(".contrast .bullet")) == 2
    assert not shown.has('[data-testid="nobody-found"]')
    assert page_of(client, WHY, htmx=True, who="xyzzy").has('[data-testid="nobody-found"]')


CARDS = ("_trend", "_figure/rank", "_charges", "_accounts", "_viewers", "_why", "_back", "_details")
CARDS_OF_PLUGINS = ("_submit", "_waiting", "_forecast", "_forecast_levels")


def account_of(grid: Grid) -> dict[str, Any]:
    return {"account": "alice", "namespace": "cluster-a", "policy": SLUG, "entry": str(grid.uid("/atlas/alice"))}


@pytest.mark.parametrize(
    "card", [*CARDS, *(pytest.param(card, marks=pytest.mark.product) for card in CARDS_OF_PLUGINS)]
)
def test_a_card_opened_without_scripts_is_a_page_that_leads_back(grid: Grid, card: str) -> None:
    client, path = signed_in(grid.alice), f"{PAGE}{card}"
    fragment = get(client, path, htmx=True, **account_of(grid))
    assert fragment["Cache-Control"] == "private, no-store"
    assert not read(fragment).has("h1")
    opened = get(client, path, **account_of(grid))
    assert opened["Cache-Control"] == "private, no-store"
    (back,) = read(opened).each(".page-head a", "href")
    assert page_of(client, back).text("[data-testid=shown-account]") == "atlas / alice"
    for form in read(opened).all("main form"):
        assert str(form.attributes.get("action") or PAGE).startswith(("/me/", "#"))


def test_the_page_waits_for_no_card_and_names_each(grid: Grid) -> None:
    page = read(get(signed_in(grid.alice)))
    cards = page.all("[data-card]")
    assert len(cards) >= len(CARDS)
    for card in cards:
        named = card.parent if card.tag == "dd" else card
        assert named is not None
        assert text_of(named.css_first("h2, [role=heading], dt"))
        assert card.css_first("[data-ask-again]") is not None
        link = card.css_first("noscript a")
        assert link is not None
        assert link.attributes["href"] == card.attributes["hx-get"]


@pytest.mark.parametrize("card", ["_why", "_viewers", "_submit", "_when"])
def test_a_card_of_an_account_that_is_gone_shows_no_other_one(grid: Grid, card: str) -> None:
    client = signed_in(grid.alice)
    gone = account_of(grid) | {"account": "somebody"}
    assert get(client, f"{PAGE}{card}", htmx=True, **gone).status_code == 404
    assert get(client, f"{PAGE}{card}", htmx=True, **(gone | {"policy": "nowhere"})).status_code == 404


def test_a_card_of_other_numbers_than_the_answer_says_so(grid: Grid) -> None:
    client = signed_in(grid.alice)
    values = json.loads(read(get(client)).one("#my-cards").attributes["hx-vals"] or "")
    same = get(client, f"{PAGE}_charges", htmx=True, **account_of(grid), **values)
    assert not read(same).has('[data-testid="other-numbers"]')
    assert "HX-Trigger" not in same
    second_account(grid, "bob", "atlas", 1)
    later = get(client, f"{PAGE}_charges", htmx=True, **account_of(grid), **values)
    assert read(later).has('[data-testid="other-numbers"]')
    assert json.loads(later["HX-Trigger"]) == {"live:ask": ""}
    past = get(client, f"{PAGE}_why", htmx=True, **account_of(grid), **values, at="2")
    assert not read(past).has('[data-testid="other-numbers"]'), "the past doesn't change"


def test_cards_of_a_past_moment_have_its_numbers(grid: Grid) -> None:
    client = signed_in(grid.alice)
    page = read(get(client, at="2", policy=SLUG))
    addresses = page.each("[data-card]", "hx-get")
    assert addresses
    assert all("at=2" in address for address in addresses)
    assert with_cards(client, page).has("#why-who")


def test_without_visible_users_no_comparison_is_offered(closed: Grid) -> None:
    client = signed_in(closed.alice)
    page = page_of(client).html
    assert 'id="why-who"' not in page
    for name in ("bob", "carol"):
        assert name not in page
    hidden, missing = (
        get(client, WHY, htmx=True, who=n, other=f"/atlas/{n}").content.decode().replace(n, "") for n in ("bob", "nil")
    )
    assert hidden == missing


def test_a_lead_compares_only_inside_the_own_group(closed: Grid) -> None:
    give(closed, closed.alice, "/atlas", "lead")
    client = signed_in(closed.alice)
    assert page_of(client, WHY, htmx=True, who="bob").texts("#why .who a .break:first-child") == ["bob"]
    assert not page_of(client, WHY, htmx=True, who="carol").has("#why .who")
    assert page_of(client, WHY, htmx=True, other="/biomed/carol").error_codes() == ["not_found"]


def test_what_others_see_is_listed_by_role_from_current_grants(closed: Grid) -> None:
    lena, vera, gone = (User.objects.create_user(name) for name in ("lena", "vera", "gone"))
    give(closed, lena, "/atlas", "lead")
    give(closed, vera, "/", "viewer")
    give(closed, gone, "/cms", "manager")
    client = signed_in(closed.alice)
    collected = [
        (key, *(values[name] for name in ("n", "name", "role") if name in values)) for key, values in seen(client)
    ]
    lead_sees = ("seen.by_name", 1, "atlas", Grant.Role.LEAD.label)
    assert collected == [
        ("seen.closed",),
        lead_sees,
        ("seen.in_sums", 1, "SweGrid", Grant.Role.VIEWER.label),
        ("seen.administrators", 1),
        ("seen.schedulers",),
    ]
    assert "cms" not in page_of(client).text(".seen")
    for name in ("lena", "vera"):
        assert name not in page_of(client).html, "by role, never by name"
    Grant.objects.filter(user=lena).update(expires_at=clock.now() - timedelta(seconds=1))
    assert [key for key, _values in seen(client)] == [key for key, *_rest in collected if key != "seen.by_name"]


def test_an_open_subtree_is_labelled(closed: Grid) -> None:
    make_grant(
        None,
        closed.uid("/atlas"),
        "viewer",
        verbs=["view_members"],
        at=closed.at,
        people="*",
        reason="test",
    )
    found = dict(seen(signed_in(closed.alice)))
    assert found["seen.by_name_all"]["name"] == "atlas"
    assert "seen.closed" not in found


def test_an_open_policy_is_labelled(grid: Grid) -> None:
    assert dict(seen(signed_in(grid.alice)))["seen.open"]["policy"] == "SweGrid"


def test_a_user_without_an_entry_sees_what_to_do(grid: Grid) -> None:
    page = page_of(signed_in(User.objects.create_user("zoe")))
    assert page.one("#verdict").attributes["data-key"] == "no_account"
    assert page.has('#accounts details form[action^="/me/accounts/claim/"] #id_user_name')


def test_the_smallest_visible_job_agrees_with_a_recompute(grid: Grid) -> None:
    mine = get_my_priority(actor=Actor(user=grid.alice, via="page"))[0]
    assert mine.smallest_job is not None
    least, most = mine.smallest_job.any_level_h, mine.smallest_job.every_level_h
    assert least is not None
    assert most is not None
    snapshot = store.newest(SLUG)
    entry = snapshot.tree.index_of_path("/atlas/alice")
    assert entry is not None
    path = [entry, int(snapshot.tree.parent[entry])]

    def changed(hours: float) -> list[bool]:
        usage = snapshot.values.usage.copy()
        usage[[*path, 0]] += hours * 3600
        after = compute_from_totals(snapshot.tree.engine_tree(), usage, usage, algorithm=snapshot.algorithm)
        return [bool(after.scalar[i] != snapshot.values.scalar[i]) for i in path]

    assert not any(changed(least * (1 - 1e-6)))
    assert any(changed(least * (1 + 1e-6) + 1e-6))
    assert not all(changed(most * (1 - 1e-6)))
    assert all(changed(most * (1 + 1e-6) + 1e-6))


def test_without_own_usage_the_smallest_job_follows_from_the_groups_above(closed: Grid) -> None:
    erin = User.objects.create_user("erin")
    Account.objects.filter(user_name="erin").update(person=erin)
    (mine,) = get_my_priority(actor=Actor(user=erin, via="page"))
    assert mine.smallest_job is not None
    view = open_view(policy_slug=SLUG, actor=Actor(user=erin, via="page"))
    checked = TriedPolicy(view, TriedVector()).checked()
    assert checked is not None
    (any_level_h,), (every_level_h,) = checked.jobs()
    assert (mine.smallest_job.any_level_h, mine.smallest_job.every_level_h) == pytest.approx(
        (any_level_h, every_level_h)
    )
    assert mine.smallest_job.any_level_h == 0, "nobody of /cms used anything, so that the first job has everything"


def test_whom_to_ask_about_shares_is_known_by_name_to_those_below(closed: Grid) -> None:
    """People with a right of their own, not groups, readers, former leads and the reader: the nearest come first."""
    for name, path, role in (
        ("Lea Lund", "/atlas", "manager"),
        ("Ravi Rao", "/atlas", "viewer"),
        ("Olga Old", "/atlas", "manager"),
        ("Bo Berg", "/biomed", "manager"),
    ):
        first, _space, last = name.partition(" ")
        make_grant(User.objects.create_user(first.lower(), first_name=first, last_name=last), closed.uid(path), role)
    make_grant(closed.alice, closed.uid("/atlas"), "manager")
    Grant.objects.filter(user__username="olga").update(expires_at=clock.now() - timedelta(days=1))
    actor = Actor(user=closed.alice, via="page")
    (priority,) = get_my_priority(actor=actor)
    leads = facts_about(actor, clock.now())(priority).leads()
    assert {uid: list(names) for uid, names in leads.items()} == {closed.uid("/atlas"): ["Lea Lund"]}
    assert not facts_about(actor, clock.now(), is_past=True)(priority).leads()
    User.objects.filter(username="lea").update(is_active=False)
    assert not facts_about(actor, clock.now())(priority).leads()
