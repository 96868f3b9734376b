"""Pages of notices: the list, its rules, mail and webhooks."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import AuditEvent, User
from apps.notices.evaluating import evaluate
from apps.notices.models import Mark, Notice, Preference, Rule, Webhook
from apps.policies.models import Grant
from apps.usage.models import Source
from tests.api.conftest import AT, _fresh_process, computed, site  # noqa: F401 - fixtures
from tests.api.small_site import Site

DAY = timedelta(days=1)
HTMX = {"HX-Request": "true"}


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def text_of(answer: Any, status: int = 200) -> str:
    assert answer.status_code == status, answer.content[:2000]
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))
    return html.unescape(text).replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture
def told(computed: Site) -> Site:  # noqa: F811
    """A late source, and a role of pia that ends in twenty days."""
    Source.objects.update(expected_every_s=3600, last_record_end_at=AT - timedelta(hours=9))
    Grant.objects.filter(user=computed.pia).update(expires_at=AT + 20 * DAY)
    evaluate(at=AT)
    return computed


@pytest.fixture
def admin(told: Site) -> Client:
    return signed_in(told.admin)


def test_the_list_says_what_needs_a_look_and_leads_there(told: Site, admin: Client) -> None:
    answer = admin.get("/notices/")
    text = text_of(answer)
    assert "2 things need a look, 2 new" in text
    assert "Cluster A is late: its newest usage is 9 hours old." in text
    assert "pia, Allocation manager of /physics: ends on 10 Dec 2026." in text
    assert 'href="/usage/sources/cluster-a/"' in answer.content.decode()
    assert re.search(r"<span>Notices</span><span class=\"count\">2<span class=\"sr\"> \w", answer.content.decode())


def test_each_reader_has_a_list_of_their_own(told: Site) -> None:
    assert "pia, Allocation manager" in text_of(signed_in(told.pia).get("/notices/"))
    assert "its newest usage is" not in text_of(signed_in(told.pia).get("/notices/"))
    assert "Nothing needs a look" in text_of(signed_in(told.nobody).get("/notices/"))


def test_read_put_off_and_shown_again(told: Site, admin: Client) -> None:
    late = Notice.objects.get(kind="late_source")
    answer = admin.post("/notices/read/", {"notice": late.pk, "back": "kind=late_source"})
    assert answer["Location"] == "/notices/?kind=late_source"
    assert "2 things need a look, 1 new" in text_of(admin.get("/notices/"))
    assert "1 notice is read" in text_of(admin.post("/notices/read/", {"up_to": late.pk + 100}, follow=True))
    admin.post("/notices/snooze/", {"notice": late.pk, "days": "7"})
    assert Mark.objects.get(notice=late).snoozed_until == AT + 7 * DAY
    assert "its newest usage is" not in text_of(admin.get("/notices/"))
    assert "put off until 27 Nov" in text_of(admin.get("/notices/?state=snoozed"))
    admin.post("/notices/snooze/", {"notice": late.pk, "days": "0"})
    assert "its newest usage is" in text_of(admin.get("/notices/"))


@pytest.mark.parametrize(
    ("path", "given", "status"),
    [
        ("/notices/read/", {"notice": "x"}, 422),
        ("/notices/read/", {"notice": "99999999"}, 404),
        ("/notices/snooze/", {"notice": "1", "days": "-1"}, 422),
        ("/notices/snooze/", {"notice": "{late}", "days": "3000"}, 422),
    ],
)
def test_odd_forms_are_refused(told: Site, admin: Client, path: str, given: dict[str, str], status: int) -> None:
    given = {name: value.format(late=Notice.objects.get(kind="late_source").pk) for name, value in given.items()}
    assert admin.post(path, given).status_code == status
    assert not Mark.objects.exists()


def test_a_way_back_leads_nowhere_else(told: Site, admin: Client) -> None:
    late = Notice.objects.get(kind="late_source").pk
    answer = admin.post("/notices/read/", {"notice": late, "back": "//evil.example.org\r\nX: y"})
    assert answer["Location"] == "/notices/"


def test_the_filter_narrows_and_says_when_nothing_is_left(told: Site, admin: Client) -> None:
    assert "its newest usage is" not in text_of(admin.get("/notices/?kind=ending_roles"))
    assert "None of these" in text_of(admin.get("/notices/_rows?state=closed", headers=HTMX))
    assert admin.get("/notices/_rows")["Location"] == "/notices/"


def test_rules_are_read_by_everybody_and_changed_by_who_rules_the_place(told: Site, admin: Client) -> None:
    text = text_of(admin.get("/notices/rules/"))
    for part in ("Groups away from their share", "The whole site", "For: 7 days", "Grace: 1 hours"):
        assert part in text, part
    site_rule = Rule.objects.get(kind="late_source", source=None)
    path = f"/notices/rules/{site_rule.pk}/"
    assert text_of(admin.post(path, {"is_on": "on", "version": 1, "terms_grace_h": "20"}, follow=True))
    site_rule.refresh_from_db()
    assert site_rule.terms == {"grace_h": 20}
    assert AuditEvent.objects.filter(verb="notice_rule.set", subject="late_source").exists()
    assert "changed this rule" in text_of(admin.post(path, {"version": 1, "terms_grace_h": "20"}), 412)
    assert "from 0 to 8784" in text_of(admin.post(path, {"version": 2, "terms_grace_h": "-4"}), 422)
    pia = signed_in(told.pia)
    assert "changed by whoever rules this place" in text_of(pia.get(path))
    assert pia.post(path, {"version": 2, "terms_grace_h": "3"}).status_code == 403


def test_a_manager_sets_and_removes_a_rule_below_the_own_entry(told: Site) -> None:
    pia = signed_in(told.pia)
    assert "What, and where" in text_of(pia.get("/notices/rules/new/"))
    where = "/notices/rules/new/?kind=drift&policy=grid&entry=/physics"
    assert "Grid, below /physics" in text_of(pia.get(where))
    said = text_of(pia.post(where, {"is_on": "on", "version": 0, "terms_days": "3"}, follow=True))
    assert "Grid, below /physics" in said
    assert "For: 3 days" in said
    rule = Rule.objects.get(policy=told.policy)
    assert pia.get(where)["Location"] == f"/notices/rules/{rule.pk}/"
    assert "There is no entry /biology" in text_of(pia.get(where.replace("/physics", "/biology")), 422)
    assert "below an entry, whoever divides it" in text_of(pia.get("/notices/rules/new/?kind=drift&policy=grid"), 422)
    assert signed_in(told.ben).get(f"/notices/rules/{rule.pk}/").status_code == 404
    assert signed_in(told.nobody).get("/notices/rules/new/").status_code == 403
    pia.post(f"/notices/rules/{rule.pk}/remove/", {"version": 1})
    assert not Rule.objects.filter(policy=told.policy).exists()


def test_people_choose_how_they_are_written_to(told: Site) -> None:
    User.objects.filter(pk=told.pia.pk).update(email="pia@example.org")
    pia = signed_in(told.pia)
    assert "This site sends no mail; once it does, it goes to pia@example.org" in text_of(pia.get("/notices/mail/"))
    pia.post("/notices/mail/", {"rhythm": "weekly", "hour": "6", "kinds": ["drift"]})
    chosen = Preference.objects.get(user=told.pia)
    assert (chosen.rhythm, chosen.hour) == ("weekly", 6)
    assert "drift" not in chosen.muted
    assert "late_source" in chosen.muted
    text_of(pia.post("/notices/mail/", {"rhythm": "hourly", "hour": "25", "kinds": ["x"]}), 422)


def test_a_webhook_is_made_shown_changed_and_removed(told: Site, admin: Client, settings: Any) -> None:
    assert "No webhooks" in text_of(admin.get("/notices/webhooks/"))
    given = {"name": "Chat", "url": "https://hooks.example.org/T0/secret-path", "policy": "", "entry": ""}
    answer = admin.post("/notices/webhooks/new/", given)
    found = Webhook.objects.get()
    secret = re.search(r'<code id="secret">([^<]+)</code>', answer.content.decode())
    assert secret is not None
    assert "no-store" in answer["Cache-Control"]
    assert secret.group(1) not in found.secret
    page = f"/notices/webhooks/{found.pk}/"
    assert secret.group(1) not in admin.get(page).content.decode()
    assert "secret-path" not in text_of(admin.get("/notices/webhooks/"))
    assert not AuditEvent.objects.filter(details__icontains="secret-path").exists()
    assert text_of(admin.post(page, {**given, "name": "Talk", "version": 1}, follow=True))
    assert "Somebody changed" in text_of(admin.post(page, {**given, "version": 1}), 412)
    assert "A test is on its way" in text_of(admin.post(f"{page}act/", {"step": "test"}, follow=True))
    assert "to be sent" in text_of(admin.get(f"{page}_log", headers=HTMX)).lower()
    assert "A test is on its way already" in text_of(admin.post(f"{page}act/", {"step": "test"}, follow=True))
    admin.post(f"{page}act/", {"step": "off", "version": 2})
    assert not Webhook.objects.get().is_on
    renewed = admin.post(f"{page}act/", {"step": "renew", "version": 3})
    assert "shown only now" in text_of(renewed)
    admin.post(f"{page}act/", {"step": "remove", "version": 4})
    assert not Webhook.objects.exists()
    verbs = AuditEvent.objects.filter(verb__startswith="webhook.").order_by("id").values_list("verb", flat=True)
    assert list(verbs) == [
        f"webhook.{deed}" for deed in ("made", "changed", "tested", "turned_off", "secret_renewed", "removed")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://hooks.example.org/", "Plain http is open"),
        ("https://127.0.0.1/", "private network"),
        ("https://169.254.169.254/", "special address"),
        ("https://user:word@example.org/", "names no user"),
        ("", "required"),
    ],
)
def test_an_address_that_nothing_connects_to_is_refused_at_its_field(admin: Client, url: str, message: str) -> None:
    text = text_of(admin.post("/notices/webhooks/new/", {"name": "Chat", "url": url}), 422)
    assert message in text
    assert not Webhook.objects.exists()


def test_webhooks_of_others_are_not_there(told: Site) -> None:
    pia, ben = signed_in(told.pia), signed_in(told.ben)
    given = {"name": "Physics", "url": "https://hooks.example.org/", "policy": "grid"}
    assert "below an entry, whoever divides it" in text_of(pia.post("/notices/webhooks/new/", given), 422)
    text_of(pia.post("/notices/webhooks/new/", {**given, "entry": "/physics"}))
    page = f"/notices/webhooks/{Webhook.objects.get().pk}/"
    assert "Grid, at and below /physics" in text_of(pia.get(page))
    for client in (ben, signed_in(told.nobody)):
        assert client.get(page).status_code == 404
        assert client.post(f"{page}act/", {"step": "test"}).status_code == 404
        assert "Physics" not in text_of(client.get("/notices/webhooks/"))
    assert "Physics" in text_of(signed_in(told.admin).get("/notices/webhooks/"))
