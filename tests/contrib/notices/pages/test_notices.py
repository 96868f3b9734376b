"""Pages of notices: the list, its rules, mail and webhooks."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import AuditEvent, User
from apps.contrib.notices.models import Mark, Notice, Preference, Rule, Webhook
from apps.priorities.serving import store
from tests.examples import first
from tests.grants import make_grant
from tests.instants import AT
from tests.pages.federation.test_mounts import codes_of
from tests.pages.page import Page, read, text_of
from tests.sign_in import sign_in
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

DAY = timedelta(days=1)
HTMX = {"HX-Request": "true"}


def signed_in(user: User) -> Client:
    return sign_in(Client(), user)


@pytest.fixture
def notified(notices_site: Site) -> Site:
    """A late source, and a role of pia that ends in twenty days."""
    store.poll()
    return notices_site


@pytest.fixture
def admin(notified: Site) -> Client:
    return signed_in(notified.admin)


def kinds_of(answer: Any) -> list[str | None]:
    return [each.attributes["data-key"] for each in read(answer).items("notice")]


def counted(answer: Any) -> tuple[str | None, str | None]:
    """How many notices are open, and how many of them new."""
    title = read(answer).item("notices-headline")
    assert (title.attributes["data-value"] or "") in ["0", *re.findall(r"\d+", text_of(title))]
    return title.attributes["data-value"], title.attributes["data-new"]


def success(answer: Any) -> list[str]:
    return [message.level_tag for message in answer.context["messages"]]


def test_the_list_names_open_items_and_links_to_them(notified: Site, admin: Client) -> None:
    answer = admin.get("/notices/")
    page = read(answer)
    assert counted(answer) == ("2", "2")
    shown = ("late_source", "ending_allocations")
    late, ending = (page.one(f'[data-testid=notice][data-key="{kind}"]') for kind in shown)
    assert all(part in text_of(late) for part in ("Cluster A", "9 hours"))
    assert all(part in text_of(ending) for part in ("1,500", "/physics", "10 Dec 2026"))
    assert [each.attributes["href"] for each in late.css("a")] == ["/usage/sources/cluster-a/"]
    assert text_of(page.one('.tabs a[href="/notices/"] .count')).startswith("2 "), "and in words what it counts"


def test_each_user_has_their_own_list(notified: Site) -> None:
    assert kinds_of(signed_in(notified.pia).get("/notices/")) == ["ending_allocations"]
    assert read(signed_in(notified.nobody).get("/notices/")).item("no-notices").attributes["data-key"] == "none_open"


def test_notices_are_read_snoozed_and_shown_again(notified: Site, admin: Client) -> None:
    late = Notice.objects.get(kind="late_source")
    answer = admin.post("/notices/read/", {"notice": late.pk, "back": "kind=late_source"})
    assert answer["Location"] == "/notices/?kind=late_source"
    assert counted(admin.get("/notices/")) == ("2", "1")
    answer = admin.post("/notices/read/", {"up_to": late.pk + 100}, follow=True)
    assert success(answer) == ["success"]
    assert Mark.objects.filter(user=notified.admin).exclude(read_at=None).count() == 2
    assert counted(answer) == ("2", "0")
    admin.post("/notices/snooze/", {"notice": late.pk, "days": "7"})
    assert Mark.objects.get(notice=late).snoozed_until == AT + 7 * DAY
    assert kinds_of(admin.get("/notices/")) == ["ending_allocations"]
    assert "27 Nov" in text_of(read(admin.get("/notices/?state=snoozed")).item("snoozed-until"))
    admin.post("/notices/snooze/", {"notice": late.pk, "days": "0"})
    assert "late_source" in kinds_of(admin.get("/notices/"))


@pytest.mark.parametrize(
    ("path", "given", "status"),
    first(
        2,
        [
            ("/notices/read/", {"notice": "x"}, 422),
            ("/notices/read/", {"notice": "99999999"}, 404),
            ("/notices/snooze/", {"notice": "1", "days": "-1"}, 422),
            ("/notices/snooze/", {"notice": "{late}", "days": "3000"}, 422),
        ],
    ),
)
def test_incomplete_forms_are_refused(
    notified: Site, admin: Client, path: str, given: dict[str, str], status: int
) -> None:
    given = {name: value.format(late=Notice.objects.get(kind="late_source").pk) for name, value in given.items()}
    assert admin.post(path, given).status_code == status
    assert not Mark.objects.exists()


def test_the_return_address_stays_on_the_site(notified: Site, admin: Client) -> None:
    late = Notice.objects.get(kind="late_source").pk
    for back in ("//evil.example.org\r\nX: y", "csrfmiddlewaretoken=abc", "state=" + "x" * 300 + "&next=//evil"):
        answer = admin.post("/notices/read/", {"notice": late, "back": back})
        assert answer["Location"].partition("?state=")[0] == "/notices/"
        assert "evil" not in answer["Location"]


def test_the_filter_reduces_the_list_and_has_an_empty_state(notified: Site, admin: Client) -> None:
    assert kinds_of(admin.get("/notices/?kind=ending_allocations")) == ["ending_allocations"]
    page = read(admin.get("/notices/_rows?state=closed", headers=HTMX))
    assert page.item("no-notices").attributes["data-key"] == "none_fit"
    assert admin.get("/notices/_rows")["Location"] == "/notices/"


def limits_of(page: Page, kind: str, place: str) -> dict[str | None, str | None]:
    """Limits of the rule of one kind: of the site, or where the text of its place says."""
    for rule in page.all(f'[data-testid=rule][data-key="{kind}"]'):
        where = rule.css_first("[data-testid=rule-place]")
        assert where is not None
        if (place == "site" and where.attributes.get("data-state") == "site") or place in text_of(where):
            limits = rule.css("[data-testid=limit]")
            return {each.attributes["data-key"]: each.attributes["data-value"] for each in limits}
    raise AssertionError(f"no rule of {kind} for {place}")


def test_all_users_read_rules_and_administrators_change_those_of_the_site(notified: Site, admin: Client) -> None:
    page = read(admin.get("/notices/rules/"))
    assert limits_of(page, "over_budget", "site")["percent"] == "100"
    assert limits_of(page, "late_source", "site")["grace_h"] == "1"
    site_rule = Rule.objects.get(kind="late_source")
    path = f"/notices/rules/{site_rule.pk}/"
    answer = admin.post(path, {"is_on": "on", "version": 1, "terms_grace_h": "20"}, follow=True)
    assert success(answer) == ["success"]
    assert limits_of(read(answer), "late_source", "site")["grace_h"] == "20"
    site_rule.refresh_from_db()
    assert site_rule.terms == {"grace_h": 20}
    assert AuditEvent.objects.filter(verb="notice_rule.set", subject="late_source").exists()
    answer = admin.post(path, {"version": 1, "terms_grace_h": "20"})
    assert (answer.status_code, answer.context["form"].is_stale) == (412, True)
    assert answer.context["form"].has_error("__all__", "stale")
    answer = admin.post(path, {"version": 2, "terms_grace_h": "-4"})
    assert (answer.status_code, set(codes_of(answer))) == (422, {"terms_grace_h"})
    assert {"0", "8784"} <= set(re.findall(r"\d+", read(answer, 422).text("#id_terms_grace_h_error")))
    pia = signed_in(notified.pia)
    page = read(pia.get(path))
    assert page.has("[data-testid=read-only]")
    assert not page.has("[name=terms_grace_h]")
    assert not read(admin.get(path)).has("[data-testid=read-only]")
    assert pia.post(path, {"version": 2, "terms_grace_h": "3"}).status_code == 403


def test_a_manager_of_the_whole_policy_sets_and_removes_its_rule(notified: Site) -> None:
    make_grant(notified.ben, notified.uid("/"), "manager", policy=notified.policy, reason="test")
    ben = signed_in(notified.ben)
    assert read(ben.get("/notices/rules/new/")).item("rule-step").attributes["data-key"] == "place"
    where = "/notices/rules/new/?kind=unmapped_usage&policy=grid"
    assert text_of(read(ben.get(where)).item("rule-place")) == notified.policy.name
    answer = ben.post(where, {"is_on": "on", "version": 0, "terms_percent": "30"}, follow=True)
    assert limits_of(read(answer), "unmapped_usage", notified.policy.name)["percent"] == "30"
    rule = Rule.objects.get(policy=notified.policy)
    assert ben.get(where)["Location"] == f"/notices/rules/{rule.pk}/"
    answer = ben.get(where.replace("policy=grid", "policy=other"))
    assert (answer.status_code, set(codes_of(answer))) == (422, {"policy"})
    assert signed_in(notified.pia).get("/notices/rules/new/").status_code == 403
    assert read(signed_in(notified.pia).get(f"/notices/rules/{rule.pk}/")).has("[data-testid=read-only]")
    ben.post(f"/notices/rules/{rule.pk}/remove/", {"version": 1})
    assert not Rule.objects.filter(policy=notified.policy).exists()


def test_users_choose_how_they_are_notified(notified: Site) -> None:
    User.objects.filter(pk=notified.pia.pk).update(email="pia@example.org")
    pia = signed_in(notified.pia)
    way = read(pia.get("/notices/mail/")).item("mail-way")
    assert (way.attributes["data-key"], "pia@example.org" in text_of(way)) == ("not_sent", True)
    pia.post("/notices/mail/", {"interval": "weekly", "hour": "6", "kinds": ["over_budget"]})
    chosen = Preference.objects.get(user=notified.pia)
    assert (chosen.interval, chosen.hour) == ("weekly", 6)
    assert "over_budget" not in chosen.muted
    assert "late_source" in chosen.muted
    answer = pia.post("/notices/mail/", {"interval": "hourly", "hour": "25", "kinds": ["x"]})
    assert answer.status_code == 422
    assert set(answer.context["form"].errors) == {"interval", "hour", "kinds"}


def test_a_webhook_is_created_shown_changed_and_removed(notified: Site, admin: Client, settings: Any) -> None:
    assert read(admin.get("/notices/webhooks/")).has("[data-testid=no-webhooks]")
    given = {"name": "Chat", "url": "https://hooks.example.org/T0/secret-path", "policy": "", "entry": ""}
    answer = admin.post("/notices/webhooks/new/", given)
    found = Webhook.objects.get()
    secret = re.search(r'<code id="secret">([^<]+)</code>', answer.content.decode())
    assert secret is not None
    assert "no-store" in answer["Cache-Control"]
    assert secret.group(1) not in found.secret
    page = f"/notices/webhooks/{found.pk}/"
    assert secret.group(1) not in admin.get(page).content.decode()
    listed = admin.get("/notices/webhooks/")
    assert "hooks.example.org" in text_of(read(listed).item("webhook"))
    assert not read(listed).has("[data-testid=no-webhooks]")
    assert "secret-path" not in listed.content.decode()
    assert not AuditEvent.objects.filter(details__icontains="secret-path").exists()
    assert success(admin.post(page, {**given, "name": "Talk", "version": 1}, follow=True)) == ["success"]
    answer = admin.post(page, {**given, "version": 1})
    assert (answer.status_code, answer.context["form"].has_error("__all__", "stale")) == (412, True)
    assert success(admin.post(f"{page}act/", {"step": "test"}, follow=True)) == ["success"]
    (delivery,) = read(admin.get(f"{page}_log", headers=HTMX)).items("delivery")
    assert (delivery.attributes["data-key"], delivery.attributes["data-state"]) == ("test", "waiting")
    assert success(admin.post(f"{page}act/", {"step": "test"}, follow=True)) == ["warn"], "one is on its way already"
    assert found.deliveries.count() == 1
    admin.post(f"{page}act/", {"step": "off", "version": 2})
    assert not Webhook.objects.get().is_on
    renewed = admin.post(f"{page}act/", {"step": "renew", "version": 3})
    shown = text_of(read(renewed).one("#secret"))
    assert shown not in ("", secret.group(1))
    assert not read(admin.get(page)).has("#secret"), "once alone"
    admin.post(f"{page}act/", {"step": "remove", "version": 4})
    assert not Webhook.objects.exists()
    verbs = AuditEvent.objects.filter(verb__startswith="webhook.").order_by("id").values_list("verb", flat=True)
    assert list(verbs) == [
        f"webhook.{deed}" for deed in ("made", "changed", "tested", "turned_off", "secret_renewed", "removed")
    ]


ALLOW = "FAIRSHARE_OUTBOUND_ALLOW"  # named where the operator can open the address, and nowhere else


@pytest.mark.parametrize(
    ("url", "code", "named", "may_open"),
    first(
        2,
        [
            ("http://hooks.example.org/", "invalid", "hooks.example.org", True),
            ("https://127.0.0.1/", "invalid", "127.0.0.1", True),
            ("https://169.254.169.254/", "invalid", "169.254.169.254", False),
            ("https://user:word@example.org/", "invalid", "", False),
            ("", "required", "", False),
        ],
    ),
)
def test_a_forbidden_webhook_address_is_refused_at_its_field(
    admin: Client, url: str, code: str, named: str, may_open: bool
) -> None:
    answer = admin.post("/notices/webhooks/new/", {"name": "Chat", "url": url})
    assert (answer.status_code, codes_of(answer)) == (422, {"url": {code}})
    text = read(answer, 422).text("#id_url_error")
    assert named in text
    assert (ALLOW in text) is may_open
    assert not Webhook.objects.exists()


def test_webhooks_of_other_users_are_not_found(notified: Site) -> None:
    pia, ben = signed_in(notified.pia), signed_in(notified.ben)
    given = {"name": "Physics", "url": "https://hooks.example.org/", "policy": "grid"}
    answer = pia.post("/notices/webhooks/new/", given)
    assert (answer.status_code, codes_of(answer)) == (422, {"__all__": {"not_allowed"}})
    read(pia.post("/notices/webhooks/new/", {**given, "entry": "/physics"}))
    page = f"/notices/webhooks/{Webhook.objects.get().pk}/"
    place = text_of(read(pia.get(page)).item("webhook-place"))
    assert all(part in place for part in ("Grid", "/physics"))
    for client in (ben, signed_in(notified.nobody)):
        assert client.get(page).status_code == 404
        assert client.post(f"{page}act/", {"step": "test"}).status_code == 404
        assert not read(client.get("/notices/webhooks/")).has("[data-testid=webhook]")
    assert "Physics" in text_of(read(signed_in(notified.admin).get("/notices/webhooks/")).item("webhook"))
