"""People change their own password, get a new one by mail, and see and end their sessions."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.core.management import CommandError, call_command
from django.test import Client

from apps.accounts.models import AuditEvent, Identity, PasswordReset, Session, User
from apps.accounts.sign_in.passwords import send_resets
from apps.accounts.tasks import clear_sessions
from apps.core import clock
from tests.pages.page import read

pytestmark = pytest.mark.django_db
OLD, NEW = "a long pass phrase", "another long pass phrase"
PAGE, ASK, END = "/me/password/", "/sign-in/reset/", "/me/password/sessions/"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture
def maria(db: None) -> User:
    return User.objects.create_user("maria", "maria@example.org", OLD)


def enter(password: str = OLD, **headers: Any) -> Client:
    client = Client(**headers)
    assert client.post("/sign-in/", {"username": "maria", "password": password}).status_code == 302
    return client


def change(client: Client, old: str = OLD, new: str = NEW) -> Any:
    return client.post(PAGE, {"old_password": old, "new_password1": new, "new_password2": new})


def verbs() -> list[str]:
    return list(AuditEvent.objects.filter(verb__startswith="user.").order_by("id").values_list("verb", flat=True))


def test_a_changed_password_ends_all_other_sessions_and_is_audited(maria: User) -> None:
    here, elsewhere = enter(), enter()
    assert change(here).status_code == 303
    assert here.get(PAGE).status_code == 200
    assert elsewhere.get(PAGE).status_code == 302
    assert [row.user_id for row in Session.objects.all() if row.user_id] == [maria.pk]
    assert verbs() == ["user.password_changed"]
    assert enter(NEW).get(PAGE).status_code == 200


def test_a_long_password_of_any_characters_counts_to_its_last_one(maria: User) -> None:
    long = "Ünïcode · 暗号 · 🔑 and spaces " * 4
    assert change(enter(), new=f"{long}!").status_code == 303
    assert Client().post("/sign-in/", {"username": "maria", "password": f"{long}?"}).status_code == 422
    assert enter(f"{long}!").get(PAGE).status_code == 200


def test_a_wrong_or_weak_password_changes_nothing_and_marks_the_field(maria: User) -> None:
    here = enter()
    assert read(change(here, old="wrong"), 422).has("#id_old_password_error")
    assert read(change(here, new="12345678"), 422).has("#id_new_password2_error")
    maria.refresh_from_db()
    assert maria.check_password(OLD)
    assert verbs() == []


def test_a_password_has_twelve_characters_at_least(maria: User) -> None:
    here = enter()
    assert read(change(here, new="Tz7#qL0!vXe"), 422).has("#id_new_password2_error")
    assert change(here, new="Tz7#qL0!vXe9").status_code == 303


def test_a_stolen_session_cannot_guess_the_password(maria: User) -> None:
    here = enter()
    answers = [change(here, old=f"wrong {n}") for n in range(9)]
    assert [answer.status_code for answer in answers][:7] == [422] * 7
    locked = change(here)
    assert (locked.status_code, locked["Retry-After"]) == (429, "900")
    maria.refresh_from_db()
    assert maria.check_password(OLD)


@pytest.mark.parametrize(("source", "where"), [("oidc", "SWAMID"), ("ldap", "directory"), ("header", "proxy")])
def test_a_user_without_a_local_password_sees_where_to_change_it(
    maria: User, settings: Any, client: Client, source: str, where: str
) -> None:
    settings.FAIRSHARE_OIDC_NAME = "SWAMID"
    maria.set_unusable_password()
    maria.save()
    Identity.objects.create(user=maria, source=source, subject="17", linked_at=clock.now())
    client.force_login(maria, backend="apps.accounts.sign_in.backends.ElsewhereBackend")
    page = read(client.get(PAGE))
    assert where in page.text('[data-testid="password-elsewhere"]')
    assert not page.has("#id_old_password")
    assert change(client).status_code == 422
    with pytest.raises(CommandError, match="signs in elsewhere"):
        call_command("set_password", "maria")


def test_users_see_and_end_only_their_own_sessions(maria: User) -> None:
    other = User.objects.create_user("ben", "ben@example.org", OLD)
    stranger = Client()
    stranger.force_login(other, backend="django.contrib.auth.backends.ModelBackend")
    here, elsewhere = enter(), enter(HTTP_USER_AGENT=FIREFOX, REMOTE_ADDR="192.0.2.7")
    page = read(here.get(PAGE))
    rows = page.texts('[data-testid="session"]')
    assert len(rows) == 2
    assert "this session" in rows[0]
    assert "Firefox on Linux" in rows[1]
    assert "192.0.2.7" in rows[1]
    name = re.findall(r'name="session" value="(\w+)"', here.get(PAGE).content.decode())
    assert len(name) == 1
    assert stranger.post(END, {"session": name[0]}).status_code == 404
    assert elsewhere.get(PAGE).status_code == 200
    assert here.post(END, {"session": name[0]}).status_code == 303
    assert elsewhere.get(PAGE).status_code == 302
    assert here.post(END, {"session": name[0]}).status_code == 404
    assert verbs() == ["user.sessions_ended"]


def test_all_other_sessions_end_at_once(maria: User) -> None:
    here, others = enter(), [enter(), enter()]
    assert here.post(END).status_code == 303
    assert [client.get(PAGE).status_code for client in others] == [302, 302]
    assert here.get(PAGE).status_code == 200
    assert AuditEvent.objects.get(verb="user.sessions_ended").details == {"n_sessions": 2}


def test_rows_of_ended_sessions_are_deleted(maria: User) -> None:
    here, ended = enter(), enter()
    Session.objects.filter(pk=ended.session.session_key).update(expire_date=clock.now() - timedelta(seconds=1))
    clear_sessions()
    assert [row.pk for row in Session.objects.all() if row.user_id] == [here.session.session_key]


def test_session_keys_are_on_no_page(maria: User) -> None:
    here = enter()
    enter()
    text = here.get(PAGE).content.decode()
    assert not [row.session_key for row in Session.objects.all() if row.session_key in text]


def test_an_operator_sets_a_password_and_all_sessions_end(maria: User, capsys: Any) -> None:
    here = enter()
    call_command("set_password", "maria")
    made = re.search(r"^password (\S+)$", capsys.readouterr().out, re.M)
    assert made
    assert here.get(PAGE).status_code == 302
    assert enter(made[1]).get(PAGE).status_code == 200
    assert verbs() == ["user.password_set"]
    with pytest.raises(CommandError, match="no user"):
        call_command("set_password", "nobody")


def test_a_locked_name_shows_the_duration_and_is_unlocked_by_an_operator(maria: User, capsys: Any) -> None:
    client = Client()
    for _ in range(8):
        answer = client.post("/sign-in/", {"username": "maria", "password": "wrong"})
    assert (answer.status_code, answer["Retry-After"]) == (429, "900")
    call_command("unlock", "maria")
    assert "may sign in again" in capsys.readouterr().out
    assert client.post("/sign-in/", {"username": "maria", "password": OLD}).status_code == 302
    assert verbs() == ["user.unlocked"]
    call_command("unlock", "maria")
    assert capsys.readouterr().out == "maria is not locked\n"
    with pytest.raises(CommandError, match="no user"):
        call_command("unlock", "nobody")


@pytest.fixture
def mails(settings: Any) -> None:
    """A site with a mail server."""
    settings.FAIRSHARE_EMAIL, settings.FAIRSHARE_URL = "smtp", "https://fairshare.example.org"


def link() -> str:
    found = re.search(r"https://fairshare\.example\.org(/sign-in/reset/\S+)", str(mail.outbox[-1].body))
    assert found
    return found[1]


def set_new(client: Client, path: str, password: str = NEW) -> Any:
    form = client.get(path)
    where = form["Location"] if form.status_code == 302 else path
    return client.post(where, {"new_password1": password, "new_password2": password})


def test_a_link_in_a_mail_sets_a_new_password_once(maria: User, mails: None) -> None:
    before, client = enter(), Client()
    assert read(client.post(ASK, {"email": "Maria@example.org"})).has('[data-testid="reset-asked"]')
    assert send_resets(at=clock.now()) == 1
    assert mail.outbox[-1].to == ["maria@example.org"]
    path = link()
    assert set_new(client, path).status_code == 303
    assert before.get(PAGE).status_code == 302
    assert enter(NEW).get(PAGE).status_code == 200
    assert verbs() == ["user.password_reset"]
    assert client.get(path).status_code == 404
    assert send_resets(at=clock.now()) == 0


def test_every_address_gets_the_same_answer_and_one_mail_in_ten_minutes(maria: User, mails: None) -> None:
    def answer_to(address: str) -> str:
        return re.sub("[A-Za-z0-9]{64}", "TOKEN", Client().post(ASK, {"email": address}).content.decode())

    assert answer_to("maria@example.org") == answer_to("nobody@example.org")
    answer_to("maria@example.org")
    assert PasswordReset.objects.count() == 1


def test_users_without_a_local_password_get_no_mail(maria: User, mails: None) -> None:
    maria.set_unusable_password()
    maria.save()
    Client().post(ASK, {"email": "maria@example.org"})
    assert send_resets(at=clock.now()) == 0
    assert mail.outbox == []


def test_a_mail_server_outage_loses_no_link(maria: User, mails: None, monkeypatch: pytest.MonkeyPatch) -> None:
    at = clock.now()
    Client().post(ASK, {"email": "maria@example.org"})
    with monkeypatch.context() as patch:
        patch.setattr(EmailBackend, "send_messages", lambda *_args: (_ for _ in ()).throw(OSError("down")))
        assert send_resets(at=at + timedelta(seconds=30)) == 0
    assert send_resets(at=at + timedelta(seconds=31)) == 0, "it waits before it tries again"
    assert send_resets(at=at + timedelta(minutes=2)) == 1


def test_without_a_mail_server_no_link_is_offered(maria: User, mails: None, settings: Any) -> None:
    assert read(Client().get("/sign-in/")).all("a[href='/sign-in/reset/']") != []
    settings.FAIRSHARE_EMAIL = "off"
    assert read(Client().get("/sign-in/")).all("a[href='/sign-in/reset/']") == []
    assert Client().get("/sign-in/reset/").status_code == 404


def test_without_mail_the_reset_page_does_not_exist(maria: User, settings: Any) -> None:
    settings.FAIRSHARE_EMAIL, settings.FAIRSHARE_URL = "off", "https://fairshare.example.org"
    assert Client().get(ASK).status_code == 404
    assert "Forgot" not in Client().get("/sign-in/").content.decode()
    settings.FAIRSHARE_EMAIL, settings.FAIRSHARE_URL = "smtp", ""
    assert Client().get(ASK).status_code == 404, "no link is made from a name that the request chose"
