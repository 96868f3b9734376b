"""What this site publishes to others: made, changed and dropped by administrators, its key shown and replaced."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.accounts.models import AuditEvent, User
from apps.federation.models import Publication, Reading, SiteKey, UsageFeed
from apps.federation.publishing import current_document, make_publication
from apps.federation.usage_feeds.feeds import make_feed
from apps.policies.models import Policy
from tests.federation.conftest import policy
from tests.instants import AT
from tests.pages.federation.test_mounts import codes_of
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in

__all__ = ["policy"]
PAGE = "/federation/published/"


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


@pytest.fixture
def client(policy: Policy) -> Client:
    return sign_in(Client(), User.objects.create_superuser("admin"))


def test_an_empty_page_offers_the_first_publication(client: Client) -> None:
    page = read(client.get(PAGE))
    assert page.item("published-headline").attributes["data-key"] == "nothing"
    assert page.has("[data-testid=no-key]")
    assert not page.has(".fp")
    assert not SiteKey.objects.exists(), "looking makes nothing"


def test_a_publication_is_created_changed_and_deleted(client: Client) -> None:
    given = {"policy": "grid", "entry": "/VO-A", "name": "vo-a", "expires": "2"}
    made = client.post(f"{PAGE}new/", given)
    assert (made.status_code, made["Location"]) == (303, f"{PAGE}subtrees/vo-a/")
    row = Publication.objects.get()
    assert (row.expires_after_s, row.is_open) == (2 * 86_400, False)
    client.post(made["Location"], {"name": "vo-a", "expires": "3.5", "is_open": "on"})
    row.refresh_from_db()
    assert (row.expires_after_s, row.is_open) == (302_400, True)
    assert client.post(f"{made['Location']}drop/", {"reason": "It ends."}).status_code == 303
    assert not Publication.objects.exists()
    assert AuditEvent.objects.filter(verb="federation.unpublished", reason="It ends.").exists()


def test_a_feed_is_created_changed_and_deleted(client: Client) -> None:
    given = {
        "policy": "grid",
        "entry": "/VO-A",
        "name": "north",
        "capacity": "64",
        "keeps": "30",
        "expires": "12",
        "sends_running": "on",
    }
    made = client.post(f"{PAGE}new-feed/", given)
    assert (made.status_code, made["Location"]) == (303, f"{PAGE}feeds/north/")
    row = UsageFeed.objects.get()
    assert (row.capacity_cores, row.keeps_days, row.expires_after_s, row.sends_running) == (64, 30, 43_200, True)
    client.post(made["Location"], {"name": "north", "capacity": "96.5", "keeps": "30", "expires": "12"})
    row.refresh_from_db()
    assert (row.capacity_cores, row.sends_running) == (96.5, False)
    assert client.post(f"{made['Location']}drop/").status_code == 303
    assert not UsageFeed.objects.exists()


@pytest.mark.parametrize(
    ("fields", "codes"),
    [
        ({"name": "VO A"}, {"name": {"invalid"}}),
        ({"entry": "/none"}, {"__all__": {"not_found"}}),
        ({"expires": "0"}, {"expires": {"min_value"}}),
        ({"expires": "nan"}, {"expires": {"invalid"}}),
        ({"name": "taken"}, {"name": {"name_taken"}}),
    ],
)
def test_invalid_fields_are_marked(client: Client, fields: dict[str, str], codes: Any) -> None:
    make_publication(policy_slug="grid", entry="/VO-B", name="taken", at=AT, actor=SYSTEM)
    given = {"policy": "grid", "entry": "/VO-A", "name": "vo-a", "expires": "2", **fields}
    answer = client.post(f"{PAGE}new/", given)
    assert answer.status_code == 422
    assert codes_of(answer) == codes
    if "__all__" in codes:
        assert all(value in read(answer, 422).text("[role=alert].note.bad") for value in fields.values())
    assert Publication.objects.count() == 1


def readers(page: Page) -> list[tuple[str, str | None]]:
    return [(text_of(each), each.attributes["data-value"]) for each in page.items("reader")]


def test_readers_are_listed_with_version_and_time(client: Client) -> None:
    row = make_publication(policy_slug="grid", entry="/VO-A", name="vo-a", at=AT, actor=SYSTEM)
    current_document(row, at=AT)
    Reading.objects.create(publication=row, reader="east", version=0, at=AT)
    feed = make_feed(policy_slug="grid", entry="/VO-A", name="north", capacity_cores=64, at=AT, actor=SYSTEM)
    Reading.objects.create(feed=feed, reader="west", version=0, at=AT)
    answer = client.get(PAGE)
    page = read(answer)
    assert page.item("published-headline").attributes["data-key"] == "both"
    assert (len(answer.context["publications"]), len(answer.context["feeds"])) == (1, 1)
    (east, first), (west, second) = readers(page)
    assert (first, second) == ("0", "0")
    for text, name in ((east, "east"), (west, "west")):
        assert text.startswith(name)
        assert "0 s" in text
        assert re.findall(r"\d+", text) == ["0", "0"], "the version, and how long ago"
    of_publication, of_feed = (text_of(each) for each in page.items("published-facts"))
    assert re.findall(r"\d+", of_feed) == ["64"]
    assert feed.sends_running
    assert re.match(r"\D*5\b", of_publication), "its entries"
    one = client.get(f"{PAGE}subtrees/vo-a/")
    assert [value for _text, value in readers(read(one))] == ["0"]
    assert text_of(read(one).one("#address")) == "http://testserver/api/v1/publications/vo-a"


def test_the_token_link_prefills_scope_and_limits(client: Client) -> None:
    make_publication(policy_slug="grid", entry="/VO-A", name="vo-a", at=AT, actor=SYSTEM)
    link = re.search(r'href="(/me/tokens/[^"#]+)#new"', client.get(PAGE).content.decode())
    assert link is not None
    form = client.get(link[1].replace("&amp;", "&")).content.decode()
    assert re.search(r'value="federation" checked', form)
    assert 'value="/VO-A"' in form
    assert re.search(r'<option value="grid" selected', form)


def test_the_key_has_sixteen_groups_and_is_replaced_with_a_reason(client: Client) -> None:
    current_document(make_publication(policy_slug="grid", entry="/VO-A", name="vo-a", at=AT, actor=SYSTEM), at=AT)
    first = SiteKey.objects.get()
    page = read(client.get(PAGE))
    assert page.texts(".fp span") == [first.fingerprint[at : at + 4] for at in range(0, 64, 4)]
    assert "vo-a.example" in page.text("#key")
    assert not page.has("[data-testid=no-key]")
    assert client.post(f"{PAGE}key/", {"reason": ""}).status_code == 422
    assert SiteKey.objects.count() == 1
    assert client.post(f"{PAGE}key/", {"reason": "A year is over."}).status_code == 303
    assert SiteKey.objects.count() == 2
    page = read(client.get(PAGE))
    keys = dict(zip(page.values("data-state", "[data-testid=key]"), page.texts("[data-testid=key]"), strict=True))
    assert first.fingerprint[:4] in keys["replaced"]
    assert first.fingerprint[:4] not in keys["active"]


def test_a_site_without_an_issuer_name_sees_how_to_set_one(client: Client, settings: Any) -> None:
    assert not read(client.get(PAGE)).has("[data-testid=no-name]")
    settings.FAIRSHARE_ISSUER = ""
    assert "FAIRSHARE_ISSUER" in text_of(read(client.get(PAGE)).item("no-name"))


@pytest.mark.parametrize("path", ["", "new/", "new-feed/", "key/", "subtrees/vo-a/", "feeds/vo-a/"])
def test_other_users_see_and_change_no_publication(policy: Policy, path: str) -> None:
    stranger = sign_in(Client(), User.objects.create_user("stranger"))
    given = {"policy": "grid", "entry": "/VO-A", "name": "vo-a", "expires": "2", "reason": "x"}
    answers: list[Any] = [stranger.get(f"{PAGE}{path}"), *([stranger.post(f"{PAGE}{path}", given)] if path else [])]
    for answer in answers:
        assert (answer.status_code, answer.context["refusal"].code) == (403, "not_allowed")
    assert not any(model.objects.exists() for model in (Publication, UsageFeed, SiteKey))


@pytest.mark.parametrize("path", ["subtrees/none/", "feeds/none/"])
def test_unknown_objects_are_not_found(client: Client, path: str) -> None:
    answers: list[Any] = [client.get(f"{PAGE}{path}"), client.post(f"{PAGE}{path}drop/", {"reason": "x"})]
    for answer in answers:
        assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found")
