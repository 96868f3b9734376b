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
from tests.core.connect_proxy import PASSWORD, QUOTED
from tests.pages.page import read
from tests.pages.sign_in.issuer_process import CLIENT_ID, CLIENT_SECRET, EVA, run_issuer, write_person

pytestmark = pytest.mark.django_db


class Site:
    """The issuer's folder and address, and a browser of sorts."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address, self.client = folder, address, Client()

    def person(self, wrong: str = "", **claims: Any) -> None:
        write_person(self.folder, EVA | claims, wrong)

    def issue(self, **changes: Any) -> None:
        """Change the issuer's documents (`issuer.py`)."""
        write_person(self.folder, EVA | changes.pop("claims", {}), **changes)

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


LEGAL: dict[str, dict[str, Any]] = {
    "the issuer's clock is 2 s ahead": {"token": {"iat": "+2", "exp": "+2"}},
    "the issuer's clock is 4 minutes ahead": {"token": {"iat": "+240", "exp": "+240"}},
    "its only key has no kid, nor has the token": {"key": {"kid": None}, "header": {"kid": None}},
    "its only key has no kid, but the token has one": {"key": {"kid": None}},
    "another key has no kid": {"more_keys": [{"kty": "RSA", "use": "enc", "n": "AQAB", "e": "AQAB"}]},
    "another key can't be read": {"more_keys": [{"kty": "RSA", "kid": "1"}, "key", {"kty": "PQC"}, {}]},
    "keys have no alg": {"key": {"alg": None}},
    "keys on a curve have no alg": {"algorithm": "ES256", "key": {"alg": None}},
    "keys are on P-384": {"algorithm": "ES384"},
    "keys are Ed25519": {"algorithm": "EdDSA"},
    "it sends no at_hash and no azp": {"token": {"at_hash": None, "azp": None}},
    "it has one audience in a list, and no azp": {"token": {"aud": [CLIENT_ID], "azp": None}},
    "it takes the secret by Basic": {"config": {"token_endpoint_auth_methods_supported": ["client_secret_basic"]}},
    "it names no method, which means Basic": {"config": {"token_endpoint_auth_methods_supported": None}},
    "it publishes the next key beforehand": {"generation": 1, "published": [2, 1]},
    "keys have no use": {"key": {"use": None}},
    "it has no userinfo": {"config": {"userinfo_endpoint": None}, "token": EVA},
    "its userinfo is null": {"config": {"userinfo_endpoint": 5}, "token": EVA},
    "the audience is a list": {"token": {"aud": [CLIENT_ID, "another"], "azp": CLIENT_ID}},
    "its end of sessions is no address": {"config": {"end_session_endpoint": ["x"]}},
    "a name has half a character": {"claims": {"given_name": "Eva\ud800"}},
    "names are of other types": {"claims": {"given_name": ["Eva"], "family_name": {"a": 1}, "email": ["e@x.example"]}},
}


@pytest.mark.parametrize("changes", LEGAL.values(), ids=LEGAL.keys())
def test_each_legal_issuer_signs_in(site: Site, changes: dict[str, Any]) -> None:
    site.issue(**changes)
    assert site.sign_in().status_code == 303
    assert [user.username for user in User.objects.all()] == ["eva"]
    assert list(User.objects.get().groups.values_list("name", flat=True)) == ["oidc:physics"]
    assert site.client.post("/sign-out/").status_code == 200


BARE: dict[str, Any] = {"config": {"userinfo_endpoint": None}}
UNPROVEN: dict[str, tuple[dict[str, Any], str]] = {
    "the clock is 6 minutes ahead": ({"token": {"iat": "+360", "exp": "+360"}}, "not yet valid"),
    "a symmetric algorithm": ({"algorithm": "HS256"}, "'HS256'"),
    "a foreign azp": ({"token": {"aud": [CLIENT_ID, "another"], "azp": "another"}}, "'another'"),
    "several audiences without azp": ({"token": {"aud": [CLIENT_ID, "another"], "azp": None}}, "azp"),
    "the hash of another access token": ({"token": {"at_hash": "LDktKdoQak3Pk0cnXxCltA"}}, "at_hash"),
    "a hash that is a number": ({"token": {"at_hash": 1}}, "at_hash"),
    "the clock is 6 minutes behind": ({"token": {"iat": "-360", "exp": "-420"}}, "expired"),
    "a key that was withdrawn": ({"generation": 1, "published": [2, 3]}, "'1'"),
    "no expiry": ({"token": {"exp": None}}, "exp"),
    "an expiry that is no number": ({"token": {"exp": "soon"}}, "exp"),
    "a nonce that isn't ASCII": ({"token": {"nonce": "nönce"}}, "nonce"),
    "a nonce with half a character": ({"token": {"nonce": "\ud800"}}, "nonce"),
    "a nonce that is a number": ({"token": {"nonce": 12}}, "nonce"),
    "no nonce": ({"token": {"nonce": None}}, "nonce"),
    "a subject with NUL": ({"claims": {"sub": "1\x007"}}, "subject"),
    "a blank subject": ({"claims": {"sub": " "}}, "subject"),
    "a subject that is a number": ({"token": {"sub": 17}}, "Subject"),
    "no subject": ({"token": {"sub": None}}, "sub"),
    "an unknown kid": ({"header": {"kid": "9"}}, "'9'"),
    "a key of another kind": ({"key": {"use": "enc"}}, "no key"),
    "a kid that is a list": ({"key": {"kid": ["1"]}}, "no key"),
    "no ID token": (BARE | {"answer": {"access_token": "x", "token_type": "Bearer"}}, "no ID token"),
    "an ID token that is none": (BARE | {"answer": {"access_token": "x", "id_token": "x.y"}}, "can't be read"),
    "an answer that is a list": ({"answer": ["access_token"]}, "no object"),
    "an expiry of the answer in words": (BARE | {"answer": {"access_token": "x", "expires_in": "soon"}}, "no ID token"),
    "a userinfo that is a list": ({"userinfo": [1]}, "userinfo"),
    "a userinfo without subject": ({"userinfo": {"sub": None}}, "userinfo"),
}


@pytest.mark.parametrize(("changes", "reason"), UNPROVEN.values(), ids=UNPROVEN.keys())
def test_what_proves_nobody_is_refused_with_a_reason_in_the_log(
    site: Site, changes: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.issue(**changes)
    assert _refused(site.sign_in()) == (403, "sign_in_failed")
    assert reason in caplog.text
    assert not User.objects.exists()


@pytest.mark.parametrize(
    "claims",
    [
        {"preferred_username": ["eva"]},
        {"preferred_username": {"a": 1}},
        {"preferred_username": True},
        {"preferred_username": "e\x00va"},
        {"preferred_username": "e" * 151},
        {"sub": "1" * 2_000},
    ],
    ids=["list", "object", "bool", "NUL", "long", "long subject"],
)
def test_unusable_names_are_named(site: Site, claims: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    site.issue(claims=claims)
    answer = site.sign_in()
    assert answer.status_code == 422
    assert "user name" in answer.content.decode()
    assert "refused" in caplog.text
    assert not User.objects.exists()


def test_a_user_name_may_be_a_number(site: Site) -> None:
    site.issue(claims={"preferred_username": 12345})
    assert site.sign_in().status_code == 303
    assert User.objects.get().username == "12345"


@pytest.mark.parametrize(
    ("verified", "email"),
    [(True, "eva@example.org"), (False, ""), ("false", ""), ("true", ""), (1, ""), (None, "")],
)
def test_only_a_verified_address_is_stored(site: Site, verified: object, email: str) -> None:
    site.issue(claims={"email": "eva@example.org", "email_verified": verified})
    assert site.sign_in().status_code == 303
    assert User.objects.get().email == email


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        (["physics", None, 5, "", {"a": 1}], ["oidc:physics"]),
        ("physics staff", ["oidc:physics", "oidc:staff"]),
        ({"a": 1}, []),
        (5, []),
        (None, []),
    ],
    ids=["odd list", "text", "object", "number", "null"],
)
def test_groups_are_names_alone(site: Site, groups: object, names: list[str]) -> None:
    site.issue(claims={"groups": groups})
    assert site.sign_in().status_code == 303
    assert sorted(User.objects.get().groups.values_list("name", flat=True)) == names


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"issuer": "http://evil.example"}, "evil.example"),
        ({"issuer": None}, "None"),
        ({"token_endpoint": None}, "token_endpoint"),
        ({"authorization_endpoint": 5}, "authorization_endpoint"),
        ({"token_endpoint": "https://[idp.example"}, "token_endpoint"),
        ({"jwks_uri": "javascript:alert(1)"}, "jwks_uri"),
    ],
    ids=[
        "another issuer",
        "no issuer",
        "no token endpoint",
        "an endpoint that is a number",
        "a malformed endpoint",
        "keys without an address",
    ],
)
def test_only_a_discovery_document_of_our_issuer_is_followed(
    site: Site, config: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.issue(config=config)
    assert _refused(site.client.post("/sign-in/oidc/")) == (503, "oidc_down")
    assert reason in caplog.text
    site.issue()
    back = site.ask_issuer(site.start())
    site.issue(config=config)
    assert _refused(site.client.get(back)) == (403, "sign_in_failed")
    assert not User.objects.exists()


def test_a_slash_at_the_end_makes_no_other_issuer(site: Site, settings: Any) -> None:
    settings.FAIRSHARE_OIDC_ISSUER += "/"
    assert site.sign_in().status_code == 303


def test_an_issuer_that_went_down_meanwhile_is_reported(site: Site, settings: Any) -> None:
    back = site.ask_issuer(site.start())
    settings.FAIRSHARE_OIDC_ISSUER = "http://127.0.0.1:1"
    assert _refused(site.client.get(back)) == (403, "sign_in_failed")


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


def test_keys_may_be_rotated_at_any_time(site: Site) -> None:
    for generation, published in [(1, [1]), (2, [1, 2]), (2, [2]), (3, [3])]:
        site.issue(generation=generation, published=published)
        site.client = Client()
        assert site.sign_in().status_code == 303, (generation, published)
    assert User.objects.count() == 1


def test_the_issuer_is_asked_for_its_keys_once_for_each_code(site: Site) -> None:
    """Requests that it didn't answer with a token make no request for keys, however many come."""
    asked = site.folder / "asked"
    asked.unlink(missing_ok=True)
    site.issue(header={"kid": "unknown"})
    site.sign_in()
    assert asked.read_text().split().count("/keys") == 1
    asked.unlink()
    start = parse_qs(urlsplit(site.start()).query)
    for code, state in [("made-up", start["state"][0]), ("made-up", "made-up"), ("", "")]:
        assert site.client.get(f"/sign-in/oidc/site/callback/?code={code}&state={state}").status_code == 403
    assert "/keys" not in asked.read_text().split()
    assert not User.objects.exists()


def test_an_issuer_is_reached_through_the_proxy(site: Site, squid: Any, settings: Any) -> None:
    outside = squid.lead(urlsplit(site.address).port)
    names = {"issuer": "", "token_endpoint": "/token", "userinfo_endpoint": "/userinfo", "jwks_uri": "/keys"}
    site.issue(config={name: outside + path for name, path in names.items()}, token={"iss": outside})
    settings.FAIRSHARE_OIDC_ISSUER = outside
    assert site.sign_in().status_code == 303
    assert User.objects.filter(username="eva").exists()
    assert {line.rpartition(" ")[0] for line in squid.asked} == {"CONNECT slurm.example.org:443"}


def test_an_issuer_without_tls_is_asked_by_the_proxy_unless_it_is_listed(site: Site, squid: Any, settings: Any) -> None:
    place = urlsplit(site.address).netloc
    squid.leads[place] = urlsplit(site.address).port
    assert site.sign_in().status_code == 303
    assert f"GET {site.address}/.well-known/openid-configuration HTTP/1.1" in squid.asked
    squid.asked.clear()
    settings.FAIRSHARE_OUTBOUND_ALLOW = [place]
    site.client = Client()
    assert site.sign_in().status_code == 303
    assert squid.asked == []


def test_proxies_of_the_environment_are_not_used_for_the_issuer(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    site.start()


@pytest.mark.parametrize("fault", ["credentials", "away", "setting"])
def test_a_fault_of_the_proxy_at_sign_in_is_logged_without_its_password(
    site: Site, squid: Any, settings: Any, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    settings.FAIRSHARE_OUTBOUND_PROXY = {
        "credentials": squid.url.replace("fairshare:", "another:"),
        "away": squid.url.rpartition(":")[0] + ":9",
        "setting": squid.url + "/path",
    }[fault]
    answer = site.client.post("/sign-in/oidc/")
    assert answer.status_code == 503
    assert "proxy" in caplog.text.lower()
    assert not any(secret in caplog.text + answer.content.decode() for secret in (QUOTED, PASSWORD))
