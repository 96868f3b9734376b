"""Mail: one message a person and period, whatever dies in between; nothing in it that no page shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from email import message_from_string
from smtplib import SMTPRecipientsRefused, SMTPServerDisconnected
from typing import Any

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.core.mail.backends.locmem import EmailBackend
from django.test import Client
from django.urls import resolve

from apps.accounts.actor import SYSTEM, Actor, TokenBounds
from apps.accounts.models import User
from apps.contrib.notices import digests, mail_preferences, selectors
from apps.contrib.notices.digests import plan_mails, send_mails
from apps.contrib.notices.evaluation import evaluate
from apps.contrib.notices.mail_preferences import set_preference
from apps.contrib.notices.models import Mail, Notice, Preference
from apps.core.errors import Invalid, NotAllowed
from apps.core.mail_server import UNDER_WAY
from apps.policies.models import Grant
from tests.contrib.notices.notices_site import give_core_hours
from tests.examples import first
from tests.instants import AT
from tests.refusals import refused
from tests.sign_in import sign_in
from tests.small_site import Site

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def deliver(at: Any) -> int:
    plan_mails(at=at)
    return send_mails(at=at)


def to(name: str) -> list[Any]:
    return [each for each in mail.outbox if each.to == [f"{name}@example.org"]]


def test_a_digest_is_sent_once_a_day_and_only_with_news(notified: Site) -> None:
    assert deliver(AT) == 2
    assert deliver(AT) == 0
    assert deliver(AT + HOUR) == 0
    assert [len(to(name)) for name in ("admin", "pia", "ben")] == [1, 1, 0]
    assert "Cluster A" in to("admin")[0].body
    assert "Cluster A" not in to("pia")[0].body


def test_a_digest_waits_for_its_hour(notified: Site) -> None:
    set_preference(interval="daily", hour=15, muted=[], actor=Actor(notified.pia, "page"))
    deliver(AT)
    assert to("pia") == []
    deliver(AT + 3 * HOUR)
    assert len(to("pia")) == 1


def test_a_reported_notice_is_not_repeated_the_next_day(notified: Site) -> None:
    deliver(AT)
    deliver(AT + DAY)
    assert len(to("pia")) == 1
    give_core_hours(notified, ends_on=(AT + 9 * DAY).date(), path="/physics/bob")
    evaluate(at=AT + DAY)
    deliver(AT + 2 * DAY)
    second = to("pia")[1].body
    new, older = second.find("/physics/bob"), second.rfind("/physics:")
    assert -1 < new < older, "what is new first, what is still open after it"
    assert second.count("/physics/bob") == 1


def test_read_notices_and_muted_kinds_are_omitted(notified: Site) -> None:
    notice = Notice.objects.get(kind="ending_allocations")
    selectors.mark_read(ids=[notice.pk], at=AT, actor=Actor(notified.pia, "page"))
    set_preference(
        interval="daily", hour=8, muted=["late_source", "ending_allocations"], actor=Actor(notified.admin, "page")
    )
    assert deliver(AT) == 0
    assert set(Mail.objects.values_list("state", flat=True)) == {"empty"}


def test_weekly_is_once_a_week(notified: Site) -> None:
    set_preference(interval="weekly", hour=8, muted=[], actor=Actor(notified.pia, "page"))
    deliver(AT)
    assert Mail.objects.get(user=notified.pia).period == "2026-W47"
    Notice.objects.filter(kind="ending_allocations").update(news_at=AT + HOUR)
    deliver(AT + DAY)
    assert len(to("pia")) == 1
    deliver(AT + 3 * DAY)  # Monday
    assert len(to("pia")) == 2


def test_immediate_mail_combines_simultaneous_notices(notified: Site) -> None:
    set_preference(interval="at_once", hour=8, muted=[], actor=Actor(notified.admin, "page"))
    deliver(AT)
    deliver(AT + timedelta(seconds=30))
    assert len(to("admin")) == 1
    assert "2" in re.findall(r"\d+", to("admin")[0].subject), "how many are new"


def test_users_who_chose_never_get_no_mail(notified: Site) -> None:
    set_preference(interval="off", hour=8, muted=[], actor=Actor(notified.pia, "page"))
    deliver(AT)
    assert to("pia") == []


def test_a_site_that_sends_no_mail_plans_none(notified: Site, settings: Any) -> None:
    settings.FAIRSHARE_EMAIL = "off"
    assert deliver(AT) == 0
    assert not Mail.objects.exists()


def test_a_worker_that_dies_after_sending_repeats_the_same_message(
    notified: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the mail server's yes and the database's: at least once, under one Message-ID."""
    monkeypatch.setattr("django.core.signing.TimestampSigner.timestamp", lambda _self: "1xVSsA")  # of its link
    plan_mails(at=AT)
    with monkeypatch.context() as patch:
        patch.setattr(Mail, "save", lambda *_given, **_more: (_ for _ in ()).throw(SystemExit()))
        with pytest.raises(SystemExit):
            send_mails(at=AT)
    assert len(mail.outbox) == 1
    assert send_mails(at=AT) == len(mail.outbox) - 1, "the first one may still be under way"
    send_mails(at=AT + UNDER_WAY)
    first, again = mail.outbox[0], to(mail.outbox[0].to[0].partition("@")[0])[1]
    assert first.extra_headers["Message-ID"] == again.extra_headers["Message-ID"]
    assert first.body == again.body
    assert send_mails(at=AT + UNDER_WAY) == 0


def test_a_refusing_mail_server_is_retried_and_then_abandoned(notified: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: Any) -> int:
        raise ConnectionRefusedError("password=hunter2")

    plan_mails(at=AT)
    with monkeypatch.context() as patch:
        patch.setattr(EmailBackend, "send_messages", refuse)
        at = AT
        for _n in range(digests.MOST_MAIL_ATTEMPTS):
            assert send_mails(at=at) == 0
            assert send_mails(at=at) == 0  # not again in the same minute
            at = max(Mail.objects.values_list("due_at", flat=True))
    found = Mail.objects.filter(user=notified.pia).get()
    assert (found.state, found.attempts, found.error) == (
        "failed",
        digests.MOST_MAIL_ATTEMPTS,
        "ConnectionRefusedError",
    )


def test_rights_are_checked_when_sending(notified: Site) -> None:
    plan_mails(at=AT)
    Grant.objects.filter(user=notified.pia).delete()
    send_mails(at=AT)
    assert to("pia") == []
    assert Mail.objects.get(user=notified.pia).state == "empty"


def test_user_supplied_names_cannot_inject_headers_or_lines(notified: Site, settings: Any) -> None:
    settings.FAIRSHARE_SITE = "abisko\r\nBcc: evil@example.org"
    notice = Notice.objects.get(kind="late_source")
    notice.facts = {**notice.facts, "source": "X\n\nYour password expired: https://evil.example.org\u2028y"}
    notice.save()
    deliver(AT)
    sent = to("admin")[0]
    parsed = message_from_string(sent.message().as_string())
    assert parsed["Bcc"] is None
    assert "\n" not in sent.subject
    assert not [line for line in sent.body.splitlines() if line.startswith("Your password")]


@pytest.mark.parametrize("address", first(1, ["x@example.org\r\nBcc: evil@example.org", "no address", "a@b\0c"]))
def test_an_invalid_address_gets_no_mail(notified: Site, address: str) -> None:
    if "\0" not in address:
        User.objects.filter(pk=notified.pia.pk).update(email=address)
        deliver(AT)
        assert Mail.objects.get(user=notified.pia).state == "failed"
    assert all("evil" not in str(each.to) for each in mail.outbox)


def test_an_address_that_breaks_lines_gets_no_mail(notified: Site) -> None:
    """Django's check lets separators of Unicode pass as letters of a domain."""
    User.objects.filter(pk=notified.pia.pk).update(email="pia@exam\u2028ple.org")
    assert deliver(AT) == 1
    assert Mail.objects.get(user=notified.pia).state == "failed"
    assert [each.to for each in mail.outbox] == [["admin@example.org"]]


def test_a_digest_lists_so_many_notices_and_counts_the_others(notified: Site) -> None:
    first = Notice.objects.get(kind="late_source")
    more = {"kind": first.kind, "level": "warn", "facts": first.facts, "source": first.source}
    when = {"opened_at": AT, "news_at": AT, "changed_at": AT}
    Notice.objects.bulk_create(Notice(key=f"k{n}", **more, **when) for n in range(digests.MOST_DIGEST_LINES))
    deliver(AT)
    (sent,) = to("admin")
    assert len(re.findall(r"/notices/\d+/", sent.body)) == digests.MOST_DIGEST_LINES
    n_left = len(selectors.list_open_notices(Actor(notified.admin, "page"), AT, limit=999)) - digests.MOST_DIGEST_LINES
    assert re.findall(r"^- [^\d]*(\d+)[^\d]*$", sent.body, re.MULTILINE)[-1:] == [str(n_left)]


def test_only_people_who_signed_in_choose_how_they_are_written_to(notified: Site) -> None:
    token = TokenBounds("fsh_x", frozenset({"admin"}))
    for actor in (SYSTEM, Actor(notified.pia, "api", token=token)):
        with refused(NotAllowed, "session_only"):
            set_preference(interval="daily", hour=8, muted=[], actor=actor)
    assert not Preference.objects.exists()


def test_a_message_has_an_unsubscribe_link(notified: Site) -> None:
    deliver(AT)
    sent = to("pia")[0]
    assert sent.extra_headers["List-Unsubscribe"].startswith("<https://fairshare.example.org/notices/unsubscribe/")
    assert sent.extra_headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert sent.extra_headers["Auto-Submitted"] == "auto-generated"
    assert sent.extra_headers["Message-ID"].endswith("@example.org>")
    assert "https://fairshare.example.org/notices/" in sent.body
    assert sent.content_subtype == "plain"
    for path in ("/notices/", "/notices/mail/"):
        assert resolve(path).namespace == "pages"


@pytest.mark.parametrize("given", first(2, [{"interval": "hourly"}, {"hour": 24}, {"hour": True}, {"muted": ["x"]}]))
def test_invalid_preferences_are_refused(notified: Site, given: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        set_preference(**{"interval": "daily", "hour": 8, "muted": [], **given}, actor=Actor(notified.pia, "page"))
    assert not Preference.objects.exists()


class Server:
    """Replaces the mail server: what `fails` raises happens instead of sending; else the message is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails: Callable[[EmailMessage], Exception | None] = lambda _message: None
        self.n_asked = 0
        send = EmailBackend.send_messages

        def answer(backend: EmailBackend, messages: list[EmailMessage]) -> int:
            self.n_asked += len(messages)
            error = self.fails(messages[0])
            if error is not None:
                raise error
            return send(backend, messages)

        monkeypatch.setattr(EmailBackend, "send_messages", answer)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def run(start: Any, duration: timedelta, step: timedelta = timedelta(minutes=10)) -> None:
    """The schedule, a round each step."""
    for n in range(duration // step):
        deliver(start + n * step)


def news_in(sent: list[Any]) -> list[str]:
    """The links under *New* of all messages."""
    return [found for each in sent for found in re.findall(r"/notices/\d+/", each.body.split("Still open")[0]) if found]


@pytest.mark.parametrize(
    ("error", "interval"),
    [
        (ConnectionRefusedError(), "daily"),
        (TimeoutError(), "at_once"),
        pytest.param(SMTPServerDisconnected(), "daily", marks=pytest.mark.deep),
    ],
)
def test_a_two_hour_outage_loses_and_repeats_nothing(
    notified: Site, server: Server, error: Exception, interval: str
) -> None:
    set_preference(interval=interval, hour=8, muted=[], actor=Actor(notified.pia, "page"))
    server.fails = lambda _message: error
    run(AT, 2 * HOUR)
    assert mail.outbox == []
    server.fails = lambda _message: None
    run(AT + 2 * HOUR, 3 * HOUR)
    assert [len(news_in(to(name))) for name in ("admin", "pia", "ben")] == [2, 1, 0]
    assert [len(to(name)) for name in ("admin", "pia", "ben")] == [1, 1, 0]


def test_notices_of_a_failed_digest_are_in_the_next_one_once(notified: Site, server: Server) -> None:
    server.fails = lambda _message: ConnectionRefusedError()
    run(AT, 4 * HOUR)
    assert set(Mail.objects.values_list("state", flat=True)) == {"failed"} | {"empty"}
    server.fails = lambda _message: None
    for n in (1, 2, 3):
        run(AT + n * DAY, HOUR)
    assert [len(news_in(to(name))) for name in ("admin", "pia")] == [2, 1]


def test_a_refused_recipient_does_not_block_others(notified: Site, server: Server) -> None:
    refused = SMTPRecipientsRefused({"admin@example.org": (550, b"no such user")})
    server.fails = lambda message: refused if "admin" in message.to[0] else None
    assert deliver(AT) == 1
    assert [len(to(name)) for name in ("admin", "pia")] == [0, 1]


def test_a_hanging_server_is_contacted_once_per_round(notified: Site, server: Server) -> None:
    server.fails = lambda _message: TimeoutError()
    deliver(AT)
    assert server.n_asked == 1
    deliver(AT + timedelta(seconds=30))
    assert server.n_asked == 2, "the next round tries the next message"


def test_failed_immediate_mail_is_sent_with_the_next_notice_or_a_day_later(notified: Site, server: Server) -> None:
    set_preference(interval="at_once", hour=8, muted=[], actor=Actor(notified.pia, "page"))
    server.fails = lambda _message: ConnectionRefusedError()
    run(AT, 3 * HOUR, timedelta(minutes=5))  # a round that fails ends: others wait for the next one
    server.fails = lambda _message: None
    run(AT + 3 * HOUR, HOUR)
    assert to("pia") == []
    run(AT + DAY, 3 * HOUR)
    assert len(news_in(to("pia"))) == 1


def test_immediate_mail_contains_only_new_notices(notified: Site) -> None:
    set_preference(interval="at_once", hour=8, muted=[], actor=Actor(notified.admin, "page"))
    deliver(AT)
    Notice.objects.filter(kind="late_source").update(news_at=AT + HOUR)
    deliver(AT + HOUR)
    first, second = to("admin")
    assert len(news_in([first])) == 2
    late = Notice.objects.get(kind="late_source")
    assert re.findall(r"/notices/\d+/", second.body) == [f"/notices/{late.pk}/"]


def test_the_subject_names_the_notice_and_lines_link_to_it(notified: Site, client: Client) -> None:
    deliver(AT)
    sent = to("pia")[0]
    (line,) = selectors.list_open_notices(Actor(notified.pia, "page"), AT)
    assert sent.subject == f"[abisko] {line.sentence.text}"
    assert f"- {line.sentence.text}\n  https://fairshare.example.org/notices/{line.notice.pk}/\n" in sent.body
    sign_in(client, notified.pia)
    answer = client.get(f"/notices/{line.notice.pk}/")
    assert (answer.status_code, answer["Location"]) == (303, "/policy/grid/allocations/")


def test_one_click_stops_mail_without_sign_in_or_form_token(notified: Site) -> None:
    deliver(AT)
    link = to("pia")[0].extra_headers["List-Unsubscribe"].strip("<>").removeprefix("https://fairshare.example.org")
    client = Client(enforce_csrf_checks=True)
    assert client.get(link).status_code == 200
    assert mail_preferences.preference_of(notified.pia).interval == "daily", (
        "programs follow links: only a post stops anything"
    )
    assert client.post(link, {"List-Unsubscribe": "One-Click"}).status_code == 200
    assert mail_preferences.preference_of(notified.pia).interval == "off"
    assert mail_preferences.preference_of(notified.admin).interval == "daily"
    forged = link.rstrip("/")[:-1] + "/"
    assert client.post(forged, {"List-Unsubscribe": "One-Click"}).status_code == 404
