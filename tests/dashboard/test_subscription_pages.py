"""Another site's usage: looked at, its key compared, and then how it stands, hour by hour."""

from __future__ import annotations

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
    assert "site-b told its usage of /vo-a-here 0 s ago" in said
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
    settings.FAIRSHARE_ISSUER = ""
    assert client.get(url(told)).status_code == 200


def test_a_number_that_is_none_is_refused(told: Subscription, client: Client) -> None:
    for text in ("", "nan", "inf", "1_0", "x" * 50, "-3"):
        given: dict[str, Any] = {"what": "capacity", "capacity": text, "reason": "try"}
        assert client.post(url(told, "act/"), given).status_code == 422, text
    told.refresh_from_db()
    assert told.capacity_cores == 100
