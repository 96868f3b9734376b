"""Rows of the rights matrix for the addresses of this plug-in, and the objects that they name."""

from __future__ import annotations

from apps.accounts.actor import SYSTEM, Actor
from apps.contrib.notices.models import Notice
from apps.contrib.notices.models import Rule as NoticeRule
from apps.contrib.notices.places import Place
from apps.contrib.notices.rules import set_rule
from apps.contrib.notices.webhooks import make_webhook
from apps.policies.models import Grant
from tests.instants import AT
from tests.rights_world import API, HTMX, POLICY, Row, World

STATEMENTS = "policy/<slug:policy>/n/<uuid:uid>/<slug:name>/statements"
WEBHOOK = "notices/webhooks/<int:webhook>/"
ROWS = [
    # REST: notices and statements
    Row(API + "notices", "/api/v1/notices", "401 200 200 200 200 200 403 200 200 401 401",
        word="/physics/bob: 10 core-h", readers="pia admin reader dora"),
    Row(API + "notices/kinds", "/api/v1/notices/kinds", "401 200 200 200 200 200 403 200 200 401 401"),
    Row(API + "notices/<int:notice>", "/api/v1/notices/{notice}", "401 404 404 200 404 200 403 200 404 401 401",
        besides="dora 200"),
    Row(API + "notices/<int:notice>", "/api/v1/notices/{notice}", "401 404 404 200 404 200 403 403 403 401 401",
        "patch", {"is_unread": False}, besides="dora 200"),
    Row(API + "notices/rules", "/api/v1/notices/rules", "401 200 200 200 200 200 403 200 200 401 401",
        word='"policy":"grid"', readers="alice pia ben admin reader dora vera"),
    Row(API + "notices/rules", "/api/v1/notices/rules", "401 403 403 403 403 422 403 403 403 401 401", "post",
        {"kind": "waiting_decisions", "policy": "grid", "is_on": True, "terms": {"days": 0}},
        besides="vera 403 dora 403"),
    Row(API + "notices/rules/<int:rule>", "/api/v1/notices/rules/{notice_rule}",
        "401 404 200 200 200 200 403 200 404 401 401", besides="vera 200 dora 200"),
    Row(API + "notices/rules/<int:rule>", "/api/v1/notices/rules/{notice_rule}",
        "401 404 403 403 403 200 403 403 404 401 401", "patch", {"is_on": False}, headers={"If-Match": '"1"'},
        besides="vera 403 dora 403", remakes="notice_rule"),
    Row(API + "notices/rules/<int:rule>", "/api/v1/notices/rules/{notice_rule}",
        "401 404 403 403 403 204 403 403 404 401 401", "delete", headers={"If-Match": '"1"'},
        besides="vera 403 dora 403", remakes="notice_rule"),
    Row(POLICY + "/statements", "/api/v1/policies/grid/statements?entry={physics}&month=2026-11",
        "401 404 200 200 404 200 403 200 404 401 401", word="/physics/bob", readers="pia admin reader dora",
        besides="vera 200 dora 200"),
    # Mail: a link that stops it, for which only its signature counts
    Row("notices/unsubscribe/<str:token>/", "/notices/unsubscribe/MQ:x:y/",
        "404 404 404 404 404 404 404 404 404 404 404", "post", {"List-Unsubscribe": "One-Click"}),
    # Notices, their rules, mail and webhooks
    Row("notices/", "/notices/", "302 200 200 200 200 200 302 302 302 302 302",
        word="/physics/bob: 10 core-h", readers="pia admin dora", besides="exa 200 rex 200 dora 200"),
    Row("notices/_rows", "/notices/_rows?state=unread", "302 200 200 200 200 200 302 302 302 302 302", headers=HTMX,
        word="/physics/bob: 10 core-h", readers="pia admin dora"),
    Row("notices/read/", "/notices/read/", "302 404 404 303 404 303 302 302 302 302 302", "post",
        {"notice": "{notice}"}, besides="dora 303"),
    Row("notices/snooze/", "/notices/snooze/", "302 404 404 303 404 303 302 302 302 302 302", "post",
        {"notice": "{notice}", "days": "7"}, besides="dora 303"),
    Row("notices/rules/", "/notices/rules/", "302 200 200 200 200 200 302 302 302 302 302", word='data-value="20"',
        readers="alice pia ben admin dora vera", besides="vera 200 dora 200"),
    Row("notices/rules/new/", "/notices/rules/new/?kind=waiting_decisions&policy=grid",
        "302 403 403 403 403 200 302 302 302 302 302", besides="vera 403 dora 403"),
    Row("notices/rules/new/", "/notices/rules/new/?kind=waiting_decisions&policy=grid",
        "302 403 403 403 403 422 302 302 302 302 302", "post", {"version": "0"}, besides="vera 403 dora 403"),
    Row("notices/rules/<int:rule>/", "/notices/rules/{notice_rule}/", "302 404 200 200 200 200 302 302 302 302 302",
        word="id_version", readers="admin", besides="vera 200 dora 200"),
    Row("notices/rules/<int:rule>/", "/notices/rules/{notice_rule}/", "302 404 403 403 403 303 302 302 302 302 302",
        "post", {"version": "1", "terms_percent": "9"}, besides="vera 403 dora 403", remakes="notice_rule"),
    Row("notices/rules/<int:rule>/remove/", "/notices/rules/{notice_rule}/remove/",
        "302 404 403 403 403 303 302 302 302 302 302", "post", {"version": "1"}, besides="vera 403 dora 403",
        remakes="notice_rule"),
    Row("notices/mail/", "/notices/mail/", "302 200 200 200 200 200 302 302 302 302 302"),
    Row("notices/mail/", "/notices/mail/", "302 303 303 303 303 303 302 302 302 302 302", "post",
        {"interval": "off", "hour": "8"}),
    Row("notices/webhooks/", "/notices/webhooks/", "302 200 200 200 200 200 302 302 302 302 302",
        word="Chat of physics", readers="pia admin", besides="dora 200"),
    Row("notices/webhooks/new/", "/notices/webhooks/new/", "302 403 403 200 200 200 302 302 302 302 302",
        besides="dora 200"),
    Row("notices/webhooks/new/", "/notices/webhooks/new/", "302 403 403 200 422 200 302 302 302 302 302", "post",
        {"name": "Tried", "url": "https://hooks.example.org/", "policy": "grid", "entry": "/physics"},
        besides="dora 422"),
    Row(WEBHOOK, "/notices/webhooks/{webhook}/", "302 404 404 200 404 200 302 302 302 302 302",
        word="hooks.example.org/in", readers="pia admin"),
    Row(WEBHOOK, "/notices/webhooks/{webhook}/", "302 404 404 303 404 403 302 302 302 302 302", "post",
        {"name": "Chat of physics", "url": "https://hooks.example.org/in", "version": "1"}, remakes="webhook"),
    Row(WEBHOOK + "_log", "/notices/webhooks/{webhook}/_log", "302 404 404 200 404 200 302 302 302 302 302",
        headers=HTMX),
    *(
        Row(WEBHOOK + "act/", "/notices/webhooks/{webhook}/act/", f"302 404 404 {own} 404 403 302 302 302 302 302",
            "post", {"step": step, "version": "1"}, remakes="webhook")
        for step, own in (("test", 303), ("on", 303), ("renew", 200))
    ),
    Row(WEBHOOK + "act/", "/notices/webhooks/{webhook}/act/", "302 404 404 303 404 303 302 302 302 302 302", "post",
        {"step": "off", "version": "1"}, remakes="webhook"),
    Row(WEBHOOK + "act/", "/notices/webhooks/{webhook}/act/", "302 404 404 303 404 303 302 302 302 302 302", "post",
        {"step": "remove", "version": "1"}, remakes="webhook"),
    # Pages: other authorities
    Row(STATEMENTS + "/", "/policy/grid/n/{bob}/bob/statements/", "302 404 404 200 404 200 302 302 302 302 302",
        besides="dora 200"),
    Row(STATEMENTS + "/table.csv", "/policy/grid/n/{physics}/physics/statements/table.csv?month=2026-11",
        "302 404 200 200 404 200 302 302 302 302 302", word="/physics/bob", readers="pia admin dora",
        besides="vera 200 dora 200"),
    # Mail: its links
    Row("notices/unsubscribe/<str:token>/", "/notices/unsubscribe/MQ:x:y/",
        "404 404 404 404 404 404 404 404 404 404 404"),
    Row("notices/<int:notice>/", "/notices/{notice}/", "302 404 404 303 404 303 302 302 302 302 302",
        besides="dora 303"),
]  # fmt: skip


def _notice(world: World) -> int:
    """That core-hours of /physics/bob end, where the guest has a role."""
    grant = Grant.objects.get(user=world.people["guest"])
    facts = {"path": "/physics/bob", "ends_on": "2026-12-01", "core_h": 10.0, "is_over": False}
    return Notice.objects.create(
        kind="ending_allocations", key=str(world.a_number()), level="warn", facts=facts, policy=world.site.policy,
        entry_uid=grant.entry_uid, opened_at=AT, news_at=AT, changed_at=AT,
    ).pk  # fmt: skip


def _notice_rule(world: World) -> int:
    policy, terms = world.site.policy, {"percent": 20}
    NoticeRule.objects.filter(policy=policy).delete()
    return set_rule(kind="unmapped_usage", policy=policy, is_on=True, terms=terms, version=0, at=AT, actor=SYSTEM).pk


def _webhook(world: World) -> int:
    place = Place(policy=world.site.policy, entry_uid=world.site.uid("/physics"))
    url, pia = "https://hooks.example.org/in", Actor(user=world.site.pia, via="page")
    return make_webhook(name="Chat of physics", url=url, place=place, kinds=[], at=AT, actor=pia)[0].pk


MAKERS = {"notice": _notice, "notice_rule": _notice_rule, "webhook": _webhook}
