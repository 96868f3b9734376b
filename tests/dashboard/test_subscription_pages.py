"""Another site's usage: looked at, its key compared, and then how it stands, hour by hour."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client

from apps.accounts.models import AuditEvent, User
from apps.federation.models import HeldHour, Subscription
from apps.runs.models import Run
from tests.dashboard.test_grid_pages import text_of
from tests.federation.conftest import AT, feed, mounted, policy, subscription, vo
from tests.federation.looks import look_at
from tests.federation.other_side import KEY, P1, P2, OtherFeed

__all__ = ["feed", "mounted", "policy", "subscription", "vo"]
NEW = "/federation/usage/new/"
HOUR = timedelta(hours=1)


@pytest.fixture
def client(db: None) -> Client:
    found = Client()
    found.force_login(User.objects.create_superuser("admin"))
    return found


def address(feed: OtherFeed, **more: str) -> dict[str, str]:
    return {"step": "look", "entry": "grid:/vo-a-here", "url": feed.url, "token": "their-secret", **more}


def terms(feed: OtherFeed, **more: str) -> dict[str, str]:
    fingerprint = " ".join(KEY.public.fingerprint[at : at + 4] for at in range(0, 64, 4)).upper()
    given = {"fingerprint": fingerprint, "capacity": "100", "every": "5", "max_age": "6", "stale_action": "local",
             "reason": "Agreed by telephone."}  # fmt: skip
    return {**address(feed), "step": "terms", **given, **more}


def test_what_is_told_there_is_shown_before_anything_is_trusted(client: Client, feed: OtherFeed) -> None:
    feed.tell({AT - HOUR: {P1: 3_600}, AT - 2 * HOUR: {}}, [(P2, AT - HOUR, 8)])
    assert "/vo-a-here, of vo-a.example" in text_of(client.get(NEW))
    answer = client.post(NEW, address(feed))
    said = text_of(answer)
    assert "Is this really site-b.example?" in said
    for words in ("Declared capacity 100 cores", "Hours told 2", "Running jobs 1", "Number 1"):
        assert words in said, words
    assert "".join(f"<span>{KEY.public.fingerprint[at : at + 4]}</span>" for at in range(0, 64, 4)) in (
        answer.content.decode()
    )
    assert feed.asked[-1]["authorization"] == "Bearer their-secret"
    assert "no-store" in answer["Cache-Control"]
    assert not Subscription.objects.exists()


def test_with_the_same_key_it_is_taken_by_the_agreed_terms(client: Client, feed: OtherFeed) -> None:
    feed.tell({AT - HOUR: {P1: 3_600}})
    answer = client.post(NEW, terms(feed, capacity="80"))
    row = Subscription.objects.get()
    assert (answer.status_code, answer["Location"]) == (303, f"/federation/usage/{row.pk}/")
    assert (row.capacity_cores, row.every_s, row.max_age_s, row.stale_action) == (80, 300, 21_600, "local")
    assert row.fingerprint == KEY.public.fingerprint
    assert "their-secret" not in row.sealed_token
    assert AuditEvent.objects.get(verb="federation.subscribed").reason == "Agreed by telephone."


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"fingerprint": "0" * 64}, "They differ."),
        ({"fingerprint": "abc"}, "64 hexadecimal digits"),
        ({"capacity": "-1"}, "greater than or equal to"),
        ({"reason": ""}, "This field is required"),
        ({"stale_action": "burn"}, "not one of the available choices"),
    ],
)
def test_wrong_terms_keep_nothing(
    client: Client, feed: OtherFeed, fields: dict[str, str], said: str
) -> None:  # fmt: skip
    feed.tell({AT - HOUR: {P1: 3_600}})
    answer = client.post(NEW, terms(feed, **fields))
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert not Subscription.objects.exists()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": "http://169.254.169.254/latest/meta-data"}, "169.254.169.254"),
        ({"url": "gopher://x"}, "http"),
        ({"entry": "grid:/VO-B"}, "Select a valid choice"),
        ({"url": ""}, "This field is required"),
    ],
)
def test_wrong_addresses_are_refused_in_words(
    client: Client, feed: OtherFeed, fields: dict[str, str], said: str
) -> None:  # fmt: skip
    answer = client.post(NEW, address(feed, **fields))
    assert answer.status_code == 422
    assert said in answer.content.decode()


@pytest.fixture
def told(subscription: Subscription, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch) -> Subscription:
    """An hour that counts, one that is more than 100 cores can run, and a job on 8 cores."""
    feed.tell(
        {AT - HOUR: {P1: 36_000}, AT - 2 * HOUR: {P1: 720_000}}, [(P2, AT - HOUR, 8)], capacity_cores=250.0
    )  # fmt: skip
    look_at(subscription, monkeypatch, AT)
    return subscription


def url(row: Subscription, tail: str = "") -> str:
    return f"/federation/usage/{row.pk}/{tail}"


def test_hours_are_told_against_what_is_possible(told: Subscription, client: Client) -> None:
    said = text_of(client.get(url(told)))
    assert "site-b told its usage of /vo-a-here 0 s ago, and some of it is held" in said
    assert "It declares 250 cores now; 100 cores are agreed, and more isn’t believed." in said
    assert "With 200 cores none would be held." in said
    assert "11:00 10 100 counts" in said
    assert "10:00 200 100 held" in said
    assert "1 jobs on 8 cores" in said


def test_a_larger_capacity_is_agreed_to_and_read_anew(
    told: Subscription, client: Client, feed: OtherFeed, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    assert client.post(url(told, "act/"), {"what": "capacity", "capacity": "250"}).status_code == 422
    client.post(url(told, "act/"), {"what": "capacity", "capacity": "250", "reason": "They bought a rack."})
    told.refresh_from_db()
    assert (told.capacity_cores, told.number) == (250, 0)
    look_at(told, monkeypatch, AT + timedelta(minutes=1))
    assert not HeldHour.objects.exists()
    said = text_of(client.get(url(told)))
    assert "10:00 200 250 counts" in said
    assert "Agree to a capacity" not in said


QUIET = {"told_capacity_cores": None}  # and no held hours
CONDITIONS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "held", "told its usage of /vo-a-here 0 s ago, and some of it is held What is more than it has doesn’t count"),
    (
        {"told_capacity_cores": 250.0, "number": 9}, "held",
        "0 s ago, and declares more cores than are agreed All of it counts so far; agree to them if you know that it "
        "has them. It declares 250 cores now; 100 cores are agreed, and more isn’t believed.",
    ),
    (
        {**QUIET, "running_held": True}, "held",
        "some of it is held What is more than it has doesn’t count, and the rest does. Agree to more cores if it has "
        "them, or ask it to correct what it told. What runs there now is more than 100 cores",
    ),
    (QUIET, "fresh", "site-b told its usage of /vo-a-here 0 s ago"),
    (
        {**QUIET, "n_failed": 2, "stale_action": "local"}, "late",
        "0 s ago, and is late The last 2 looks failed. After 24 h without a good one: The entry is compared by this",
    ),
    ({**QUIET, "good_at": AT - 2 * HOUR}, "late", "usage of /vo-a-here 2 h ago, and is late It wasn’t looked at"),
    ({**QUIET, "good_at": None, "n_failed": 1}, "late", "hasn’t been heard yet, and is late The last look failed."),
    ({**QUIET, "good_at": None}, "first look to come", "hasn’t been heard yet The first look is due"),
    (
        {"good_at": AT - 30 * HOUR}, "stale",
        "site-b hasn’t been heard for 30 h What was told before goes on counting, and ages.",
    ),
    (
        {"good_at": AT - 30 * HOUR, "state": "frozen"}, "stale",
        "goes on counting, and ages. It is frozen, too: nothing new counts until somebody thaws it.",
    ),
    (
        {"good_at": AT - 30 * HOUR, "state": "frozen", "stale_action": "freeze"}, "stale",
        "hasn’t been heard for 30 h Nothing new counts until somebody has looked and thaws it. It declares",
    ),
    (
        {"good_at": None, "made_at": AT - 30 * HOUR}, "stale",
        "site-b hasn’t been heard yet What was told before goes on counting",
    ),
    (
        {"expires_at": AT - HOUR}, "expired",
        "What site-b told of /vo-a-here has expired It was good until 11:00, and nothing newer came. It still counts.",
    ),
    (
        {"expires_at": AT - HOUR, "good_at": AT - 30 * HOUR, "stale_action": "local"}, "expired",
        "nothing newer came. The entry is compared by this site’s usage alone until it is heard again.",
    ),
    ({"state": "frozen"}, "frozen", "Usage of site-b is frozen It is asked and looked at; nothing new counts until"),
    ({"state": "paused", "good_at": AT - 30 * HOUR}, "paused", "Usage of site-b is paused It isn’t asked until"),
    ({"state": "blocked", "expires_at": AT}, "blocked", "site-b is blocked: somebody has to look Its key or its line"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "word", "said"), CONDITIONS)
def test_how_it_stands_is_told_in_plain_words_and_the_same_everywhere(
    told: Subscription, client: Client, fields: dict[str, Any], word: str, said: str
) -> None:
    if fields.get("number") == 9 or "told_capacity_cores" in fields:
        HeldHour.objects.all().delete()
    Subscription.objects.update(**fields)
    shown = text_of(client.get(url(told)))
    assert said in shown
    assert f"State {word} Number" in shown
    assert re.search(rf"site-b.example vo-a {word} we take usage /vo-a-here", text_of(client.get("/federation/")))
    grid = text_of(client.get("/federation/grid/?policy=grid&entry=/vo-a-here"))
    assert re.search(rf"site-b site-b.example {word} ", grid)
    peers = client.get("/api/v1/federation/peers").json()["results"]
    (condition,) = (one["condition"] for one in peers if one["direction"] == "usage")
    sites = client.get("/api/v1/federation/grid?policy=grid&entry=/vo-a-here").json()["sites"]
    assert [one["state"] for one in sites] == ["here", condition]
    assert condition == ("new" if word == "first look to come" else word)


@pytest.mark.parametrize(
    ("deeds", "state", "said"),
    [
        (["pause"], "paused", "is paused"),
        (["pause", "resume"], "active", "told its usage"),
        (["freeze"], "frozen", "is frozen"),
        (["freeze", "thaw"], "active", "told its usage"),
    ],
)
def test_it_is_paused_frozen_and_brought_back(
    told: Subscription, client: Client, deeds: list[str], state: str, said: str
) -> None:
    for what in deeds:
        assert client.post(url(told, "act/"), {"what": what, "reason": "try"}).status_code == 303
    told.refresh_from_db()
    assert told.state == state
    assert said in text_of(client.get(url(told)))


def test_it_is_asked_now(told: Subscription, client: Client) -> None:
    before = Run.objects.count()
    assert client.post(url(told, "act/"), {"what": "fetch"}).status_code == 303
    assert Run.objects.count() == before + 1


def test_a_deed_that_is_not_possible_says_why(told: Subscription, client: Client) -> None:
    Subscription.objects.update(state="paused")
    answer = client.post(url(told, "act/"), {"what": "fetch"})
    assert answer.status_code == 409
    assert "It is paused: resume it first." in answer.content.decode()


def test_settings_are_kept_and_wrong_ones_marked(told: Subscription, client: Client) -> None:
    given = {"what": "settings", "every": "15", "max_age": "2", "stale_action": "freeze", "reason": "less often"}
    assert client.post(url(told, "act/"), given).status_code == 303
    told.refresh_from_db()
    assert (told.every_s, told.max_age_s, told.stale_action) == (900, 7_200, "freeze")
    answer = client.post(url(told, "act/"), {**given, "every": "0"})
    assert answer.status_code == 422
    assert "greater than or equal to" in answer.content.decode()


def test_another_key_is_trusted_with_a_reason(told: Subscription, client: Client) -> None:
    Subscription.objects.update(state="blocked", error_code="unknown_key", error="Signed with another key.")
    said = text_of(client.get(url(told)))
    assert "is blocked: somebody has to look" in said
    assert "The last look failed. Signed with another key." in said
    assert client.post(url(told, "act/"), {"what": "key", "fingerprint": "f" * 64}).status_code == 422
    client.post(url(told, "act/"), {"what": "key", "fingerprint": "f" * 64, "reason": "Called them."})
    told.refresh_from_db()
    assert (told.fingerprint, told.state) == ("f" * 64, "active")


def test_unsubscribing_takes_all_of_it_away(told: Subscription, client: Client) -> None:
    answer = client.post(url(told, "act/"), {"what": "unsubscribe", "reason": "It ends."})
    assert (answer.status_code, answer["Location"]) == (303, "/federation/")
    assert not Subscription.objects.exists()


def test_the_speed_is_the_metrics_factor_of_that_site(told: Subscription, client: Client) -> None:
    assert "× 1 how usage counts" in text_of(client.get(url(told)))


@pytest.mark.parametrize("tail", ["", "without/"])
def test_for_others_there_is_none(told: Subscription, tail: str) -> None:
    stranger = Client()
    stranger.force_login(User.objects.create_user("stranger"))
    assert stranger.get(url(told, tail)).status_code == 404
    assert stranger.get(NEW).status_code == 403
    assert stranger.post(url(told, "act/"), {"what": "pause"}).status_code == 404
    told.refresh_from_db()
    assert told.state == "active"


def test_the_sites_name_is_needed_for_nothing_here(
    told: Subscription, client: Client, settings: LazySettings
) -> None:  # fmt: skip
    named = text_of(client.get(url(told)))
    settings.FAIRSHARE_ISSUER = ""
    assert text_of(client.get(url(told))) == named


def test_a_number_that_is_none_is_refused(told: Subscription, client: Client) -> None:
    for text in ("", "nan", "inf", "1_0", "x" * 50, "-3"):
        given: dict[str, Any] = {"what": "capacity", "capacity": text, "reason": "try"}
        assert client.post(url(told, "act/"), given).status_code == 422, text
    told.refresh_from_db()
    assert told.capacity_cores == 100
