"""Sign-in by OpenID Connect against a real issuer on loopback: code, PKCE, nonce and a signed ID token."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from django.test import Client

from apps.accounts.models import Identity, Token, User
from tests.dashboard.page import read
from tests.dashboard.sign_in.issuer_process import CLIENT_ID, CLIENT_SECRET, EVA, run_issuer, write_person

pytestmark = pytest.mark.django_db


class Site:
    """The issuer's folder and address, and a browser of sorts."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address, self.client = folder, address, Client()

    def person(self, wrong: str = "", **claims: Any) -> None:
        write_person(self.folder, EVA | claims, wrong)

    def start(self, **fields: str) -> str:
        """The address to which the sign-in page leads."""
        answer = self.client.post("/sign-in/oidc/", fields)
        assert answer.status_code == 200, answer.content
        found = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', answer.content.decode())
        assert found
        return html.unescape(found[1])

    def ask_issuer(self, address: str) -> str:
        """Where the issuer sends the browser back to."""
        answer = requests.get(address, allow_redirects=False, timeout=5)
        assert answer.status_code == 302, answer.text
        parts = urlsplit(answer.headers["Location"])
        return f"{parts.path}?{parts.query}"

    def sign_in(self, **fields: str) -> Any:
        return self.client.get(self.ask_issuer(self.start(**fields)))


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    yield from run_issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture
def site(process: tuple[Path, str], settings: Any) -> Site:
    made = Site(*process)
    settings.FAIRSHARE_OIDC_ISSUER, settings.FAIRSHARE_OIDC_NAME = made.address, "SWAMID"
    settings.FAIRSHARE_OIDC_CLIENT_ID, settings.FAIRSHARE_OIDC_CLIENT_SECRET = CLIENT_ID, CLIENT_SECRET
    made.person()
    return made


def test_the_sign_in_page_offers_oidc_only_if_configured(site: Site, settings: Any) -> None:
    assert "SWAMID" in read(Client().get("/sign-in/")).text('form[action="/sign-in/oidc/"]')
    settings.FAIRSHARE_OIDC_ISSUER = ""
    assert not read(Client().get("/sign-in/")).has('form[action="/sign-in/oidc/"]')
    assert Client().post("/sign-in/oidc/").status_code == 404
    assert Client().get("/sign-in/oidc/site/callback/?code=1&state=2").status_code == 404


def test_a_user_returns_signed_in_with_their_groups(site: Site) -> None:
    answer = site.sign_in(next="/me/priority/")
    assert (answer.status_code, answer["Location"]) == (303, "/me/priority/")
    user = User.objects.get(username="eva")
    assert (str(user), user.is_superuser, user.has_usable_password()) == ("Eva Kling", False, False)
    assert list(user.groups.values_list("name", flat=True)) == ["oidc:physics"]
    assert Identity.objects.get(user=user).subject == f"{site.address} 17"
    assert site.client.get("/me/priority/").status_code == 200


def test_the_authorisation_request_has_pkce_state_and_nonce(site: Site) -> None:
    one, other = (parse_qs(urlsplit(site.start()).query) for _ in range(2))
    assert (one["response_type"], one["code_challenge_method"], one["client_id"]) == (["code"], ["S256"], [CLIENT_ID])
    for secret in ("state", "nonce", "code_challenge"):
        assert len(one[secret][0]) >= 16
        assert one[secret] != other[secret]


def test_groups_are_updated_at_the_next_sign_in(site: Site) -> None:
    site.sign_in()
    site.person(groups=["chemistry"])
    site.client = Client()
    site.sign_in()
    assert list(User.objects.get().groups.values_list("name", flat=True)) == ["oidc:chemistry"]


@pytest.mark.parametrize("wrong", ["signature", "nonce", "audience", "issuer", "expired", "sub", "cancelled"])
def test_an_invalid_token_does_not_sign_in(site: Site, wrong: str) -> None:
    site.person(wrong)
    answer = site.sign_in()
    assert (answer.status_code, answer.context["refusal"].code) == (403, "sign_in_failed")
    assert not User.objects.exists()
    assert "_auth_user_id" not in site.client.session


def test_a_response_is_valid_once_and_in_the_same_browser(site: Site) -> None:
    back = site.ask_issuer(site.start())
    other = Client()
    assert _refused(other.get(back)) == (403, "sign_in_failed")
    assert "_auth_user_id" not in other.session
    assert not User.objects.exists()
    assert site.client.get(back).status_code == 303
    assert site.client.session["_auth_user_id"] == str(User.objects.get().pk)
    assert _refused(site.client.get(back)) == (403, "sign_in_failed")
    made_up = "/sign-in/oidc/{}/callback/?code=made-up&state=made-up"
    assert _refused(site.client.get(made_up.format("site"))) == (403, "sign_in_failed")
    assert _refused(site.client.get(made_up.format("other"))) == (404, "not_found")


def _refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.context["refusal"].code


def test_a_local_account_of_the_same_name_is_not_overtaken(site: Site, settings: Any) -> None:
    known = User.objects.create_superuser("eva")
    answer = site.sign_in()
    assert (answer.status_code, answer.context["refusal"].code) == (403, "name_taken")
    settings.FAIRSHARE_LINK_BY_NAME = ["oidc"]
    assert site.sign_in().status_code == 303
    assert site.client.session["_auth_user_id"] == str(known.pk)


def test_sign_in_never_redirects_off_site(site: Site) -> None:
    assert site.sign_in(next="https://evil.example/")["Location"] == "/start/"


def test_an_unreachable_issuer_is_reported(site: Site, settings: Any) -> None:
    settings.FAIRSHARE_OIDC_ISSUER = "http://127.0.0.1:1"
    answer = site.client.post("/sign-in/oidc/")
    assert _refused(answer) == (503, "oidc_down")
    assert int(answer["Retry-After"]) > 0


def test_sign_in_starts_from_a_form_with_csrf_token(site: Site) -> None:
    strict = Client(enforce_csrf_checks=True)
    assert _refused(strict.post("/sign-in/oidc/")) == (403, "csrf")
    looked = strict.get("/sign-in/oidc/")
    assert (looked.status_code, looked["Allow"]) == (405, "POST")
    assert not strict.session.keys()


def test_tokens_need_a_recent_external_sign_in(site: Site) -> None:
    site.sign_in()
    page = site.client.get("/me/tokens/").content.decode()
    ticket = re.search(r'name="ticket" value="([^"]+)"', page)
    assert ticket
    form = {"name": "laptop", "scopes": ["self:read"], "days": "90", "ticket": ticket[1]}
    session = site.client.session
    signed_in_at = session["signed_in_at"]
    session["signed_in_at"] = signed_in_at - 601
    session.save()
    late = site.client.post("/me/tokens/", form)
    assert late.status_code == 422
    assert late.context["form"].has_error("__all__", "sign_in_again")
    assert read(late, 422).has('main form [role="alert"]')
    session["signed_in_at"] = signed_in_at - 500
    session.save()
    assert site.client.post("/me/tokens/", form).status_code == 200
    assert Token.objects.get().user.username == "eva"


def test_signing_out_redirects_to_the_issuer_and_back(site: Site) -> None:
    site.sign_in()
    answer = site.client.post("/sign-out/")
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', answer.content.decode())
    assert found
    address = urlsplit(html.unescape(found[1]))
    asked = parse_qs(address.query)
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{site.address}/end"
    assert asked["client_id"] == [CLIENT_ID]
    assert asked["post_logout_redirect_uri"] == ["http://testserver/sign-in/"]
    assert asked["id_token_hint"][0].count(".") == 2
    assert site.client.get("/me/priority/").status_code == 302


def test_signing_out_works_while_the_issuer_is_down_and_names_it(site: Site, settings: Any) -> None:
    site.sign_in()
    settings.FAIRSHARE_OIDC_ISSUER = "http://127.0.0.1:9"
    page = read(site.client.post("/sign-out/"))
    assert "SWAMID" in page.text('[data-testid="sign-out-elsewhere"]')
    assert site.client.get("/me/priority/").status_code == 302
