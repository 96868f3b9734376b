"""My tokens: made with the password, shown once, rotated, revoked, and only one's own."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts import services
from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent, Token, User
from apps.core import clock
from apps.core.errors import Unauthenticated
from tests.examples import first
from tests.pages.grid import PASSWORD as GRID_PASSWORD
from tests.pages.grid import SLUG, make_grid
from tests.pages.page import read
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db
PASSWORD = "a long pass phrase"
TOKENS = "/me/tokens/"


@pytest.fixture
def alice() -> User:
    return User.objects.create_user("alice", "alice@example.org", PASSWORD)


@pytest.fixture
def bob() -> User:
    return User.objects.create_user("bob")


@pytest.fixture
def as_alice(client: Client, alice: User) -> Client:
    sign_in(client, alice)
    return client


def make_token(user: User, *, name: str = "laptop", days: int = 90) -> tuple[Token, str]:
    actor = Actor(user=user, via="page")
    return services.make_token(
        services.NewToken(name=name, scopes=["self:read"], user=user, days=days), at=clock.now(), actor=actor
    )


def ticket_of(client: Client, url: str = TOKENS) -> str:
    found = re.search(r'name="ticket" value="([^"]+)"', client.get(url).content.decode())
    assert found
    return found[1]


def form(client: Client, **fields: object) -> dict[str, object]:
    given = {"name": "laptop", "scopes": ["self:read"], "days": "90", "password": PASSWORD}
    return given | {"ticket": ticket_of(client)} | fields


def shown_secret(html: str) -> str:
    found = re.search(r'<code id="secret">(fsh_\w+)</code>', html)
    assert found
    return found[1]


def test_a_token_is_shown_once_and_works(as_alice: Client, alice: User) -> None:
    response = as_alice.post(TOKENS, form(as_alice))
    assert response.status_code == 200
    secret = shown_secret(response.content.decode())
    user, bounds = services.verify_token(secret, at=clock.now())
    assert (user, bounds.scopes) == (alice, frozenset({"self:read"}))
    assert "no-store" in response["Cache-Control"]
    again = as_alice.get(TOKENS).content.decode()
    assert secret not in again
    assert f"…{secret[-4:]}" in again


def test_a_token_lasts_ninety_days_by_default(as_alice: Client) -> None:
    page = as_alice.get(TOKENS).content.decode()
    assert re.search(r'name="days" value="90"', page)
    as_alice.post(TOKENS, form(as_alice, days="365"))
    token = Token.objects.get()
    assert token.expires_at - token.created_at == timedelta(days=365)


@pytest.mark.parametrize(
    ("fields", "message"),
    first(
        5,
        [
            ({"password": "wrong"}, "Wrong password."),
            ({"password": ""}, "This field is required."),
            ({"days": "366"}, "less than or equal to 365"),
            ({"days": "0"}, "greater than or equal to 1"),
            ({"name": ""}, "This field is required."),
            ({"scopes": []}, "Choose at least one scope"),
            ({"scopes": ["admin"]}, "not one of the available choices"),
            ({"scopes": ["priorities:read"]}, "not one of the available choices"),
            ({"source": "nowhere"}, "not one of the available choices"),
            ({"entry": "/physics"}, "An entry belongs to a policy"),
            ({"ticket": "made-up"}, "This form was submitted before, or is too old"),
        ],
    ),
)
def test_an_invalid_form_creates_no_token_and_marks_the_field(
    as_alice: Client, fields: dict[str, object], message: str
) -> None:
    response = as_alice.post(TOKENS, form(as_alice, **fields))
    assert response.status_code == 422
    assert message in response.content.decode()
    assert not Token.objects.exists()


def test_an_invalid_form_keeps_its_input_but_not_the_password(as_alice: Client) -> None:
    page = as_alice.post(TOKENS, form(as_alice, name="grid node", password="a secret mistake")).content.decode()
    assert 'value="grid node"' in page
    assert re.search(r'value="self:read" checked', page)
    assert "a secret mistake" not in page


def test_resubmitting_the_form_creates_no_second_token(as_alice: Client) -> None:
    once = form(as_alice)
    as_alice.post(TOKENS, once)
    assert as_alice.post(TOKENS, once).status_code == 422
    assert Token.objects.count() == 1


def test_a_form_of_another_user_has_no_effect(as_alice: Client, bob: User) -> None:
    other = sign_in(Client(), bob)
    response = as_alice.post(TOKENS, form(as_alice, ticket=ticket_of(other)))
    assert response.status_code == 422
    assert not Token.objects.exists()


def test_administrators_grant_every_scope_and_others_only_their_own(as_alice: Client, alice: User) -> None:
    mine = as_alice.get(TOKENS).content.decode()
    assert set(re.findall(r'name="scopes" value="([^"]+)"', mine)) == {"self:read", "policies:read", "policies:write"}
    alice.is_superuser = True
    alice.save()
    every = as_alice.get(TOKENS).content.decode()
    assert set(re.findall(r'name="scopes" value="([^"]+)"', every)) == set(Token.Scope.values)


def test_rotating_gives_a_new_secret_and_the_old_one_works_for_a_day(as_alice: Client, alice: User) -> None:
    token, old = make_token(alice)
    assert not read(as_alice.get(TOKENS)).has('[data-testid="old-secret"]')
    url = reverse("pages:token-rotate", kwargs={"token_id": token.pk})
    response = as_alice.post(url, {"password": PASSWORD, "ticket": ticket_of(as_alice, url)})
    new = shown_secret(response.content.decode())
    assert new != old
    soon, late = clock.now() + timedelta(hours=23), clock.now() + timedelta(hours=25)
    for secret in (old, new):
        assert services.verify_token(secret, at=soon)[0] == alice
    assert services.verify_token(new, at=late)[0] == alice
    with pytest.raises(Unauthenticated):
        services.verify_token(old, at=late)
    assert read(as_alice.get(TOKENS)).has('[data-testid="old-secret"] time')


def test_reloading_after_a_rotation_does_not_rotate_again(as_alice: Client, alice: User) -> None:
    token, _old = make_token(alice)
    url = reverse("pages:token-rotate", kwargs={"token_id": token.pk})
    sent = {"password": PASSWORD, "ticket": ticket_of(as_alice, url)}
    new = shown_secret(as_alice.post(url, sent).content.decode())
    assert as_alice.post(url, sent).status_code == 422
    assert services.verify_token(new, at=clock.now())[0] == alice


def test_rotating_needs_the_password(as_alice: Client, alice: User) -> None:
    token, _old = make_token(alice)
    url = reverse("pages:token-rotate", kwargs={"token_id": token.pk})
    response = as_alice.post(url, {"password": "wrong", "ticket": ticket_of(as_alice, url)})
    assert response.status_code == 422
    token.refresh_from_db()
    assert token.previous_digest is None


def test_revoking_needs_a_confirmation(as_alice: Client, alice: User) -> None:
    token, secret = make_token(alice)
    url = reverse("pages:token-revoke", kwargs={"token_id": token.pk})
    asked = read(as_alice.get(url))
    assert "laptop" in asked.text('[data-testid="revoke"]')
    assert asked.has('main form[method="post"] [type="submit"]')
    assert services.verify_token(secret, at=clock.now())[0] == alice
    response = as_alice.post(url, follow=True)
    assert response.redirect_chain == [(TOKENS, 303)]
    assert "laptop" in read(response).text("#problem .success")
    assert read(response).item("token").attributes["data-state"] == "revoked"
    with pytest.raises(Unauthenticated):
        services.verify_token(secret, at=clock.now())
    assert AuditEvent.objects.filter(verb="token.revoked", actor_name="alice").count() == 1


@pytest.mark.parametrize("page", ["token-rotate", "token-revoke"])
@pytest.mark.parametrize("is_admin", [False, True])
def test_the_token_of_another_user_is_not_found(
    as_alice: Client, alice: User, bob: User, page: str, is_admin: bool
) -> None:
    alice.is_superuser = is_admin
    alice.save()
    token, secret = make_token(bob, name="bob’s laptop")
    others_page = reverse(f"pages:{page}", kwargs={"token_id": token.pk})
    none = reverse(f"pages:{page}", kwargs={"token_id": token.pk + 1000})
    for method in (as_alice.get, as_alice.post):
        first, second = method(others_page), method(none)
        assert first.status_code == second.status_code == 404
    assert services.verify_token(secret, at=clock.now())[0] == bob
    assert "bob’s laptop" not in as_alice.get(TOKENS).content.decode()


def test_without_sign_in_every_page_redirects_to_it(client: Client, alice: User) -> None:
    token, _secret = make_token(alice)
    for url in (TOKENS, f"{TOKENS}{token.pk}/rotate/", f"{TOKENS}{token.pk}/revoke/"):
        for response in (client.get(url), client.post(url)):
            assert response.status_code == 302
            assert response["Location"].startswith("/sign-in/")


def test_get_requests_write_nothing(as_alice: Client, alice: User) -> None:
    token, _secret = make_token(alice)
    with CaptureQueriesContext(connection) as seen:
        for url in (TOKENS, f"{TOKENS}{token.pk}/rotate/", f"{TOKENS}{token.pk}/revoke/"):
            assert as_alice.get(url).status_code == 200
    written = [query["sql"] for query in seen if re.match(r"\s*(INSERT|UPDATE|DELETE)", query["sql"])]
    assert written == []


def test_an_expired_token_cannot_be_rotated(as_alice: Client, alice: User) -> None:
    token, _secret = make_token(alice, days=1)
    Token.objects.filter(pk=token.pk).update(
        created_at=clock.now() - timedelta(days=3), expires_at=clock.now() - timedelta(days=2)
    )
    page = read(as_alice.get(TOKENS))
    assert page.item("token").attributes["data-state"] == "ended"
    assert f"/me/tokens/{token.pk}/rotate/" not in page.values("href")
    url = reverse("pages:token-rotate", kwargs={"token_id": token.pk})
    assert as_alice.post(url, {"password": PASSWORD, "ticket": ticket_of(as_alice, url)}).status_code == 409


def test_token_names_are_escaped(as_alice: Client) -> None:
    page = as_alice.post(TOKENS, form(as_alice, name="<script>alert(1)</script>")).content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_many_wrong_passwords_lock_the_form(as_alice: Client) -> None:
    for _attempt in range(settings.AXES_FAILURE_LIMIT):
        last = as_alice.post(TOKENS, form(as_alice, password="guess"))
    assert last.status_code == 429
    assert as_alice.post(TOKENS, form(as_alice)).status_code == 429
    assert not Token.objects.exists()


def test_a_token_can_be_bound_to_a_visible_entry(client: Client) -> None:
    grid = make_grid(clock.now(), with_usage=False)
    sign_in(client, grid.admin)
    bound = {"scopes": ["policies:read"], "policy": SLUG, "password": GRID_PASSWORD}
    missing = client.post(TOKENS, form(client, **bound, entry="/nothing"))
    assert list(missing.context["form"].errors) == ["entry"]
    assert "/nothing" in read(missing, 422).text("details[open] #id_entry_error")
    made = client.post(TOKENS, form(client, **bound, entry="atlas/alice/"))
    assert made.status_code == 200, made.content.decode()
    _user, bounds = services.verify_token(shown_secret(made.content.decode()), at=clock.now())
    assert (bounds.policy_slug, bounds.subtree_uid) == (SLUG, grid.uid("/atlas/alice"))
    whole = client.post(TOKENS, form(client, **bound))
    places = read(whole).texts('[data-testid="token-place"]')
    assert [SLUG in place for place in places] == [True, True]
    assert places[0] != places[1], "a part of the policy, and all of it"
