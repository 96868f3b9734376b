"""Pages of charges: the arithmetic is there to be checked, for those whose it is."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import Actor
from apps.accounts.models import Account
from apps.mapping.attachments import attach_account
from apps.priorities.charges import list_charges
from apps.priorities.selectors.rows import open_view
from apps.series.own_days import load_own_days
from apps.usage.models import Record, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.web.listings.charge_listing import CHARGES, hours
from apps.web.svg.day_bars import HEIGHT
from tests.instants import AT
from tests.pages.grid import Grid
from tests.pages.page import read
from tests.sign_in import sign_in

LIST = "/policy/grid/charges/"
UTC_ZONE = ZoneInfo("UTC")
pytestmark = pytest.mark.django_db


@pytest.fixture
def admin_client(grid: Grid) -> Client:
    return sign_in(Client(), grid.admin)


@pytest.fixture
def alice_client(grid: Grid) -> Client:
    return sign_in(Client(), grid.alice)


def test_my_priority_links_to_my_jobs_and_each_to_its_calculation(alice_client: Client, grid: Grid) -> None:
    assert LIST in alice_client.get("/me/priority/").content.decode()
    page = alice_client.get(LIST).content.decode()
    mine = Record.objects.get(account__user_name="alice")
    assert f"{LIST}{mine.pk}/" in page
    assert f"{LIST}{Record.objects.get(account__user_name='bob').pk}/" not in page
    one = read(alice_client.get(f"{LIST}{mine.pk}/"))
    for part in ("#what", "#fade", "#where", '[data-testid="no-class-rule"]'):
        assert one.has(part)
    assert "7,200" in one.text("main")


def test_what_own_jobs_used_is_drawn_by_day_and_is_the_sum_of_their_charges(alice_client: Client, grid: Grid) -> None:
    actor = Actor(user=grid.alice, via="page")
    view = open_view(policy_slug="grid", actor=actor)
    own = load_own_days(view, actor=actor, zone=UTC_ZONE)
    assert own is not None
    charges = list_charges(policy_slug="grid", actor=actor)
    assert own.total == pytest.approx(sum(job.charge.charged for job in charges.jobs))
    assert own.used[0] > 0
    assert own.days[-1] == view.now.date()
    bars = read(alice_client.get(LIST)).all("[data-testid=own-use] rect")
    heights = [float(bar.attributes["height"] or 0) for bar in bars]
    most = max(own.used)
    assert [height > 0 for height in heights] == [amount > 0 for amount in own.used]
    assert [height == HEIGHT for height in heights] == [amount == most for amount in own.used]
    assert not read(alice_client.get(f"{LIST}?job=1")).has("[data-testid=own-use]")
    nobody = Actor(user=grid.admin, via="page")
    assert load_own_days(open_view(policy_slug="grid", actor=nobody), actor=nobody, zone=UTC_ZONE) is None


def test_usage_of_an_entry_that_others_share_is_not_ones_own(alice_client: Client, grid: Grid) -> None:
    bob = Account.objects.get(user_name="bob")
    attach_account(
        policy_slug="grid",
        entry_uid=grid.uid("/atlas/alice"),
        account=AccountKey(*(getattr(bob, name) for name in AccountKey._fields)),
        reason="One login.",
        at=AT,
        actor=Actor(user=grid.admin, via="page"),
    )
    grid.recompute()
    assert not read(alice_client.get(LIST)).has("[data-testid=own-use]")
    Account.objects.filter(pk=bob.pk).update(person=grid.alice)
    assert read(alice_client.get(LIST)).has("[data-testid=own-use]"), "both are hers"


def test_a_day_that_begins_now_is_not_among_those_of_own_usage(grid: Grid) -> None:
    midnight = AT.replace(hour=0, minute=0)
    actor = Actor(user=grid.alice, via="page")
    view = open_view(policy_slug="grid", actor=actor)
    before, after = (
        load_own_days(replace(view, now=at), actor=actor, zone=UTC_ZONE)
        for at in (midnight, midnight + timedelta(microseconds=1))
    )
    assert before is not None
    assert after is not None
    assert len(before.days) == len(before.used)
    assert [*before.days, midnight.date()] == after.days


def test_jobs_of_others_are_not_found(alice_client: Client, grid: Grid) -> None:
    other = Record.objects.get(account__user_name="bob")
    assert alice_client.get(f"{LIST}{other.pk}/").status_code == 404
    nothing = read(alice_client.get(f"{LIST}?job={other.job}"))
    assert nothing.item("no-charges").attributes["data-state"] == "search"
    own = Record.objects.get(account__user_name="alice")
    assert not read(alice_client.get(f"{LIST}?job={own.job}")).has('[data-testid="no-charges"]')


def test_an_administrator_filters_by_source_and_downloads_a_table(admin_client: Client, grid: Grid) -> None:
    source = Record.objects.order_by("pk")[0].source
    assert f"{LIST}?source={source.slug}" in admin_client.get(f"/usage/sources/{source.slug}/").content.decode()
    text = b"".join(admin_client.get(f"{LIST}table.csv?source={source.slug}")).decode()
    rows = list(csv.reader(StringIO(text)))
    assert rows[0] == CHARGES.names("csv")
    assert len(rows) == 1 + Record.objects.count()


def test_the_list_is_a_fragment(admin_client: Client, grid: Grid) -> None:
    assert admin_client.get(f"{LIST}_rows").status_code == 303
    part = admin_client.get(f"{LIST}_rows?account=carol", headers={"HX-Request": "true"}).content.decode()
    assert part.lstrip().startswith('<section class="card" id="charge_rows"')
    assert "carol" in part


def test_older_jobs_follow_on_the_next_page(admin_client: Client, grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.pages.charges.views.PAGE", 1)
    source = Record.objects.order_by("pk")[0].source
    address, numbers = f"{LIST}?source={source.slug}", list[str]()
    for _ in range(Record.objects.count()):
        page = read(admin_client.get(address))
        numbers += page.texts("#charge_rows tbody th a")
        address = next(iter(page.each("#charge_rows footer a", "href")), "")
    assert address == ""
    assert numbers == [record.job for record in Record.objects.order_by("-pk")]


HOUR = timedelta(hours=1)


def sent(grid: Grid, **more: Any) -> Record:
    """The record of one more job of alice."""
    source = Source.objects.get(slug="cluster-a")
    given: dict[str, Any] = {"submit_at": grid.at - 5 * HOUR, "cpus": 4.0, "requested_s": 3600.0, **more}
    ingest_batch(source=source, rows=[RecordRow(job="extra", user="alice", group="atlas", **given)], at=grid.at)
    return Record.objects.get(job="extra")


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({"state": "pending"}, False),
        ({"state": "withdrawn", "end_at": AT - 3 * HOUR}, False),
        ({"state": "running", "start_at": AT - HOUR}, True),
        ({"start_at": AT - 4 * HOUR, "end_at": AT - 3 * HOUR}, True),
    ],
)
def test_a_job_that_counts_nothing_tells_why(
    admin_client: Client, grid: Grid, more: dict[str, Any], counts: bool
) -> None:
    shown = admin_client.get(f"{LIST}{sent(grid, **more).pk}/")
    assert shown.status_code == 200
    assert bool(shown.context["run_text"]) == (not counts)
    assert (shown.context["charged"] != "0") == counts


def test_each_state_of_a_job_has_its_own_words(admin_client: Client, grid: Grid) -> None:
    record = sent(grid, state="running", start_at=AT - HOUR, array_task="7")
    words = []
    for changed in ({}, {"state": "finished"}, {"note": "vanished"}, {"is_charge": True}):
        Record.objects.filter(pk=record.pk).update(end_at=AT if changed else None, **changed)
        context = admin_client.get(f"{LIST}{record.pk}/").context
        words.append(context["state"])
        assert context["number"] == "extra[7]"
    assert len(set(words)) == 4


def test_a_job_of_another_site_counts_nothing_where_local_usage_is_compared(admin_client: Client, grid: Grid) -> None:
    record = sent(grid, start_at=AT - 4 * HOUR, end_at=AT - 3 * HOUR)
    here, _everywhere = admin_client.get(f"{LIST}{record.pk}/").context["scopes"]
    Source.objects.filter(pk=record.source_id).update(origin="elsewhere.example")
    local, everywhere = admin_client.get(f"{LIST}{record.pk}/").context["scopes"]
    assert here[1] == everywhere[1]
    assert not any(letter.isdigit() for letter in local[1])


@pytest.mark.parametrize(("seconds", "text"), [(0, "0"), (3600, "1.00"), (3600 * 99.5, "99.50"), (360_000, "100")])
def test_small_sums_have_decimals(seconds: float, text: str) -> None:
    assert hours(seconds) == text


def test_the_smallest_sum_is_not_nothing() -> None:
    assert hours(1) not in ("0", "0.00")
