"""Signing in by password and a code: both are required; setting it up, and attempts to bypass it."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import AuditEvent, User
from apps.accounts.sign_in.second_factor import add_second_factor, code_at, has_second_factor, n_codes_left
from apps.pages.sign_in.second_factor_views import draw_qr
from apps.pages.sign_in.session import AGE_S, begin, ticket_with
from tests.instants import AT
from tests.pages.grid import PASSWORD
from tests.pages.page import Page, read
from tests.sign_in import sign_in

SIGN_IN, STEP, OWN = "/sign-in/", "/sign-in/second-step/", "/me/second-factor/"
SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A clock that tests push on."""

    def set_to(at: datetime) -> datetime:
        monkeypatch.setenv("FAIRSHARE_CLOCK", at.isoformat())
        return at

    set_to(AT)
    return set_to


@pytest.fixture
def eva(db: None) -> User:
    return User.objects.create_user("eva", "", PASSWORD)


@pytest.fixture
def codes(eva: User) -> list[str]:
    return set_up(eva)


def set_up(user: User) -> list[str]:
    at = AT - timedelta(hours=1)
    return add_second_factor(
        user=user, secret=SECRET, code=code_at(SECRET, at), at=at, actor=Actor(user=user, via="page")
    )


def password(client: Client, name: str = "eva", **more: str) -> Any:
    return client.post(SIGN_IN, {"username": name, "password": PASSWORD, **more})


def is_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def ticket_of(page: str) -> str:
    found = re.search(r'name="ticket" value="([^"]+)"', page)
    assert found, page
    return found[1]


def secret_of(page: str) -> str:
    found = re.search(r'id="by-hand">([A-Z2-7 ]+)<', page)
    assert found, page
    return found[1].replace(" ", "")


def state_of(page: str) -> str | None:
    return Page(page).item("second-factor").attributes["data-state"]


def test_without_a_second_factor_the_password_signs_in(eva: User, client: Client) -> None:
    assert password(client).status_code == 302
    assert is_in(client)


@pytest.mark.usefixtures("codes")
def test_with_a_second_factor_the_password_alone_does_not_sign_in(client: Client) -> None:
    answer = password(client, next="/usage/sources/")
    assert (answer.status_code, answer.headers["Location"]) == (303, STEP)
    assert not is_in(client)
    assert client.get("/usage/sources/").status_code == 302
    page = client.get(STEP)
    assert page.headers["Cache-Control"].count("no-store")
    assert read(page).has('form [name="code"]')
    assert not read(page).has('[data-testid="second-factor-needed"]')
    assert "eva" not in read(page).text("body")  # in the markup are random tokens


@pytest.mark.usefixtures("codes")
def test_the_code_signs_in_with_a_new_session_and_redirects_to_the_requested_page(client: Client) -> None:
    password(client, next="/usage/sources/")
    before = client.session.session_key
    answer = client.post(STEP, {"code": code_at(SECRET, AT)})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/usage/sources/")
    assert is_in(client)
    assert client.session.session_key != before
    assert "second_step" not in client.session
    assert client.get("/usage/sources/").status_code == 200


def test_a_recovery_code_signs_in_once(client: Client, codes: list[str], eva: User) -> None:
    for status in (303, 422):
        client.logout()
        password(client)
        assert client.post(STEP, {"code": codes[4]}).status_code == status
    assert not is_in(client)
    assert n_codes_left(eva) == 9


@pytest.mark.usefixtures("codes")
def test_a_used_code_does_not_sign_in_again(client: Client) -> None:
    password(client)
    client.post(STEP, {"code": code_at(SECRET, AT)})
    thief = Client()
    password(thief)
    answer = thief.post(STEP, {"code": code_at(SECRET, AT)})
    assert read(answer, 422).has("#code-error")
    assert answer.context["form"].has_error("code", "wrong_code")
    assert not is_in(thief)


@pytest.mark.parametrize("next_", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
@pytest.mark.usefixtures("codes")
def test_the_redirect_after_the_code_stays_on_the_site(client: Client, next_: str) -> None:
    password(client, next=next_)
    assert client.post(STEP, {"code": code_at(SECRET, AT)}).headers["Location"] == "/start/"


def test_the_second_step_needs_the_first(client: Client, eva: User) -> None:
    for send in (client.get, client.post):
        answer = send(STEP)
        assert (answer.status_code, answer.headers["Location"]) == (303, SIGN_IN)


@pytest.mark.usefixtures("codes")
def test_the_password_step_is_valid_for_ten_minutes_and_until_the_password_changes(
    client: Client, eva: User, clock: Any
) -> None:
    password(client)
    late = clock(AT + timedelta(seconds=601))
    assert client.post(STEP, {"code": code_at(SECRET, late)}).headers["Location"] == SIGN_IN
    password(client)
    eva.set_password("another one")
    eva.save()
    assert client.post(STEP, {"code": code_at(SECRET, late)}).headers["Location"] == SIGN_IN
    assert not is_in(client)


@pytest.mark.usefixtures("codes")
def test_a_user_deactivated_between_the_steps_is_refused(client: Client, eva: User) -> None:
    password(client)
    User.objects.update(is_active=False)
    assert client.post(STEP, {"code": code_at(SECRET, AT)}).headers["Location"] == SIGN_IN
    assert not is_in(client)


@pytest.mark.usefixtures("codes")
def test_wrong_codes_count_like_wrong_passwords_for_name_and_address(client: Client, settings: Any) -> None:
    password(client)
    for _n in range(settings.AXES_FAILURE_LIMIT - 1):
        assert client.post(STEP, {"code": "000000"}).status_code == 422
    assert client.post(STEP, {"code": "000000"}).status_code == 429
    answer = client.post(STEP, {"code": code_at(SECRET, AT)})
    assert read(answer, 429).has('[data-testid="locked"]')
    assert not is_in(client)
    elsewhere = Client(REMOTE_ADDR="192.0.2.44")
    password(elsewhere)
    assert elsewhere.post(STEP, {"code": code_at(SECRET, AT)}).status_code == 303


@pytest.mark.usefixtures("codes")
def test_correct_passwords_do_not_reset_the_count_of_wrong_codes(settings: Any) -> None:
    for n in range(settings.AXES_FAILURE_LIMIT):
        client = Client()
        password(client)
        assert client.post(STEP, {"code": "000000"}).status_code == (
            429 if n == settings.AXES_FAILURE_LIMIT - 1 else 422
        )
    locked = Client()
    assert password(locked).status_code == 429
    assert not is_in(locked)


@pytest.mark.usefixtures("codes")
def test_wrong_codes_are_limited_to_twenty_an_hour_over_all_addresses(eva: User, clock: Any) -> None:
    for n in range(20):
        client = Client(REMOTE_ADDR=f"192.0.2.{n + 1}")
        password(client)
        assert client.post(STEP, {"code": "000000"}).status_code == 422
    client = Client(REMOTE_ADDR="192.0.2.99")
    password(client)
    answer = client.post(STEP, {"code": code_at(SECRET, AT)})
    assert not read(answer, 429).has('[data-testid="locked"]')
    assert answer.context["form"].has_error("code", "too_many_codes")
    assert AuditEvent.objects.filter(verb="user.second_factor_closed").count() == 1
    later = clock(AT + timedelta(hours=1))
    password(client)
    assert client.post(STEP, {"code": code_at(SECRET, later)}).status_code == 303


@pytest.mark.usefixtures("codes")
def test_the_administration_has_no_separate_sign_in(client: Client, eva: User) -> None:
    User.objects.update(is_staff=True, is_superuser=True)
    assert client.post("/admin/login/", {"username": "eva", "password": PASSWORD}).status_code == 405
    assert not is_in(client)
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0].startswith(SIGN_IN)
    password(client, next="/admin/")
    assert client.post(STEP, {"code": code_at(SECRET, AT)}).headers["Location"] == "/admin/"
    assert client.get("/admin/").status_code == 200


def test_a_user_without_staff_rights_is_refused_in_the_administration(client: Client, eva: User) -> None:
    sign_in(client, eva)
    answer: Any = client.get("/admin/", follow=True)
    assert (answer.status_code, answer.context["refusal"].code) == (404, "not_found")
    assert is_in(client)


@pytest.mark.usefixtures("codes")
def test_codes_and_secrets_are_in_no_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    password(client)
    client.post(STEP, {"code": "424242"})
    client.post(STEP, {"code": code_at(SECRET, AT)})
    assert "424242" not in caplog.text
    assert code_at(SECRET, AT) not in caplog.text
    assert SECRET not in str(list(AuditEvent.objects.values()))


def test_administrators_must_set_up_a_second_factor_if_the_site_requires_it(
    client: Client, settings: Any, eva: User
) -> None:
    settings.FAIRSHARE_MFA_FOR_ADMINS = True
    User.objects.update(is_superuser=True)
    assert password(client, next="/usage/sources/").headers["Location"] == STEP
    assert not is_in(client)
    page = client.get(STEP).content.decode()
    assert 'data-testid="second-factor-needed"' in page
    wrong = client.post(STEP, {"code": "000000", "ticket": ticket_of(page)})
    assert wrong.status_code == 422
    assert secret_of(wrong.content.decode()) == secret_of(page)
    assert not is_in(client)
    done = client.post(STEP, {"code": code_at(secret_of(page), AT), "ticket": ticket_of(page)})
    assert done.status_code == 200
    assert is_in(client)
    assert read(done).has("#codes")
    assert read(done).has('a[href="/usage/sources/"]')
    assert has_second_factor(eva)


def test_other_users_need_no_second_factor(client: Client, settings: Any, eva: User) -> None:
    settings.FAIRSHARE_MFA_FOR_ADMINS = True
    password(client)
    assert is_in(client)


@pytest.fixture
def signed_in(client: Client, eva: User) -> Client:
    sign_in(client, eva)
    return client


def test_setup_by_qr_code_shows_recovery_codes_once(signed_in: Client, eva: User) -> None:
    page = signed_in.get(OWN).content.decode()
    secret = secret_of(page)
    assert state_of(page) == "off"
    assert f'href="otpauth://totp/Fairshare%20local%3Aeva?secret={secret}&amp;issuer=Fairshare%20local"' in page
    assert draw_qr(f"otpauth://totp/Fairshare%20local%3Aeva?secret={secret}&issuer=Fairshare%20local").d in page
    assert not has_second_factor(eva)
    answer = signed_in.post(OWN, {"step": "set_up", "code": code_at(secret, AT), "ticket": ticket_of(page)})
    shown = re.findall(r"^(?:<pre[^>]*>)?(\d{4} \d{4})$", answer.content.decode(), re.MULTILINE)
    assert len(set(shown)) == 10
    again = signed_in.get(OWN).content.decode()
    assert state_of(again) == "on"
    assert Page(again).item("codes-left").attributes["data-value"] == "10"
    assert shown[0] not in again


def test_viewing_the_page_writes_nothing(signed_in: Client, django_assert_num_queries: Any) -> None:
    key = signed_in.session.session_key
    first, second = (secret_of(signed_in.get(OWN).content.decode()) for _ in range(2))
    assert first != second
    assert signed_in.session.session_key == key
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize("ticket", ["", "forged", "somebody else's", "too old"])
def test_a_secret_that_the_page_did_not_show_is_refused(
    signed_in: Client, eva: User, ticket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = User.objects.create_user("other")
    given = ticket_with(SECRET, other) if ticket == "somebody else's" else ticket
    if ticket == "too old":
        long_ago = time.time() - AGE_S - 60
        with monkeypatch.context() as patch:
            patch.setattr("django.core.signing.time.time", lambda: long_ago)
            given = ticket_with(SECRET, eva)
    answer = signed_in.post(OWN, {"step": "set_up", "code": code_at(SECRET, AT), "ticket": given})
    assert answer.status_code == 422
    assert not has_second_factor(eva)


def test_a_wrong_code_keeps_the_qr_code(signed_in: Client, eva: User) -> None:
    page = signed_in.get(OWN).content.decode()
    answer = signed_in.post(OWN, {"step": "set_up", "code": "000000", "ticket": ticket_of(page)})
    assert answer.status_code == 422
    assert secret_of(answer.content.decode()) == secret_of(page)
    assert answer.context["forms"]["set_up"].has_error("code", "wrong_code")
    assert read(answer, 422).has("#id_set_up_code_error")


def test_new_recovery_codes_and_removal_need_a_code(signed_in: Client, codes: list[str], eva: User) -> None:
    for step in ("codes", "remove"):
        for code in ("", "000000", "x" * 30):
            assert signed_in.post(OWN, {"step": step, "code": code}).status_code == 422
    assert n_codes_left(eva) == 10
    assert not read(signed_in.get(OWN)).has("#codes")
    assert read(signed_in.post(OWN, {"step": "codes", "code": codes[0]})).has("#codes")
    answer = signed_in.post(OWN, {"step": "remove", "code": code_at(SECRET, AT)})
    assert answer.headers["Location"] == OWN
    assert not has_second_factor(eva)


def test_externally_signed_in_users_have_nothing_to_set_up(signed_in: Client, eva: User) -> None:
    session = signed_in.session
    session["signed_in_by"] = "oidc"
    session.save()
    page = signed_in.get(OWN).content.decode()
    assert state_of(page) == "elsewhere"
    assert "otpauth" not in page
    answer = signed_in.post(OWN, {"step": "set_up", "code": code_at(SECRET, AT), "ticket": ticket_with(SECRET, eva)})
    assert answer.status_code == 403
    assert not has_second_factor(eva)


def test_an_unknown_step_changes_nothing(signed_in: Client, codes: list[str], eva: User) -> None:
    assert signed_in.post(OWN, {"step": "drop", "code": codes[0]}).status_code == 200
    assert has_second_factor(eva)
    assert n_codes_left(eva) == 10


def test_the_state_between_the_steps_is_not_a_sign_in(rf: Any, eva: User, client: Client) -> None:
    request = rf.post(SIGN_IN)
    request.session = client.session
    request.session["left"] = "by somebody else"
    begin(request, eva, "/")
    assert "left" not in request.session
    assert "_auth_user_id" not in request.session
    assert eva.password not in str(dict(request.session))
