"""A proxy names the user; no other sender is trusted."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import Token, User
from tests.pages.page import read
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
PROXY = "10.1.2.3"
EVA: dict[str, Any] = {
    "HTTP_REMOTE_USER": "eva",
    "HTTP_X_GROUPS": "physics; staff",
    "HTTP_X_NAME": "Eva Kling",
    "HTTP_X_MAIL": "e@x.org",
}


@pytest.fixture(autouse=True)
def _campus(settings: Any) -> None:
    settings.FAIRSHARE_TRUSTED_HEADER = "Remote-User"
    settings.FAIRSHARE_TRUSTED_HEADER_ADDRESSES = ["10.1.2.0/29", "2001:db8::5"]
    settings.FAIRSHARE_TRUSTED_HEADER_GROUPS = "X-Groups"
    settings.FAIRSHARE_TRUSTED_HEADER_NAME = "X-Name"
    settings.FAIRSHARE_TRUSTED_HEADER_EMAIL = "X-Mail"


def test_the_user_named_by_the_proxy_is_signed_in_with_groups() -> None:
    client = Client(REMOTE_ADDR=PROXY)
    assert client.get("/me/priority/", **EVA).status_code == 200
    user = User.objects.get()
    assert (user.username, user.first_name, user.last_name, user.email) == ("eva", "Eva", "Kling", "e@x.org")
    assert sorted(user.groups.values_list("name", flat=True)) == ["header:physics", "header:staff"]


@pytest.mark.parametrize("address", ["10.1.2.9", "192.0.2.1", "127.0.0.1", "", "not-an-address"])
def test_the_header_is_ignored_from_other_addresses(address: str) -> None:
    answer = Client(REMOTE_ADDR=address).get("/me/priority/", **EVA)
    assert (answer.status_code, User.objects.count()) == (302, 0)
    assert not [key for key in answer.wsgi_request.META if key in EVA]


@pytest.mark.parametrize("address", ["::ffff:10.1.2.3", "2001:db8::5"])
def test_proxies_are_recognised_by_ipv4_and_ipv6(address: str) -> None:
    client = Client(REMOTE_ADDR=address)
    assert client.get("/me/priority/", **EVA).status_code == 200
    assert client.session["_auth_user_id"] == str(User.objects.get(username="eva").pk)


def test_a_forged_forwarded_header_is_ignored() -> None:
    answer = Client(REMOTE_ADDR="192.0.2.1").get(
        "/me/priority/", HTTP_X_FORWARDED_FOR=PROXY, HTTP_FORWARDED=f"for={PROXY}", **EVA
    )
    assert (answer.status_code, User.objects.count()) == (302, 0)


def test_the_session_ends_when_the_proxy_names_another_user_or_none() -> None:
    client = Client(REMOTE_ADDR=PROXY)
    client.get("/me/priority/", HTTP_REMOTE_USER="eva")
    client.get("/me/priority/", HTTP_REMOTE_USER="dag")
    assert client.session["_auth_user_id"] == str(User.objects.get(username="dag").pk)
    assert client.get("/me/priority/").status_code == 302
    assert "_auth_user_id" not in client.session


def test_a_proxy_session_is_invalid_without_the_proxy() -> None:
    client = Client(REMOTE_ADDR=PROXY)
    client.get("/me/priority/", HTTP_REMOTE_USER="eva")
    assert client.session["_auth_user_id"] == str(User.objects.get(username="eva").pk)
    client.defaults["REMOTE_ADDR"] = "192.0.2.1"
    answer = client.get("/me/priority/", HTTP_REMOTE_USER="eva")
    assert (answer.status_code, answer["Location"]) == (302, "/sign-in/?next=/me/priority/")
    assert "_auth_user_id" not in client.session


def test_a_password_session_stays_signed_in() -> None:
    admin = User.objects.create_superuser("admin")
    client = Client(REMOTE_ADDR=PROXY)
    sign_in(client, admin)
    assert client.get("/me/priority/", HTTP_REMOTE_USER="eva").status_code == 200
    assert client.session["_auth_user_id"] == str(admin.pk)


def test_a_name_of_a_local_user_is_refused_on_pages_and_by_rest() -> None:
    User.objects.create_superuser("eva")
    client = Client(REMOTE_ADDR=PROXY)
    answer = client.get("/me/priority/", HTTP_REMOTE_USER="eva")
    assert (answer.status_code, answer.context["refusal"].code) == (403, "name_taken")
    assert client.get("/api/v1/policies", HTTP_REMOTE_USER="eva").status_code == 401


def test_non_ascii_names_are_decoded() -> None:
    sent = "Åsa Öberg".encode().decode("latin-1")
    Client(REMOTE_ADDR=PROXY).get("/", HTTP_REMOTE_USER="asa", HTTP_X_NAME=sent)
    assert str(User.objects.get()) == "Åsa Öberg"


def test_without_the_setting_the_header_is_ignored(settings: Any) -> None:
    settings.FAIRSHARE_TRUSTED_HEADER = ""
    answer = Client(REMOTE_ADDR=PROXY).get("/me/priority/", **EVA)
    assert (answer.status_code, User.objects.count()) == (302, 0)


def test_writes_still_need_a_csrf_token() -> None:
    strict = Client(enforce_csrf_checks=True, REMOTE_ADDR=PROXY)
    strict.get("/me/priority/", HTTP_REMOTE_USER="eva")
    given = {"name": "laptop", "scopes": ["self:read"], "days": "30"}
    answer: Any = strict.post("/me/tokens/", given, HTTP_REMOTE_USER="eva")
    assert (answer.status_code, answer.context["refusal"].code) == (403, "csrf")
    assert not Token.objects.exists()


def test_users_without_a_local_password_create_tokens_without_one() -> None:
    client = Client(REMOTE_ADDR=PROXY, HTTP_REMOTE_USER="eva")
    html = client.get("/me/tokens/").content.decode()
    assert 'name="password"' not in html
    ticket = re.search(r'name="ticket" value="([^"]+)"', html)
    assert ticket
    form = {"name": "laptop", "scopes": ["self:read"], "days": "90", "ticket": ticket[1]}
    assert client.post("/me/tokens/", form).status_code == 200
    assert Token.objects.get().user.username == "eva"


def test_signing_out_explains_that_the_proxy_signs_in_again(settings: Any) -> None:
    client = Client(REMOTE_ADDR=PROXY)
    client.get("/me/priority/", **EVA)
    page = read(client.post("/sign-out/", **EVA))
    assert "proxy" in page.text('[data-testid="sign-out-elsewhere"]')
    assert not page.has('a[href="https://sso.example.org/out"]')
    client.get("/me/priority/", **EVA)
    settings.FAIRSHARE_TRUSTED_HEADER_SIGN_OUT = "https://sso.example.org/out"
    assert read(client.post("/sign-out/", **EVA)).has('a[href="https://sso.example.org/out"]')
