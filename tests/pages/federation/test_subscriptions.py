"""Another site's usage: fetched, its key compared, and then its state, hour by hour."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.conf import LazySettings
from django.test import Client

from apps.accounts.models import AuditEvent, User
from apps.federation.models import HeldHour, Subscription
from apps.runs.models import Run
from tests.federation.conftest import feed, mounted, policy, subscription, vo
from tests.federation.fetches import look_at
from tests.federation.other_side import KEY, P1, P2, OtherFeed
from tests.federation.worlds import publish_excess
from tests.instants import AT
from tests.pages.federation.test_mounts import codes_of
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in

__all__ = ["feed", "mounted", "policy", "subscription", "vo"]
NEW = "/federation/usage/new/"
HOUR = timedelta(hours=1)


@pytest.fixture
def client(db: None) -> Client:
    return sign_in(Client(), User.objects.create_superuser("admin"))


def address(feed: OtherFeed, **more: str) -> dict[str, str]:
    return {"step": "preview", "entry": "grid:/vo-a-here", "url": feed.url, "token": "their-secret", **more}


def terms(feed: OtherFeed, **more: str) -> dict[str, str]:
    fingerprint = " ".join(KEY.public.fingerprint[at : at + 4] for at in range(0, 64, 4)).upper()
    given = {
        "fingerprint": fingerprint,
        "capacity": "100",
        "every": "5",
        "max_age": "6",
        "stale_action": "local",
        "reason": "Agreed by telephone.",
    }
    return {**address(feed), "step": "terms", **given, **more}


def test_reported_usage_is_shown_before_the_key_is_trusted(client: Client, feed: OtherFeed) -> None:
    feed.tell({AT - HOUR: {P1: 3_600}, AT - 2 * HOUR: {}}, [(P2, AT - HOUR, 8)])
    assert "vo-a.example" in read(client.get(NEW)).text('option[value="grid:/vo-a-here"]')
    answer = client.post(NEW, address(feed))
    page = read(answer)
    assert page.item("subscribe-step").attributes["data-key"] == "terms"
    assert "site-b.example" in text_of(page.item("subscribe-step"))
    assert re.findall(r"\d+", text_of(page.item("declared-capacity"))) == ["100"]
    assert [text_of(page.item(name)) for name in ("n-hours", "n-running", "number")] == ["2 hours", "1", "1"]
    assert page.texts(".fp span") == [KEY.public.fingerprint[at : at + 4] for at in range(0, 64, 4)]
    assert feed.asked[-1]["authorization"] == "Bearer their-secret"
    assert "no-store" in answer["Cache-Control"]
    assert not Subscription.objects.exists()


def test_with_a_confirmed_key_usage_is_ingested_on_the_agreed_terms(client: Client, feed: OtherFeed) -> None:
    feed.tell({AT - HOUR: {P1: 3_600}})
    answer = client.post(NEW, terms(feed, capacity="80"))
    row = Subscription.objects.get()
    assert (answer.status_code, answer["Location"]) == (303, f"/federation/usage/{row.pk}/")
    assert (row.capacity_cores, row.every_s, row.max_age_s, row.stale_action) == (80, 300, 21_600, "local")
    assert row.fingerprint == KEY.public.fingerprint
    assert "their-secret" not in row.sealed_token
    assert AuditEvent.objects.get(verb="federation.subscribed").reason == "Agreed by telephone."


def test_reported_entries_that_the_policy_lacks_are_named(
    client: Client, subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_url, rest_url = f"/federation/usage/{subscription.pk}/", f"/api/v1/federation/subscriptions/{subscription.pk}"
    feed.tell({AT - HOUR: {P1: 60}})
    look_at(subscription, monkeypatch, AT)
    assert client.get(rest_url).json()["unknown_entries"] == []
    assert "unknown here" not in client.get(page_url).content.decode()
    unknown = UUID(int=0xFEED)
    feed.tell({AT - HOUR: {P1: 60, unknown: 60}})
    look_at(subscription, monkeypatch, AT + timedelta(minutes=10))
    text = f"1 entry that it reports is unknown here, and its usage counts nowhere: {unknown}"
    assert text_of(read(client.get(page_url)).item("unknown-entries")) == text
    assert client.get(rest_url).json()["unknown_entries"] == [str(unknown)]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"fingerprint": "0" * 64}, "key_differs"),
        ({"fingerprint": "abc"}, "no_fingerprint"),
        ({"capacity": "-1"}, "min_value"),
        ({"reason": ""}, "required"),
        ({"stale_action": "burn"}, "invalid_choice"),
    ],
)
def test_invalid_terms_store_nothing(client: Client, feed: OtherFeed, fields: dict[str, str], code: str) -> None:
    feed.tell({AT - HOUR: {P1: 3_600}})
    answer = client.post(NEW, terms(feed, **fields))
    assert answer.status_code == 422
    assert {field: {code} for field in fields} == {
        field: {error.code for error in errors} for field, errors in answer.context["form"].errors.as_data().items()
    }
    assert Page(answer.content.decode()).texts(".err"), "it is said at the field"
    assert not Subscription.objects.exists()


@pytest.mark.parametrize(
    ("fields", "codes", "named"),
    [
        ({"url": "http://169.254.169.254/latest/meta-data"}, {"__all__": {"address_refused"}}, "169.254.169.254"),
        ({"url": "gopher://x"}, {"__all__": {"address_refused"}}, "http"),
        ({"entry": "grid:/VO-B"}, {"entry": {"invalid_choice"}}, "grid:/VO-B"),
        ({"url": ""}, {"url": {"required"}}, ""),
    ],
)
def test_invalid_addresses_are_refused_with_a_reason(
    client: Client, feed: OtherFeed, fields: dict[str, str], codes: dict[str, set[str]], named: str
) -> None:
    answer = client.post(NEW, address(feed, **fields))
    assert answer.status_code == 422
    assert codes_of(answer) == codes
    (field,) = codes
    assert named in read(answer, 422).text("[role=alert].note.bad" if field == "__all__" else f"#id_{field}_error")
    assert not Subscription.objects.exists()


@pytest.fixture
def with_usage(vo_usage_held: object, subscription: Subscription, feed: OtherFeed) -> Subscription:
    """An hour that counts, one that is more than 100 cores can run, and a job on 8 cores."""
    publish_excess(feed)
    return subscription


def url(row: Subscription, tail: str = "") -> str:
    return f"/federation/usage/{row.pk}/{tail}"


def story(page: Page) -> tuple[str | None, ...]:
    """Keys of what the page says first, what follows from it, and why more capacity may be approved ("" for none)."""
    capacity = [one.attributes["data-key"] for one in page.items("capacity-words")]
    return (*(page.item(name).attributes["data-key"] for name in ("story", "follows")), *(capacity or [""]))


def hours(page: Page) -> dict[str, str | None]:
    """Time, reported and possible core-hours, and whether they count."""
    return {" ".join(text_of(each).split()[:3]): each.attributes["data-state"] for each in page.items("hour")}


def test_reported_hours_are_shown_against_capacity(with_usage: Subscription, client: Client) -> None:
    page = read(client.get(url(with_usage)))
    assert story(page) == ("held", "held", "declares_more")
    assert all(part in text_of(page.item("story")) for part in ("site-b", "/vo-a-here", "0 s"))
    assert re.findall(r"\d+", text_of(page.item("capacity-words"))) == ["250", "100"]
    assert re.findall(r"\d+", text_of(page.item("needed-cores"))) == ["200"]
    assert hours(page) == {"11:00 10 100": "counts", "10:00 200 100": "held"}
    assert set(re.findall(r"\d+", text_of(page.item("running")))) == {"1", "8"}


def test_a_larger_capacity_is_approved_and_usage_reread(
    with_usage: Subscription, client: Client, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(client.get(url(with_usage))).has("[data-testid=agree-capacity] #id_capacity")
    assert client.post(url(with_usage, "act/"), {"step": "capacity", "capacity": "250"}).status_code == 422
    client.post(url(with_usage, "act/"), {"step": "capacity", "capacity": "250", "reason": "They bought a rack."})
    with_usage.refresh_from_db()
    assert (with_usage.capacity_cores, with_usage.number) == (250, 0)
    look_at(with_usage, monkeypatch, AT + timedelta(minutes=1))
    assert not HeldHour.objects.exists()
    page = read(client.get(url(with_usage)))
    assert hours(page)["10:00 200 250"] == "counts"
    assert not page.has("[data-testid=agree-capacity]")


QUIET = {"reported_capacity_cores": None}  # and no held hours
MORE = "declares_more"
LATE = "late.then meanwhile"
# What is so, its condition, the keys of what is said of it, and the numbers that are said with them.
CONDITIONS: list[tuple[dict[str, Any], str, tuple[str, str, str], tuple[str, ...]]] = [
    ({}, "held", ("held", "held", MORE), ("0 s",)),
    ({"reported_capacity_cores": 250.0, "number": 9}, "held", (MORE, "all_counts", MORE), ("0 s", "250", "100")),
    ({**QUIET, "running_held": True}, "held", ("held", "held", "running_held"), ("100",)),
    (QUIET, "fresh", ("fresh", "", ""), ("site-b", "/vo-a-here", "0 s")),
    (
        {**QUIET, "n_failed": 2, "stale_action": "local"},
        "late",
        ("late", f"late.failed {LATE}.local", ""),
        ("0 s", "2", "24 h"),
    ),
    ({**QUIET, "good_at": AT - 2 * HOUR}, "late", ("late", f"late.unasked {LATE}.keep", ""), ("2 h",)),
    ({**QUIET, "good_at": None, "n_failed": 1}, "late", ("never_heard_late", f"late.failed {LATE}.keep", ""), ()),
    ({**QUIET, "good_at": None}, "new", ("never_heard", "new", ""), ()),
    ({"good_at": AT - 30 * HOUR}, "stale", ("stale", "meanwhile.keep", MORE), ("site-b", "30 h")),
    (
        {"good_at": AT - 30 * HOUR, "state": "frozen"},
        "stale",
        ("stale", "meanwhile.keep frozen_too", MORE),
        ("30 h",),
    ),
    (
        {"good_at": AT - 30 * HOUR, "state": "frozen", "stale_action": "freeze"},
        "stale",
        ("stale", "meanwhile.freeze", MORE),
        ("30 h",),
    ),
    ({"good_at": None, "made_at": AT - 30 * HOUR}, "stale", ("never_heard", "meanwhile.keep", MORE), ("site-b",)),
    ({"expires_at": AT - HOUR}, "expired", ("expired", "expired counts", MORE), ("/vo-a-here", "11:00")),
    (
        {"expires_at": AT - HOUR, "good_at": AT - 30 * HOUR, "stale_action": "local"},
        "expired",
        ("expired", "expired meanwhile.local", MORE),
        ("11:00",),
    ),
    ({"state": "frozen"}, "frozen", ("frozen", "frozen", MORE), ("site-b",)),
    ({"state": "paused", "good_at": AT - 30 * HOUR}, "paused", ("paused", "paused", MORE), ("site-b",)),
    ({"state": "blocked", "expires_at": AT}, "blocked", ("blocked", "blocked", MORE), ("site-b",)),
]


def put(fields: dict[str, Any]) -> None:
    if fields.get("number") == 9 or "reported_capacity_cores" in fields:
        HeldHour.objects.all().delete()
    Subscription.objects.update(**fields)


@pytest.mark.parametrize(("fields", "condition", "keys", "named"), CONDITIONS)
def test_the_state_of_a_subscription_is_shown(
    with_usage: Subscription,
    client: Client,
    fields: dict[str, Any],
    condition: str,
    keys: tuple[str, ...],
    named: tuple[str, ...],
) -> None:
    put(fields)
    page = read(client.get(url(with_usage)))
    assert story(page) == keys
    text = " ".join(text_of(one) for name in ("story", "follows", "capacity-words") for one in page.items(name))
    assert [part for part in named if part not in text] == []
    assert page.item("standing").attributes["data-state"] == condition


@pytest.mark.parametrize(
    ("condition", "fields"), {condition: fields for fields, condition, *_ in reversed(CONDITIONS)}.items()
)
def test_the_state_is_the_same_on_every_page(
    with_usage: Subscription, client: Client, fields: dict[str, Any], condition: str
) -> None:
    put(fields)
    row, peers_page = f"#peer-usage-{with_usage.pk}", read(client.get("/federation/"))
    assert peers_page.text(f"{row} [data-testid=peer-name]") == "site-b.example vo-a"
    assert peers_page.one(f"{row} [data-testid=standing]").attributes["data-state"] == condition
    assert "/vo-a-here" in peers_page.texts(f"{row} td a")
    grid = read(client.get("/federation/grid/?policy=grid&entry=/vo-a-here"))
    (site,) = (each for each in grid.items("site") if "site-b.example" in text_of(each))
    assert Page(f"<table>{site.html}</table>").item("standing").attributes["data-state"] == condition
    peers = client.get("/api/v1/federation/peers").json()["results"]
    assert [one["condition"] for one in peers if one["direction"] == "usage"] == [condition]
    sites = client.get("/api/v1/federation/grid?policy=grid&entry=/vo-a-here").json()["sites"]
    assert [one["state"] for one in sites] == ["here", condition]


@pytest.mark.parametrize(
    ("deeds", "state", "key"),
    [
        (["pause"], "paused", "paused"),
        (["pause", "resume"], "active", "held"),
        (["freeze"], "frozen", "frozen"),
        (["freeze", "unfreeze"], "active", "held"),
    ],
)
def test_a_subscription_is_paused_frozen_and_resumed(
    with_usage: Subscription, client: Client, deeds: list[str], state: str, key: str
) -> None:
    for what in deeds:
        assert client.post(url(with_usage, "act/"), {"step": what, "reason": "try"}).status_code == 303
    with_usage.refresh_from_db()
    assert with_usage.state == state
    assert read(client.get(url(with_usage))).item("story").attributes["data-key"] == key


def test_a_subscription_is_fetched_on_request(with_usage: Subscription, client: Client) -> None:
    before = Run.objects.count()
    assert client.post(url(with_usage, "act/"), {"step": "fetch"}).status_code == 303
    assert Run.objects.count() == before + 1


def test_an_impossible_action_names_the_reason(with_usage: Subscription, client: Client) -> None:
    Subscription.objects.update(state="paused")
    answer = client.post(url(with_usage, "act/"), {"step": "fetch"})
    assert answer.status_code == 409
    assert codes_of(answer, "action_form") == {"__all__": {"paused"}}
    assert read(answer, 409).text("#do [role=alert]")


def test_a_button_that_the_page_lacks_changes_nothing(with_usage: Subscription, client: Client) -> None:
    before = AuditEvent.objects.count()
    assert client.post(url(with_usage, "act/"), {"step": "burn", "reason": "try"}).status_code == 422
    assert AuditEvent.objects.count() == before


def test_valid_settings_are_saved_and_invalid_ones_marked(with_usage: Subscription, client: Client) -> None:
    given = {"step": "settings", "every": "15", "max_age": "2", "stale_action": "freeze", "reason": "less often"}
    assert client.post(url(with_usage, "act/"), given).status_code == 303
    with_usage.refresh_from_db()
    assert (with_usage.every_s, with_usage.max_age_s, with_usage.stale_action) == (900, 7_200, "freeze")
    answer = client.post(url(with_usage, "act/"), {**given, "every": "0"})
    assert answer.status_code == 422
    assert codes_of(answer) == {"every": {"invalid"}}


def test_trusting_another_key_needs_a_reason(with_usage: Subscription, client: Client) -> None:
    Subscription.objects.update(state="blocked", error_code="unknown_key", error="Signed with another key.")
    page = read(client.get(url(with_usage)))
    assert page.item("story").attributes["data-key"] == "blocked"
    assert page.item("fetch-failed").attributes["data-code"] == "unknown_key"
    assert "Signed with another key." in text_of(page.item("fetch-failed"))
    assert client.post(url(with_usage, "act/"), {"step": "trust", "fingerprint": "f" * 64}).status_code == 422
    client.post(url(with_usage, "act/"), {"step": "trust", "fingerprint": "f" * 64, "reason": "Called them."})
    with_usage.refresh_from_db()
    assert (with_usage.fingerprint, with_usage.state) == ("f" * 64, "active")


def test_unsubscribing_removes_all_its_usage(with_usage: Subscription, client: Client) -> None:
    answer = client.post(url(with_usage, "act/"), {"step": "unsubscribe", "reason": "It ends."})
    assert (answer.status_code, answer["Location"]) == (303, "/federation/")
    assert not Subscription.objects.exists()


def test_the_speed_of_a_site_is_the_factor_of_the_metric(with_usage: Subscription, client: Client) -> None:
    page = read(client.get(url(with_usage)))
    assert page.item("speed").attributes["data-value"] == "1"
    assert re.findall(r"\d+", text_of(page.item("speed"))) == ["1"]
    assert page.values("href", "[data-testid=speed]") == ["/policy/grid/decay/"]


@pytest.mark.parametrize("tail", ["", "without/"])
def test_other_users_see_no_subscription(with_usage: Subscription, tail: str) -> None:
    stranger = sign_in(Client(), User.objects.create_user("stranger"))
    assert stranger.get(url(with_usage, tail)).status_code == 404
    assert stranger.get(NEW).status_code == 403
    assert stranger.post(url(with_usage, "act/"), {"step": "pause"}).status_code == 404
    with_usage.refresh_from_db()
    assert with_usage.state == "active"


def test_subscribing_needs_no_issuer_name(with_usage: Subscription, client: Client, settings: LazySettings) -> None:
    named = read(client.get(url(with_usage))).text("main")
    settings.FAIRSHARE_ISSUER = ""
    assert read(client.get(url(with_usage))).text("main") == named


def test_an_invalid_number_is_refused(with_usage: Subscription, client: Client) -> None:
    for text in ("", "nan", "inf", "1_0", "x" * 50, "-3"):
        given: dict[str, Any] = {"step": "capacity", "capacity": text, "reason": "try"}
        assert client.post(url(with_usage, "act/"), given).status_code == 422, text
    with_usage.refresh_from_db()
    assert with_usage.capacity_cores == 100


def test_the_fetch_log_says_what_became_of_each_report(with_usage: Subscription, client: Client) -> None:
    for n in range(9):
        with_usage.fetches.create(at=AT - n * HOUR, outcome="same", version=7, n_bytes=1_234, duration_s=0.25)
    with_usage.fetches.create(at=AT, outcome="refused", version=7, code="forked", message="It was forked.")
    page = read(client.get(url(with_usage)))
    assert len(page.items("fetch")) == 8
    assert f"{url(with_usage)}fetches/" in page.values("href")
    log = read(client.get(url(with_usage, "fetches/")))
    texts = [text_of(line) for line in log.items("fetch")]
    assert texts[0].startswith("Rejected It was forked.")
    assert texts[1].startswith("Report 7 is unchanged")
    assert texts[1].endswith("1 kB in 250 ms")
