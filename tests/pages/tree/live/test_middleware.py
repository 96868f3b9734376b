"""Unchanged live pages cost one query, and an invalid session, password or account gets no answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import Session, User
from apps.accounts.sign_in.sessions import SessionStore
from tests.pages.grid import SLUG, Grid
from tests.sign_in import sign_in

LIVE = f"/policy/{SLUG}/live"
ABOUT_WHO = ("accounts_session", "accounts_user", "analytics_series")


@pytest.fixture
def tag(open_grid: Grid, client: Client, db: None) -> str:
    """Of a page that has asked before, so that its session is known."""
    sign_in(client, open_grid.admin)
    return str(client.get(LIVE)["ETag"])


def ask(client: Client, tag: str) -> int:
    return client.get(LIVE, headers={"If-None-Match": tag}).status_code


def test_without_a_change_session_user_and_state_take_one_query(client: Client, tag: str) -> None:
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(LIVE, headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content, answer["ETag"]) == (304, b"", tag)
    about_who = [one["sql"] for one in queries if "live_page" in one["sql"] or any(t in one["sql"] for t in ABOUT_WHO)]
    asked = [sql for sql in about_who if not sql.startswith("PREPARE")]  # which is done once a connection
    assert len(asked) == 1, about_who


@pytest.mark.django_db(transaction=True)
def test_a_lost_prepared_statement_is_prepared_again(grid: Grid, client: Client) -> None:
    sign_in(client, grid.admin)
    tag = str(client.get(LIVE)["ETag"])
    for _ in range(3):
        assert ask(client, tag) == 304
        with connection.cursor() as cursor:
            cursor.execute("DEALLOCATE ALL")


def test_the_fast_path_sends_the_headers_of_the_view(open_grid: Grid, client: Client, tag: str) -> None:
    fresh = sign_in(Client(), open_grid.admin)
    by_view, by_itself = (dict(one.get(LIVE, headers={"If-None-Match": tag}).items()) for one in (fresh, client))
    assert set(by_view.pop("Vary").split(", ")) == set(by_itself.pop("Vary").split(", "))
    for answer in (by_view, by_itself):
        for name in ("X-Request-Id", "X-Frame-Options", "Content-Length"):  # of this request, or of a document
            answer.pop(name, None)
    assert by_view == by_itself


def test_an_old_etag_gets_the_changes(client: Client, tag: str) -> None:
    assert ask(client, '"old"') == 200
    assert ask(client, tag) == 304


def end_session(_admin: User) -> None:
    Session.objects.all().delete()


def let_session_expire(_admin: User) -> None:
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))


def change_password(admin: User) -> None:
    admin.set_password("another one, and long")
    admin.save()


def deactivate(admin: User) -> None:
    User.objects.filter(pk=admin.pk).update(is_active=False)


def delete_person(admin: User) -> None:
    User.objects.filter(pk=admin.pk).delete()


def sign_in_by_a_way_that_is_gone(_admin: User) -> None:
    _rewrite({BACKEND_SESSION_KEY: "apps.accounts.sign_in.backends.FormerBackend"})


@pytest.mark.parametrize(
    "end",
    [end_session, let_session_expire, change_password, deactivate, delete_person, sign_in_by_a_way_that_is_gone],
)
def test_a_signed_out_user_is_refused_at_once(
    open_grid: Grid, client: Client, tag: str, end: Callable[[User], None]
) -> None:
    assert ask(client, tag) == 304
    end(open_grid.admin)
    assert ask(client, tag) == 302


def test_a_session_of_another_user_is_read_as_that_user(client: Client, tag: str, db: None) -> None:
    other = User.objects.create_user("mallory", is_active=False)
    _rewrite({SESSION_KEY: str(other.pk), HASH_SESSION_KEY: other.get_session_auth_hash()})
    assert ask(client, tag) == 302


def test_with_proxy_sign_in_each_request_reaches_the_view(client: Client, tag: str) -> None:
    with override_settings(FAIRSHARE_TRUSTED_HEADER="Remote-User"), CaptureQueriesContext(connection) as queries:
        ask(client, tag)
    assert len([one for one in queries if any(table in one["sql"] for table in ABOUT_WHO)]) > 1


def _rewrite(found: dict[str, str]) -> None:
    row = Session.objects.get()
    store = SessionStore()
    row.session_data = store.encode(store.decode(row.session_data) | found)
    row.save()
