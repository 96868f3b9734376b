"""Thirty peers that answer a byte at a time hold up nobody's webhooks."""

from __future__ import annotations

import pytest

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.notices import webhook_calls, webhooks
from apps.contrib.notices.models import Delivery
from apps.contrib.notices.places import Place
from apps.federation.fetch_schedule import MOST_FETCHES_OF_OWNER, request_fetch
from apps.policies.models import Policy
from tests.federation import test_slow_peers as peers
from tests.instants import AT
from tests.slow_server import SlowServer

slow, quick, site, callers = peers.slow, peers.quick, peers.site, peers.callers
pytestmark = pytest.mark.django_db(transaction=True)


def test_thirty_slow_peers_hold_up_nobody_s_webhook(
    site: Policy, slow: SlowServer, quick: peers.QuickServer, callers: peers.Callers
) -> None:
    admin = User.objects.get(username="admin")
    for _n in range(peers.N_SLOW):
        request_fetch(peers.add_mount(site, admin, slow.url), at=AT)
    peers.wait_until(lambda: slow.n_open >= MOST_FETCHES_OF_OWNER)
    owner = Actor(user=User.objects.create_user("other", is_superuser=True), via="page")
    webhook, _ = webhooks.make_webhook(name="Quick", url=quick.url, place=Place(), kinds=(), at=AT, actor=owner)
    delivery = Delivery.objects.create(webhook=webhook, event="test", news_at=AT, due_at=AT, created_at=AT)
    webhook_calls.request_calls(at=AT)
    peers.wait_until(lambda: Delivery.objects.filter(pk=delivery.pk, state="sent").exists())
    assert quick.n_asked == 1
    slow.stop()
    callers.join()
