"""Monthly statements by mail: to who asked, once a closed month, as the page shows them, and stopped by a link."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import mail
from django.test import Client

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.notices import digests
from apps.contrib.notices.mail_preferences import set_statement_mail
from apps.contrib.notices.models import Mail, Preference
from apps.contrib.notices.statements.month_close import close_months
from apps.contrib.notices.statements.selectors import get_statements
from apps.policies.models import Policy
from apps.policies.recompute_runs import queue_recompute
from apps.policies.tree.stored import load_tree
from apps.priorities.sentences.numbers import number
from apps.priorities.serving import store
from apps.runs.services import work_run_now
from tests.contrib.notices.sending import send_notices
from tests.grants import make_grant
from tests.instants import AT
from tests.mail_server import mail_server
from tests.sign_in import sign_in

DAY = timedelta(days=1)


@pytest.fixture
def people(hall: Policy, settings: Any) -> dict[str, User]:
    """pia manages /physics, alice runs jobs there, ben has no right to anything."""
    settings.FAIRSHARE_EMAIL, settings.FAIRSHARE_URL = "smtp", "https://fairshare.example.org"
    settings.FAIRSHARE_SITE, settings.DEFAULT_FROM_EMAIL = "abisko", "Fairshare <fairshare@example.org>"
    work_run_now(queue_recompute(hall, at=AT).pk)
    store.poll()
    made = {name: User.objects.create_user(name, f"{name}@example.org") for name in ("pia", "alice", "ben")}
    make_grant(
        made["pia"], uid(hall, "/physics"), "viewer", policy=hall, verbs=["view_aggregate", "view_members"], reason="r"
    )
    return made


def uid(policy: Policy, path: str) -> Any:
    tree = load_tree(policy)
    i = tree.index_of_path(path)
    assert i is not None
    return tree.uuid(i)


def want(user: User, *, wanted: bool = True, at: datetime = AT - 40 * DAY) -> None:
    set_statement_mail(wanted=wanted, at=at, actor=Actor(user, "page"))


def to(user: User) -> list[Any]:
    return [each for each in mail.outbox if each.to == [user.email]]


def test_subscribers_get_the_newest_closed_month_once(people: dict[str, User], hall: Policy) -> None:
    want(people["pia"])
    assert send_notices() == 0, "nothing is closed"
    close_months(at=AT)
    assert send_notices() == 1
    assert send_notices() == 0
    (sent,) = to(people["pia"])
    assert sent.subject == "[abisko] Statement for October 2026: Hall"
    page = get_statements(
        policy_slug="hall", uid=uid(hall, "/physics"), month="2026-10", actor=Actor(people["pia"], "page")
    )
    figures = page.chosen.figures
    assert figures is not None
    entitled, used = (number(core_s / 3600, 0) for core_s in (figures.entitled, figures.used))
    assert f"/physics\n  Entitled {entitled}, Used {used}, " in sent.body
    assert "/biology" not in sent.body
    link = re.search(r"https://fairshare.example.org(/policy/hall/n/\S+)", sent.body)
    assert link
    client = Client()
    sign_in(client, people["pia"])
    assert client.get(link[1]).status_code == 200
    assert to(people["alice"]) == []


def test_a_user_with_jobs_gets_the_own_entry(people: dict[str, User]) -> None:
    want(people["alice"])
    want(people["ben"])
    close_months(at=AT)
    assert send_notices() == 1
    assert "/physics/alice\n  Entitled " in to(people["alice"])[0].body
    assert to(people["ben"]) == [], "nothing is seen, so nothing is sent"


def test_months_closed_before_subscribing_are_not_sent(
    people: dict[str, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    close_months(at=AT)
    want(people["pia"], at=AT + DAY)
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + 2 * DAY).isoformat())
    assert send_notices() == 0


def test_the_page_turns_statements_on_and_off_and_stores_the_time(people: dict[str, User]) -> None:
    client = Client()
    sign_in(client, people["pia"])
    form = {"interval": "weekly", "hour": 8, "kinds": ["over_budget"]}
    for statements, since in (({"statements": "on"}, AT), ({"statements": "on"}, AT), ({}, None)):
        assert client.post("/notices/mail/", {**form, **statements}).status_code == 303
        assert Preference.objects.get(user=people["pia"]).statements_since == since
        assert ("checked" in str(client.get("/notices/mail/").content).split('name="statements"')[1][:60]) == bool(
            since
        )


def test_the_unsubscribe_link_stops_only_statements(people: dict[str, User]) -> None:
    want(people["pia"])
    close_months(at=AT)
    send_notices()
    link = (
        to(people["pia"])[0].extra_headers["List-Unsubscribe"].strip("<>").removeprefix("https://fairshare.example.org")
    )
    client = Client(enforce_csrf_checks=True)
    assert client.get(link).status_code == 200
    assert Preference.objects.get(user=people["pia"]).statements_since is not None
    assert client.post(link, {"List-Unsubscribe": "One-Click"}).status_code == 200
    chosen = Preference.objects.get(user=people["pia"])
    assert (chosen.statements_since, chosen.interval) == (None, "daily")


def test_a_user_who_unsubscribed_meanwhile_gets_none(people: dict[str, User]) -> None:
    want(people["pia"])
    close_months(at=AT)
    digests.plan_mails(at=AT)
    want(people["pia"], wanted=False)
    assert digests.send_mails(at=AT) == 0
    assert Mail.objects.get(user=people["pia"]).state == "empty"


def test_a_mail_outage_of_a_day_loses_and_repeats_no_statement(
    people: dict[str, User], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    want(people["pia"])
    close_months(at=AT)
    with mail_server() as server:
        settings.EMAIL_BACKEND, settings.EMAIL_TIMEOUT = "apps.core.mail_server.EmailBackend", 5
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", server.port, False
        server.stop()
        for hour in range(0, 60, 3):
            if hour == 24:
                server.start()
            monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(hours=hour)).isoformat())
            send_notices()
        assert [message["Subject"] for message in server.accepted] == ["[abisko] Statement for October 2026: Hall"]


def test_an_old_month_is_not_sent_after_its_row_was_deleted(
    people: dict[str, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    want(people["pia"])
    close_months(at=AT)
    send_notices()
    Mail.objects.all().delete()
    monkeypatch.setenv("FAIRSHARE_CLOCK", datetime(2027, 3, 1, tzinfo=UTC).isoformat())
    assert send_notices() == 0
