"""Addresses of webhooks: none that is forbidden is stored or called."""

from __future__ import annotations

from typing import Any

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.notices.models import Delivery, Webhook
from apps.contrib.notices.places import Place
from apps.contrib.notices.webhook_calls import call_due
from apps.contrib.notices.webhooks import change_webhook, make_webhook
from tests.federation.test_forbidden_addresses import CHOSEN, check_refusals, connects  # noqa: F401 - fixture
from tests.instants import AT

CALLERS = {"contrib/notices/webhook_calls.py: ask": ("test_a_webhook_with_a_private_address_is_not_called",)}
FIELDS = {
    "contrib.notices.models: Webhook.url": "webhook_calls._call",
    "contrib.notices.pages.forms: url": "make_webhook, change_webhook",
    "contrib.notices.api: url": "",
}


def test_a_typed_private_address_of_a_webhook_is_refused_and_not_stored(db: None, connects: list[Any]) -> None:  # noqa: F811
    person = Actor(user=User.objects.create_user("ada", is_superuser=True), via="page")
    webhook, _ = make_webhook(name="W", url="https://hooks.example.org/", place=Place(), kinds=[], at=AT, actor=person)
    terms: dict[str, Any] = {"name": "W", "kinds": [], "at": AT, "actor": person}
    check_refusals(
        [
            (False, lambda url: make_webhook(url=url, place=Place(), **terms)),
            (False, lambda url: change_webhook(id=webhook.pk, version=webhook.version, url=url, **terms)),
        ]
    )
    assert connects == []
    assert [each.url for each in Webhook.objects.all()] == ["https://hooks.example.org/"]


def test_a_webhook_with_a_private_address_is_not_called(db: None, connects: list[Any]) -> None:  # noqa: F811
    person = Actor(user=User.objects.create_user("ada", is_superuser=True), via="page")
    webhook, _ = make_webhook(name="W", url="https://hooks.example.org/", place=Place(), kinds=[], at=AT, actor=person)
    for url in CHOSEN:
        if len(url) > 2048:
            continue
        Webhook.objects.update(url=url)
        Delivery.objects.all().delete()
        delivery = Delivery.objects.create(webhook=webhook, event="test", news_at=AT, due_at=AT, created_at=AT)
        call_due(at=AT)
        delivery.refresh_from_db()
        assert delivery.state == "failed", url
        assert delivery.error.endswith("."), url
    assert connects == []
